"""Makes questions about annotated scenes of habitat-sim: our question file, and MP3D-EQA's files.

    python scripts/make_scan_questions.py out=mp3d_questions env.scenes=data/scene_datasets \
      "scenes.train='mp3d/*/*.glb'" env.python=$HOME/miniconda3/envs/habitat/bin/python
    python scripts/make_scan_questions.py out=asked env.scenes=exported "scenes.train='train-*'" env.navmesh=made

The question engine asks about the names, boxes and regions of a scene's semantics. Colours are asked where pixels tell
them beyond doubt. View points, spawns and walks are found in the scene, with the moves of env.actions. Settings are in
configs/scans.yaml. A killed run goes on with the next scene. `python train.py +experiment=il data=mp3d_eqa
data.path=OUT env=habitat ...` plays them.
"""

import sys
from pathlib import Path

import hydra
from hydra.utils import instantiate
from omegaconf import DictConfig

from eqa.data.questions.journal import Journal
from eqa.data.questions.scans import make_scan_questions
from eqa.data.questions.storage import write_questions
from eqa.envs.progress import absolute, console, progress
from eqa.scripts.convert_questions import MP3D, convert, read


@hydra.main(version_base="1.3", config_path="../configs", config_name="scans")
def main(cfg: DictConfig) -> None:
    try:
        made(cfg)
    except ValueError as error:
        sys.exit(f"make_scan_questions: {error}")


def made(cfg: DictConfig) -> None:
    """Asks, writes both kinds of files, and prints how many questions each split has."""
    world, out = instantiate(cfg.env), Path(cfg.out).expanduser()
    given = {split: [patterns] if isinstance(patterns, str) else patterns for split, patterns in cfg.scenes.items()}
    scenes = {
        split: [scene_id for pattern in patterns for scene_id in world.settings.matching(pattern)]
        for split, patterns in given.items()
        if patterns
    }
    journals: list[Journal] = []

    def journal(configuration: dict) -> Journal:
        journals.append(Journal(out / "questions.partly", configuration=configuration))
        return journals[-1]

    try:
        with progress("questions", 4 * sum(map(len, scenes.values()))) as advance:
            questions = make_scan_questions(
                world,
                scenes,
                counts={split: cfg.questions[split] for split in scenes},
                seed=cfg.seed,
                question_set=cfg.question_set,
                balance=cfg.balance,
                journal=journal,
                progress=absolute(advance),
            )
    finally:
        world.close()
    file = out / "questions.jsonl"
    write_questions(file, questions)
    for table in convert(read(file), out, to=MP3D, scenes="/").tables():
        console.print(table)
    for one in journals:
        one.remove()
    console.print(f"questions: {out}", soft_wrap=True)


if __name__ == "__main__":
    main()
