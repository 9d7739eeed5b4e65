"""train.py as it is typed, on toy walks: sweeps, several processes, signals, loggers; all leave whole run folders."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from importlib.metadata import distributions
from pathlib import Path

import pytest
import torch

from eqa.models.learning import command_line
from tests.helpers.toy_walks import TOY, logged
from tests.helpers.wandb_files import records

ROOT = Path(__file__).parents[2]
STAGES = ("navigator", "answerer")


def start(*words: str, **variables: str) -> subprocess.Popen:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "300", **variables}
    environment.pop("PL_GLOBAL_SEED", None)
    command = [sys.executable, "train.py", *words[:1], *TOY, *words[1:]]  # -m has to come first
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def train(*words: str, status: int = 0, **variables: str) -> str:
    process = start(*words, **variables)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == status, output
    return output


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def weights(folder: Path) -> dict:
    return torch.load(folder / "weights.pt", weights_only=True)


def same(one: dict, other: dict, atol: float = 0.0) -> bool:
    return all(torch.allclose(v, other[s][k], rtol=0, atol=atol) for s in STAGES for k, v in one[s].items())


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("alone") / "run"
    train("seed=1", f"hydra.run.dir={folder}")
    return folder


@pytest.mark.slow
def test_a_sweep_makes_what_single_runs_make_and_skips_what_is_finished(tmp_path, alone):
    words = ["-m", "seed=0,1", f"hydra.sweep.dir={tmp_path}"]
    train(*words)
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {"toy_seed-0", "toy_seed-1"}
    assert same(weights(tmp_path / "toy_seed-1"), weights(alone))
    assert not same(weights(tmp_path / "toy_seed-0"), weights(alone))
    for stage in STAGES:
        assert logged(tmp_path / "toy_seed-1" / stage) == logged(alone / stage)
    records = [json.loads((tmp_path / f"toy_seed-{seed}" / "run.json").read_text()) for seed in (0, 1)]
    assert [record["seed"] for record in records] == [0, 1]
    assert all(
        record["command"].endswith(f"seed={record['seed']}") and "-m" not in record["command"] for record in records
    )
    written = (tmp_path / "toy_seed-1" / "weights.pt").stat().st_mtime_ns
    (tmp_path / "toy_seed-0" / "finished").unlink()
    output = train(*words)
    assert "came to its end before" in output and (tmp_path / "toy_seed-0" / "finished").exists()
    assert (tmp_path / "toy_seed-1" / "weights.pt").stat().st_mtime_ns == written


def test_a_launcher_that_is_not_installed_is_refused_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setattr(command_line, "distributions", list)
    for name, extra in (("slurm", "cluster"), ("submitit_local", "cluster"), ("ray_cluster", "ray")):
        with pytest.raises(SystemExit, match=rf"hydra/launcher={name}: expected the package .*\[{extra}\]"):
            command_line.refuse_missing_launcher(["-m", "+experiment=il", f"hydra/launcher={name}"])
    command_line.refuse_missing_launcher(["-m", "+experiment=il", "hydra/launcher=basic"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("launcher", "package"), [("local", "hydra-submitit-launcher"), ("ray_cluster", "hydra-ray-launcher")]
)
def test_a_launcher_makes_the_runs_that_a_sweep_in_one_process_makes(launcher, package, tmp_path, alone):
    if package not in {found.name.lower().replace("_", "-") for found in distributions()}:
        pytest.skip(f"{package} is not installed")
    train("-m", "seed=0,1", f"hydra/launcher={launcher}", f"hydra.sweep.dir={tmp_path}")
    assert same(weights(tmp_path / "toy_seed-1"), weights(alone))
    assert not same(weights(tmp_path / "toy_seed-0"), weights(alone))
    for seed in (0, 1):
        record = json.loads((tmp_path / f"toy_seed-{seed}" / "run.json").read_text())
        assert record["command"].startswith("python train.py ") and record["command"].endswith(f" seed={seed}")
        assert (tmp_path / f"toy_seed-{seed}" / "finished").exists()


@pytest.mark.slow
@pytest.mark.parametrize("nodes", [1, 2])
def test_torchrun_makes_the_run_that_one_process_makes(nodes, tmp_path):
    """Two processes of one node, or two nodes (here on one machine) of one process each."""
    train("dropout=0.0", f"hydra.run.dir={tmp_path / 'one'}")
    words = [*TOY, "dropout=0.0", f"trainer.devices={2 // nodes}", f"trainer.num_nodes={nodes}", "trainer.strategy=ddp"]
    rendezvous = ["--rdzv-backend=c10d", "--rdzv-id=test", f"--rdzv-endpoint=127.0.0.1:{free_port()}"]
    torchrun = [sys.executable, "-m", "torch.distributed.run", f"--nnodes={nodes}", f"--nproc-per-node={2 // nodes}"]
    command = [*torchrun, *rendezvous, "train.py", *words, f"hydra.run.dir={tmp_path / 'two'}"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "300"}
    environment.pop("PL_GLOBAL_SEED", None)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    agents = [subprocess.Popen(command, cwd=ROOT, env=environment, **pipes) for _ in range(nodes)]
    said = [agent.communicate(timeout=600)[0] for agent in agents]
    assert not any(agent.returncode for agent in agents), "\n".join(said)
    assert "".join(said).count("run folder") == 2
    assert same(weights(tmp_path / "one"), weights(tmp_path / "two"), atol=1e-4)
    assert (tmp_path / "two" / "finished").exists()


@pytest.mark.slow
def test_two_processes_make_one_run_folder_with_the_numbers_of_one(tmp_path):
    train("dropout=0.0", f"hydra.run.dir={tmp_path / 'one'}")
    output = train("dropout=0.0", "trainer.devices=2", "trainer.strategy=ddp", f"hydra.run.dir={tmp_path / 'two'}")
    assert output.count("run folder") == 2
    assert same(weights(tmp_path / "one"), weights(tmp_path / "two"), atol=1e-4)
    record = json.loads((tmp_path / "two" / "run.json").read_text())
    assert set(record["stages"]) == {"data", *STAGES, "results"} and "trainer.devices=2" in record["command"]


@pytest.mark.parametrize("devices", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_signal_ends_the_command_and_the_same_command_goes_on_to_the_same_weights(devices, tmp_path, alone):
    words = ["seed=1", f"hydra.run.dir={tmp_path}", f"trainer.devices={devices}"]
    words += ["trainer.strategy=ddp"] * (devices > 1) + ["stages.navigator.max_epochs=200"]
    process = start(*words)
    deadline = time.monotonic() + 200
    while not (tmp_path / "navigator" / "last.ckpt").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM, output
    assert "stopped by SIGTERM" in output and not (tmp_path / "finished").exists()
    before = json.loads((tmp_path / "run.json").read_text())
    assert before["time_s"] > 0 and before["stages"]["navigator"]["time_s"] > 0
    train(*words[:-1], *["stages.navigator.max_epochs=2"])
    after = json.loads((tmp_path / "run.json").read_text())
    assert after["time_s"] > before["time_s"] and "results" in after["stages"]
    if devices == 1:
        assert all(torch.equal(v, weights(alone)["answerer"][k]) for k, v in weights(tmp_path)["answerer"].items())


def test_an_experiment_is_one_run_of_wandb_and_goes_on_in_it(tmp_path):
    words = ["logger=wandb_offline", f"hydra.run.dir={tmp_path / 'run'}"]
    train(*words, WANDB_SILENT="true")
    (kept,) = (tmp_path / "run" / "wandb").glob("offline-run-*")
    steps = steps_of(kept)
    for stage in STAGES:
        assert len(steps[stage]) > 1 and steps[stage] == sorted(steps[stage])
        assert {row["step"] for row in logged(tmp_path / "run" / stage)} == set(map(str, steps[stage]))
    (tmp_path / "run" / "finished").unlink()
    train(*words, WANDB_SILENT="true")
    ids = {path.name.rsplit("-", 1)[1] for path in (tmp_path / "run" / "wandb").glob("offline-run-*")}
    assert ids == {kept.name.rsplit("-", 1)[1]}


def steps_of(kept: Path) -> dict[str, list[int]]:
    """Steps of each stage in a run that wandb kept, in the order of logging."""
    steps: dict[str, list[int]] = {stage: [] for stage in STAGES}
    for record in records(kept):
        items = {item.key or "/".join(item.nested_key): item.value_json for item in record.history.item}
        for stage in STAGES:
            if f"{stage}/step" in items:
                assert any(name.startswith((f"{stage}/val/", f"{stage}/train/")) for name in items)
                steps[stage].append(int(items[f"{stage}/step"]))
    return steps
