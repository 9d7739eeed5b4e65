"""Commands on a GPU, and its features beside the CPU's; left out where there is none.

By hand: python -m pytest -m slow tests/test_gpu.py
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import GPU_SEEN

ROOT = Path(__file__).parents[1]
SAME_FEATURES = """
import torch
from eqa.models.encoders.features import FeatureExtractor
rgb = torch.randint(0, 256, (40, 224, 224, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
for weights in ("models/weights/encoder.safetensors", "models/weights/residual.safetensors"):
    here, there = (FeatureExtractor.from_weights(weights, precision="float32", device=d) for d in ("cpu", "auto"))
    assert there.device.type == "cuda" and here.identity == there.identity
    found = there(rgb)
    assert found.device.type == "cuda" and found.dtype == torch.float16
    wanted = here(rgb).float()
    error = float((found.cpu().float() - wanted).norm() / wanted.norm())
    assert error < 5e-3, (weights, error)
"""


def python(*words: str) -> subprocess.CompletedProcess:
    seen = {} if GPU_SEEN is None else {"CUDA_VISIBLE_DEVICES": GPU_SEEN}
    others = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    command = [sys.executable, *words]
    return subprocess.run(command, check=False, cwd=ROOT, env=others | seen, capture_output=True, text=True)


def ran(*words: str) -> None:
    done = python(*words)
    assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]


@pytest.fixture(scope="module", autouse=True)
def gpu() -> None:
    if python("-c", "import torch; assert torch.cuda.is_available()").returncode:
        pytest.skip("no GPU")


@pytest.mark.slow
def test_features_are_the_cpu_s() -> None:
    ran("-c", SAME_FEATURES)


@pytest.mark.slow
def test_each_kind_of_learning_and_evaluation_runs_there(tmp_path: Path) -> None:
    def train(experiment: str, folder: str, *words: str) -> None:
        ran("train.py", f"+experiment={experiment}", "scale=tiny", f"hydra.run.dir={tmp_path / folder}", *words)

    train("il", "il")
    agent = f"checkpoint={tmp_path / 'il' / 'agent.ckpt'}"
    for experiment in ("rl_finetune", "ppo"):
        train(experiment, experiment, agent)
        assert (tmp_path / experiment / "table.md").exists()
    train("pacman_q_dagger", "dagger")
    train("residual_pretrain", "encoder")
    ran("eval.py", agent, "scale=tiny", f"hydra.run.dir={tmp_path / 'played'}")
    assert (tmp_path / "played" / "table.md").exists()
