"""The wheel, installed into a new environment: its commands and its package work in a folder that is not the project's."""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PLAY = """
import data, gymnasium as gym
assert data.OWN
env = gym.make("eqa:eqa/House-v1", image_size=(32, 32), answer=True)
import eqa.envs
assert "site-packages" in eqa.__file__ and "site-packages" in eqa.envs.__path__[0]
observation, info = env.reset(seed=0)
assert env.observation_space.contains(observation)
print("answers", len(env.unwrapped.answers), "reward", env.step(3)[1])
"""
pytestmark = pytest.mark.slow


def without_path() -> dict[str, str]:
    """The environment, in which a copy of the project on the path would win."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the wheel, and with the packages of the tests but not their `eqa`."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z"], check=False, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout")
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file() and not name.startswith(("tests/", "docs/")):
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, source / name)
    pip = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check"]
    here = without_path()
    subprocess.run([*pip, "wheel", "--no-deps", "-w", folder, source], check=True, env=here)
    venv.create(folder / "venv", with_pip=False)
    (site,) = (folder / "venv").glob("lib/python*/site-packages")
    (wheel,) = folder.glob("eqa-*.whl")
    python = folder / "venv" / "bin" / "python"
    subprocess.run([*pip, "--python", python, "install", "--no-deps", wheel], check=True, env=here)
    (site / "tests.pth").write_text(f"{sysconfig.get_paths()['purelib']}\n")
    return folder / "venv" / "bin"


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("elsewhere")
    (folder / "data").mkdir()
    (folder / "data" / "__init__.py").write_text("OWN = True\n")
    return folder


def run(*words: object, folder: Path, fails: bool = False) -> str:
    environment = {**without_path(), "COLUMNS": "200", "EQA_DATA": str(folder.parent / "wheel_data")}
    done = subprocess.run(
        list(map(str, words)), check=False, cwd=folder, env=environment, capture_output=True, text=True, timeout=1200
    )
    assert (done.returncode != 0) == fails, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_eqa_train_lists_the_experiments(installed: Path, elsewhere: Path) -> None:
    said = run(installed / "eqa-train", folder=elsewhere)
    experiments = [path.stem for path in (ROOT / "configs" / "experiment").glob("*.yaml")]
    assert all(f"\n{name} " in said for name in experiments)


def test_what_is_wrong_is_said_in_a_line_and_leaves_no_run_folder(installed: Path, elsewhere: Path) -> None:
    for words in (
        ["eqa-train", "+experiment=il", "seed=-1"],
        ["eqa-eval", "checkpoint=none.ckpt"],
        ["eqa-play", "data.seed=x"],
    ):
        said = run(installed / words[0], *words[1:], folder=elsewhere, fails=True)
        assert "Traceback" not in said and "expected" in said, said
    assert not [path for path in (elsewhere / "runs").glob("*") if path.name != "eval"]


def test_gymnasium_knows_the_environment_beside_a_package_called_data(installed: Path, elsewhere: Path) -> None:
    assert "answers" in run(installed / "python", "-c", PLAY, folder=elsewhere)


def test_eqa_eval_plays_the_agent_that_comes_with_it_and_a_scripted_one(installed: Path, elsewhere: Path) -> None:
    for words in ([], ["agent=forward"]):
        folder = f"played_{len(words)}"
        run(installed / "eqa-eval", *words, "scale=tiny", f"hydra.run.dir={folder}", folder=elsewhere)
        record = (elsewhere / folder / "run.json").read_text()
        assert f'"command": "eqa-eval {" ".join([*words, "scale=tiny"])}' in record and '"eqa":' in record
        assert (elsewhere / folder / "table.md").is_file()
