"""Small undamaged files of every kind, and how to read each."""

import gzip
import json
import lzma
from pathlib import Path

import numpy as np

from eqa.data.benchmarks.eqa_v1 import read_eqa_v1, write_eqa_v1  # noqa: F401
from eqa.data.benchmarks.mp3d_eqa import read_mp3d_eqa, write_mp3d_eqa
from eqa.data.demonstrations.storage import Demonstrations, Recording, write
from eqa.data.questions.storage import QuestionSet, load_questions, read_header, write_questions
from eqa.data.vocabulary import Vocabulary
from eqa.envs.episode import Entity, Episode, Spawn
from eqa.envs.house.house import House
from eqa.envs.house.simulator import HouseWorld, ready
from eqa.envs.house.sweethome.importer import import_home
from eqa.envs.house.validate import validate
from eqa.models.agents.neural import NeuralAgent
from eqa.models.evaluation.replays import Replays
from eqa.models.evaluation.runs import keep, read_run
from tests.helpers.small_house import small_house
from tests.helpers.toy_room import ToyRooms, untrained_agent

HOME = """<?xml version='1.0'?>
<home version='7000' name='small' wallHeight='250'>
 <property name='Author' value='nobody'/>
 <level id='ground' name='0' elevation='0' floorThickness='12' height='250'/>
 <level id='upper' name='1' elevation='262' floorThickness='12' height='250'/>
 <room id='r0' level='ground' name='Kitchen'><point x='0' y='0'/><point x='400' y='0'/><point x='400' y='400'/><point x='0' y='400'/></room>
 <room id='r1' level='ground' name='Bedroom'><point x='400' y='0'/><point x='800' y='0'/><point x='800' y='400'/><point x='400' y='400'/></room>
 <pieceOfFurniture id='p0' level='ground' catalogId='eTeks#bed' name='Bed' x='600' y='200' elevation='0' angle='0' width='150' depth='200' height='70' color='FFAA0000'/>
 <doorOrWindow id='d0' level='ground' catalogId='eTeks#door' name='Door' x='400' y='200' angle='1.5707964' width='90' depth='10' height='208'><sash xAxis='0.06' yAxis='0.5' width='0.9' startAngle='0' endAngle='-1.57'/></doorOrWindow>
 <furnitureGroup id='g' level='ground' name='Table' x='150' y='150' angle='0' width='90' depth='90' height='75'><pieceOfFurniture id='p1' catalogId='eTeks#table' name='Table' x='150' y='150' angle='0' width='90' depth='90' height='75'/></furnitureGroup>
 <wall id='w0' level='ground' xStart='0' yStart='0' xEnd='800' yEnd='0' height='250' thickness='10' leftSideColor='FFEEEEEE'/>
 <wall id='w1' level='ground' xStart='800' yStart='0' xEnd='800' yEnd='400' height='250' thickness='10'/>
 <wall id='w2' level='ground' xStart='800' yStart='400' xEnd='0' yEnd='400' height='250' thickness='10'/>
 <wall id='w3' level='ground' xStart='0' yStart='400' xEnd='0' yEnd='0' height='250' thickness='10' arcExtent='0.3'/>
 <wall id='w4' level='ground' xStart='400' yStart='0' xEnd='400' yEnd='400' height='250' thickness='10'/>
 <label id='l' level='ground' x='1' y='1'><text>hello</text></label>
</home>
"""


def episodes() -> list[Episode]:
    touched = (
        Entity("object", "sofa", (1.0, 0.0, 1.0), (2.0, 1.0, 2.0), 3, True),
        Entity("room", "kitchen", (0.0, 0.0, 0.0), (4.0, 2.5, 4.0), 0),
    )
    return [
        Episode(
            f"small-0-{n:03d}", "small-0", "what color is the sofa?", ("red", "blue")[n % 2], "color", "test",
            target_object=3, target_room=0, touched=touched, view_points=((1.0, 0.0, 2.0, 0.0), (1.5, 0.0, 2.0, 0.0)), goal_radius_m=0.5,
            goal_turn_rad=0.5, spawns={"start": Spawn((1.0, 0.0, 2.0, 0.0), 3, 1.0, 1)}, walk="FLS", program="x",
        )
        for n in range(4)
    ]  # fmt: skip


def house(folder: Path) -> str:
    small_house().save(folder / "house.json")
    return (folder / "house.json").read_text()


def read_house(path: Path) -> None:
    read = House.load(path)
    try:
        validate(read, overlaps=True)
        ready(read)
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from None


def home(folder: Path) -> str:
    return HOME.replace("'", chr(34))


def read_home(path: Path) -> None:
    import_home(path, "human-00000")


def questions(folder: Path) -> str:
    header = {"format": "eqa-questions", "version": 3, "configuration": {"seed": 0}, "steps": {}}
    write_questions(folder / "questions.jsonl", QuestionSet({"train": episodes(), "test": episodes()[:2]}, header))
    return (folder / "questions.jsonl").read_text()


def read_questions(path: Path) -> None:
    read_header(path)
    for split in ("train", "test"):
        load_questions(path, split)


def eqa_v1(folder: Path) -> str:
    write_eqa_v1(folder / "eqa_v1.json", {"train": episodes(), "val": [], "test": []})
    return (folder / "eqa_v1.json").read_text()


def mp3d(folder: Path) -> str:
    write_mp3d_eqa(folder / "test.json.gz", episodes(), vocabulary=Vocabulary.of(episodes()))
    return gzip.decompress((folder / "test.json.gz").read_bytes()).decode()


read_mp3d = read_mp3d_eqa


def rows(folder: Path) -> str:
    common = {"scene_id": "small-0", "question_type": "color", "question": "what color is the sofa?", "answer": "red"}
    found = []
    for agent, spawn in (("PACMAN+Q", "T-10"), ("PACMAN+Q", "T-30"), ("question only", None)):
        for n in range(3):
            walk = {
                "actions": [0, 0, 3],
                "poses": [[1.0, 0.0, 2.0, 0.0]] * 4,
                "distances": [3.0, 2.5, 2.0, 2.0],
                "ep_len": 3.0,
            }
            walk |= {"d_0": 3.0, "d_T": 2.0, "d_delta": 1.0, "d_min": 2.0, "r_T": 1.0, "r_e": 1.0, "stop": 1.0}
            said = {"predicted": "red", "correct": 1.0, "rank": 1.0}
            walked = dict.fromkeys(walk) if spawn is None else walk
            found.append({"agent": agent, "spawn": spawn, "episode_id": f"e{n}", **common, **said, **walked})
    return "\n".join(map(json.dumps, found)) + "\n"


def kept_rows(folder: Path) -> str:
    run = folder / "whole"
    run.mkdir(exist_ok=True)
    (run / "metrics.jsonl").write_text(rows(folder))
    return lzma.decompress((keep(run, folder / "out") / "metrics.jsonl.xz").read_bytes()).decode()


def read_rows(path: Path) -> None:
    read_run(path.parent)


def record(folder: Path) -> str:
    (folder / "run").mkdir(exist_ok=True)
    (folder / "run" / "metrics.jsonl").write_text(rows(folder))
    return json.dumps(
        {
            "row": "PACMAN+Q",
            "seed": 0,
            "commit": "a",
            "configuration": {"stages": {"a": {"lr": 0.1}}},
            "data": {"questions": "a"},
            "time_s": 1.0,
            "memory_gb": 1.0,
            "stages": {},
        }
    )


def demonstrations(folder: Path) -> bytes:
    lengths = np.array([3, 4])
    total = int(lengths.sum())
    part = Recording(
        episodes=episodes()[:2], lengths=lengths, features=np.ones((total, 8), np.float16),
        actions=np.array([0, 1, 3, 0, 0, 2, 3], np.int8), poses=np.zeros((total, 4)), distance_m=np.zeros(total, np.float32),
    )  # fmt: skip
    write(folder / "test.h5", [part], num_frames=total, num_features=8, config={"seed": 0})
    return (folder / "test.h5").read_bytes()


read_demonstrations = Demonstrations.open


def agent(folder: Path) -> bytes:
    untrained_agent(ToyRooms()).save(folder / "agent.ckpt")
    return (folder / "agent.ckpt").read_bytes()


read_agent = NeuralAgent.load


def read_replays(path: Path) -> None:
    Replays(path.parent, world=HouseWorld(lambda _: small_house()), episodes=lambda _: episodes()).rows()
