"""One run an experiment: stages under their names, steps that do not go back, and table, plans and films at the end."""

import json
from pathlib import Path

import pytest
import wandb
from PIL import Image

from eqa.models.evaluation.run_tables import headings
from eqa.models.learning import run_loggers
from eqa.models.learning.run_loggers import TensorBoardRun, WandbRun
from tests.helpers.wandb_files import records


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A folder with what a run leaves: a row, a table, a plan and a film of two frames."""
    folder = tmp_path / "il"
    for name in ("plans", "films"):
        (folder / name).mkdir(parents=True)
    (folder / "metrics.jsonl").write_text(json.dumps({"agent": "PACMAN+Q", "spawn": "T-10", "d_T": 0.5}) + "\n")
    (folder / "table.md").write_text("| agent |\n| --- |\n| PACMAN+Q |\n")
    Image.new("RGB", (8, 6), "red").save(folder / "plans" / "00_a.png")
    frames = [Image.new("RGB", (8, 6), color) for color in ("red", "blue")]
    frames[0].save(folder / "films" / "00_a.gif", save_all=True, append_images=frames[1:])
    return folder


def test_tensorboard_has_stages_table_plans_and_films_in_one_folder(run: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    logs = TensorBoardRun()
    for stage, values in (("navigator", (0.5, 0.25)), ("answerer", (3.0,))):
        logger = logs(save_dir=run / stage)
        for step, value in enumerate(values):
            logger.log_metrics({"val/loss": value}, step)
        logger.finalize("success")
    logs.finish(run)
    found = EventAccumulator(str(run / "tensorboard"))
    found.Reload()
    scalars = {tag: [(e.step, e.value) for e in found.Scalars(tag)] for tag in found.Tags()["scalars"]}
    assert scalars == {"navigator/val/loss": [(0, 0.5), (1, 0.25)], "answerer/val/loss": [(0, 3.0)]}
    assert set(found.Tags()["images"]) == {"results/plans/00_a", "results/films/00_a"}
    (film,) = found.Images("results/films/00_a")
    assert film.encoded_image_string == (run / "films" / "00_a.gif").read_bytes() and (film.width, film.height) == (
        8,
        6,
    )
    (text,) = found.Tensors("results/table/text_summary")
    assert b"PACMAN+Q" in text.tensor_proto.string_val[0]


def test_wandb_has_stages_table_plans_and_films_in_one_run(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_SILENT", "true")
    logs = WandbRun(project="eqa", offline=True)
    for stage, values in (("navigator", (0.5, 0.25)), ("answerer", (3.0,))):
        logger = logs(save_dir=run / stage)
        for step, value in enumerate(values):
            logger.log_metrics({"val/loss": value}, step)
        logger.log_hyperparams({"lr": 1e-3})
        logger.finalize("success")
    logs.finish(run)
    wandb.teardown()  # its process writes the last blocks
    (kept,) = (run / "wandb").glob("offline-run-*")
    of_steps, items = [], {}
    for record in records(kept):
        of_steps += [record.history.step.num] * record.HasField("history")
        items |= {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
    assert of_steps == sorted(set(of_steps)) and len(of_steps) == 6
    assert (items["navigator/step"], items["navigator/val/loss"]) == (1, 0.25)
    assert (items["answerer/step"], items["answerer/val/loss"]) == (0, 3.0)
    table = json.loads((kept / "files" / items["results/table/path"]).read_text())
    assert table["columns"] == headings([]) and table["data"][0][:3] == ["PACMAN+Q", "T-10", "0.50"]
    for name in ("plans", "films"):
        assert items[f"results/{name}/count"] == 1


@pytest.mark.parametrize(("made", "name"), [(TensorBoardRun, "tensorboard"), (None, "wandb")])
def test_a_logger_whose_package_is_missing_is_refused_before_any_work(
    made: type | None, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_loggers, "find_spec", lambda package: None)
    with pytest.raises(ImportError, match=f"logger={name}: expected the package {name}.*pip install {name}"):
        TensorBoardRun() if made else WandbRun(project="eqa", offline=True)
