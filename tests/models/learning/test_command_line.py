"""Mistakes of a user take a line and leave no folder; a bug keeps its traceback; experiments are listed."""

from pathlib import Path

import numpy as np
import pytest
from hydra.utils import instantiate
from omegaconf import OmegaConf
from rich.console import Console

from eqa import train
from eqa.envs.files import here_or_packaged
from eqa.envs.simulator import Goal
from eqa.models.learning.command_line import experiments, first_sentence, in_one_line

MAKES_A_MISTAKE = {"_target_": "eqa.envs.rendering.camera.Camera", "height_px": 0}


def told(tmp_path: Path, task, *made: str) -> None:
    folder = tmp_path / "run"
    for name in ("hydra/config.yaml", "train.log", "run.json", *made):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    in_one_line(lambda cfg: task())(OmegaConf.create({"run_folder": str(folder)}))


def missing_file() -> None:
    Path("/no/such/file").read_text()


def own() -> None:
    Goal((), 1.0)


def made_by_hydra() -> None:
    instantiate(OmegaConf.create(MAKES_A_MISTAKE))


def bug() -> None:
    np.zeros(2).reshape(3)


@pytest.mark.parametrize(
    ("task", "said"), [(own, "goal: "), (made_by_hydra, "height_px: "), (missing_file, "/no/such/file")]
)
def test_a_mistake_takes_a_line_and_its_empty_run_folder_goes(task, said, tmp_path, monkeypatch) -> None:
    monkeypatch.delenv("HYDRA_FULL_ERROR", raising=False)
    with pytest.raises(SystemExit) as ended:
        told(tmp_path, task)
    assert said in ended.value.code and "HYDRA_FULL_ERROR=1" in ended.value.code
    assert not (tmp_path / "run").exists()


def stopped_while_writing() -> None:
    try:
        raise SystemExit(143)
    finally:
        raise RuntimeError("unexpected pos 64 vs 0")  # as torch.save does


def test_a_stop_in_the_middle_of_writing_is_a_stop(tmp_path) -> None:
    with pytest.raises(SystemExit) as ended:
        told(tmp_path, stopped_while_writing)
    assert ended.value.code == 143


def test_a_run_folder_with_work_in_it_stays(tmp_path) -> None:
    with pytest.raises(SystemExit):
        told(tmp_path, own, "navigator/last.ckpt")
    assert (tmp_path / "run" / "navigator" / "last.ckpt").exists()


def test_a_bug_and_all_errors_on_request_keep_their_traceback(tmp_path, monkeypatch) -> None:
    with pytest.raises(ValueError, match="cannot reshape"):
        told(tmp_path, bug)
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    with pytest.raises(ValueError, match="goal: "):
        told(tmp_path, own)
    assert (tmp_path / "run").exists()


def test_a_signal_s_end_leaves_the_folder(tmp_path) -> None:
    def stopped() -> None:
        raise SystemExit(143)

    with pytest.raises(SystemExit):
        told(tmp_path, stopped)
    assert (tmp_path / "run").exists()


def test_every_experiment_is_listed_with_a_whole_sentence(capsys) -> None:
    Console(width=250).print(experiments(train.CONFIGS))
    lines = dict(line.strip().split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert lines.keys() == {path.stem for path in (train.CONFIGS / "experiment").glob("*.yaml")}
    assert all(sentence.endswith(".") and not sentence.endswith("al.") for sentence in lines.values())
    assert first_sentence("# @package _global_\n# One (A et al. 2011).\n# Two.\na: 1 # three") == "One (A et al. 2011)."


def test_a_file_here_comes_before_one_of_the_package(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    weights = "models/weights/encoder.safetensors"
    assert here_or_packaged(weights).is_file()
    (tmp_path / weights).parent.mkdir(parents=True)
    (tmp_path / weights).touch()
    assert here_or_packaged(weights) == Path(weights)
