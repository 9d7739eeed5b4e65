"""The question set that comes with the package is the default run's, and what the engine makes today."""

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate

from eqa.data.generated import GeneratedEQA
from eqa.data.questions.generate import ALL_SPLITS, configuration
from eqa.data.questions.published import PACKAGED, publish_questions, published_questions
from eqa.data.questions.rules import load_rules
from eqa.data.questions.spawns import add_spawns
from eqa.data.questions.storage import load_questions, write_questions
from eqa.data.questions.templates import Generator
from eqa.envs.house.generator import generate_house

ROOT = Path(__file__).parents[3]
REMEDY = (
    "the packaged questions are older than the engine: python scripts/make_questions.py, then python scripts/publish.py "
    "questions FILE --out data/questions/published"
)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> GeneratedEQA:
    """The default run's data in an empty data folder."""
    with pytest.MonkeyPatch.context() as patch, initialize_config_dir(str(ROOT / "configs"), version_base="1.3"):
        patch.setenv("EQA_DATA", str(tmp_path_factory.mktemp("data")))
        return instantiate(compose("train", ["+experiment=il"]).data, encode=None)


def test_the_default_run_takes_its_questions_from_the_package_and_makes_no_house_for_them(source) -> None:
    assert published_questions(configuration(**source._questions_arguments)) is not None, REMEDY
    counts = {split: len(source.episodes(split)) for split in ALL_SPLITS}
    header = json.loads((PACKAGED / "header.json").read_text())
    assert counts == {split: sum(of_type.values()) for split, of_type in header["counts"].items()}
    assert not (source.root / "houses").exists()


def test_the_engine_asks_and_walks_the_same_in_some_of_its_houses(source) -> None:
    rules = load_rules()
    generator = Generator(rules, list(rules.sets["eqa_v1"]))
    for split, row in (("test", 0), ("val", -1)):
        scene_id = source.episodes(split)[row].scene_id
        episodes = [episode for episode in source.episodes(split) if episode.scene_id == scene_id]
        house = generate_house(seed=source.seed, split=split, index=int(scene_id.split("-")[1]), style=source.style)
        asked = {(q.text, q.answer, q.target_object, q.program) for q in generator.generate(house)}
        assert episodes and {(e.question, e.answer, e.target_object, e.program) for e in episodes} <= asked, REMEDY
        bare = [replace(episode, spawns=None, walk=None) for episode in episodes]
        assert add_spawns(house, bare) == episodes, REMEDY


@pytest.fixture
def folder(source: GeneratedEQA, tmp_path: Path) -> Path:
    publish_questions(source.questions_path, tmp_path / "set")
    return tmp_path / "set"


def test_a_set_comes_back_from_its_folder_as_it_was(source: GeneratedEQA, folder: Path, tmp_path: Path) -> None:
    wanted = configuration(**source._questions_arguments)
    write_questions(tmp_path / "again.jsonl", published_questions(wanted, folder))
    assert all(load_questions(tmp_path / "again.jsonl", s) == source.episodes(s) for s in ALL_SPLITS)
    assert published_questions({**wanted, "seed": 1}, folder) is None


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (lambda lines: lines[:-1], "val.jsonl.gz.*expected 158 questions, got 157"),
        (lambda lines: [*lines[:-1], b'{"episode_id": 1}\n'], "val.jsonl.gz: not a usable part"),
        (lambda lines: [*lines[:-1], lines[-1][:50]], "val.jsonl.gz: not a usable part"),
    ],
)
def test_a_damaged_part_is_refused_by_name(source, folder, tmp_path, lines, message) -> None:
    path = folder / "val.jsonl.gz"
    path.write_bytes(gzip.compress(b"".join(lines(gzip.decompress(path.read_bytes()).splitlines(keepends=True)))))
    with pytest.raises(ValueError, match=message):
        write_questions(
            tmp_path / "again.jsonl", published_questions(configuration(**source._questions_arguments), folder)
        )
    assert not (tmp_path / "again.jsonl").exists()


def test_a_damaged_header_is_refused_by_name(source, folder) -> None:
    (folder / "header.json").write_text("{}")
    with pytest.raises(ValueError, match="header.json: not a published set's header"):
        published_questions(configuration(**source._questions_arguments), folder)
