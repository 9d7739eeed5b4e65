"""Every experiment at every scale composes, and every class that a configuration names exists."""

import inspect
import os
import shutil
from dataclasses import replace
from importlib.metadata import distributions
from pathlib import Path

import pytest
import torch
from hydra import compose, initialize_config_dir
from hydra.errors import MissingConfigException
from hydra.utils import get_object, instantiate
from omegaconf import DictConfig, OmegaConf

from eqa import train
from eqa.data.generated import GeneratedEQA
from eqa.envs.airsim.drones import DroneSettings
from eqa.envs.habitat.settings import HabitatSettings
from eqa.envs.house.generator import identity_of
from eqa.envs.rendering.camera import Camera
from eqa.models.agents.agent import Agent
from eqa.models.learning.command_line import LAUNCHERS
from eqa.models.learning.run_settings import check_settings
from tests.helpers.toy_room import ToyRooms, untrained_agent

CONFIGS = Path(__file__).parents[1] / "configs"


def names(group: str) -> list[str]:
    return sorted(path.stem for path in (CONFIGS / group).glob("*.yaml"))


def composed(config: str, overrides: list[str]) -> DictConfig:
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        cfg = compose(config, overrides=[*overrides, "run_folder=runs/test"])
    return cfg


def targets(node: object) -> list[str]:
    if isinstance(node, dict):
        return [v for k, v in node.items() if k == "_target_"] + [t for v in node.values() for t in targets(v)]
    return [t for v in node for t in targets(v)] if isinstance(node, list) else []


@pytest.mark.parametrize("scale", names("scale"))
@pytest.mark.parametrize("experiment", names("experiment"))
def test_every_experiment_composes_at_every_scale_and_names_what_exists(experiment: str, scale: str) -> None:
    cfg = composed("train", [f"+experiment={experiment}", f"scale={scale}", "seed=0"])
    found = targets(OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True))
    assert found and all(callable(get_object(name)) for name in found)
    assert cfg.scale.name == scale and cfg.seed == 0


@pytest.mark.parametrize("experiment", names("experiment"))
def test_what_a_module_is_made_from_can_be_read_back_from_its_checkpoint(experiment: str, tmp_path: Path) -> None:
    sizes = {
        "vocabulary_size": 9,
        "feature_size": 6,
        "num_answers": 3,
        "map_shape": [1, 2, 3],
        "name_counts": [3, 2, 2],
        "num_classes": 5,
    }
    sizes |= {"num_colors": 3, "num_rooms": 2, "first_thing": 1, "first_asked": 3}
    agent = {
        "navigator": {"class": "Pacman", "arguments": {"vocabulary_size": 9, "feature_size": 6}},
        "answerer": {
            "class": "NamingAnswerer",
            "arguments": {
                "vocabulary_size": 9,
                "num_answers": 3,
                "feature_size": 6,
                "map_shape": [1, 2, 3],
                "name_counts": [3, 2, 2],
            },
        },
        "samples": 4,
    }
    for name, stage in composed("train", [f"+experiment={experiment}", "scale=tiny"]).stages.items():
        wanted = inspect.signature(get_object(stage.model._target_)).parameters
        given = agent if "samples" in wanted else {key: value for key, value in sizes.items() if key in wanted}
        module = train.build(stage.model, given)
        torch.save(dict(module.hparams), tmp_path / name)
        assert torch.load(tmp_path / name, weights_only=True) == dict(module.hparams)


@pytest.mark.parametrize("experiment", names("experiment"))
def test_an_experiment_takes_what_it_does_not_fit_from_the_agent_that_checkpoint_names(experiment: str) -> None:
    cfg = composed("train", [f"+experiment={experiment}", "checkpoint=that/agent.ckpt"])
    assert cfg.on_finish.get("checkpoint", "that/agent.ckpt") == "that/agent.ckpt"


def test_what_an_experiment_does_not_fit_comes_from_the_last_pacman_q_whatever_ran_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = ToyRooms()
    for age, row in ((20, "PACMAN+Q"), (10, "Reactive"), (30, "PACMAN+Q, spatial attention")):
        path = tmp_path / "runs" / row / "agent.ckpt"
        untrained_agent(source, row).save(path)
        os.utime(path, (1e9 - age, 1e9 - age))
    monkeypatch.chdir(tmp_path)
    for experiment in names("experiment"):
        on_finish = composed("train", [f"+experiment={experiment}"]).on_finish
        if "checkpoint" in on_finish:
            results = instantiate(on_finish, _partial_=True)(source=source, folder=tmp_path, configuration={})
            assert results.other.name == ("Reactive" if experiment == "answerer_rollouts" else "PACMAN+Q"), experiment
    shutil.rmtree(tmp_path / "runs" / "PACMAN+Q")
    with pytest.raises(ValueError, match="is called PACMAN\\+Q under"):
        instantiate(on_finish, _partial_=True)(source=source, folder=tmp_path, configuration={})


@pytest.mark.parametrize("config", ["train", "eval"])
@pytest.mark.parametrize("data", names("data"))
def test_every_source_composes_with_the_world_of_env(data: str, config: str) -> None:
    words = [
        f"data={data}",
        *["data.path=some/files"] * (data not in ("generated", "paper", "city")),
        "env.camera.height_m=0.5",
    ]
    cfg = composed(config, [*words, *["+experiment=il"] * (config == "train")])
    found = OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)
    assert all(callable(get_object(name)) for name in targets(found))
    assert found["data"]["world"] == found["env"] and found["env"]["camera"]["height_m"] == 0.5


@pytest.mark.parametrize("world", sorted(set(names("env")) - {"airsim", "habitat"}))
def test_every_generated_world_can_be_made_and_has_the_seed_of_the_data(world: str) -> None:
    for words, seed in (([], 0), (["data.seed=3"], 3), (["data=eqa_v1", "env.seed=3"], 3)):
        made = instantiate(composed("eval", [f"env={world}", *words]).env)
        assert made.identity.endswith(f" seed {seed}")
        assert replace(made.camera, height_m=Camera().height_m) == Camera()  # a drone's eye is where its pose is


@pytest.mark.parametrize("config", ["train", "eval"])
@pytest.mark.parametrize(("world", "step_m"), [("city", 10.0), ("city_close", 2.0)])
def test_a_world_of_cities_brings_its_data_unless_others_are_typed(config: str, world: str, step_m: float) -> None:
    experiment = ["+experiment=il"] * (config == "train")
    cfg = composed(config, [f"env={world}", "scale=tiny", *experiment])
    assert cfg.env.actions.step_m == cfg.env.actions.climb_m == step_m and len(cfg.env.actions.names) == 6
    assert cfg.data._target_.endswith("GeneratedCityEQA") and dict(cfg.data.cities) == dict(cfg.scale.cities)
    assert cfg.data.encode.weights == cfg.encoder == "models/weights/city.safetensors"
    if config == "train":
        assert cfg.stages.answerer.data.num_frames == cfg.stages.answerer.model.options.num_frames == 1
    assert composed(config, [f"env={world}", "encoder=other", *experiment]).data.encode.weights == "other"
    check_settings(cfg)
    typed = composed(config, [f"env={world}", "data=cityeqa", f"data.path={__file__}", *experiment])
    assert typed.data._target_.endswith("CityEQA") and "City" in typed.env._target_
    assert composed(config, experiment).data._target_.endswith("GeneratedEQA")


def test_the_world_of_habitat_can_be_made_without_habitat(tmp_path: Path) -> None:
    made = instantiate(composed("eval", ["env=habitat", f"env.scenes={tmp_path}"]).env)
    assert made.settings == HabitatSettings(scenes=tmp_path, processes=4, actions=made.actions)
    assert made.camera == Camera() and made.actions.num_headings == 36


def test_a_world_behind_airsim_can_be_made_before_its_server_is_there() -> None:
    pytest.importorskip("msgpack", reason='needs msgpack: pip install -e ".[airsim]"')
    ours, foreign = (instantiate(composed("eval", ["env=airsim", *words]).env) for words in ([], ["env.knows=null"]))
    city = instantiate(composed("eval", ["env=city"]).env)
    for made in (ours, foreign):
        assert (made.camera, made.actions) == (city.camera, city.actions)
        assert replace(made.settings, camera=Camera(), ours=None) == DroneSettings()
    assert ours.identity == ours.settings.ours == city.identity and foreign.missing(["town"]) == {"town"}


@pytest.mark.parametrize("style", GeneratedEQA.styles)
def test_a_style_of_houses_is_one_word_and_the_world_follows_it(style: str) -> None:
    cfg = composed("train", ["+experiment=il", "scale=tiny", f"data.houses.style={style}"])
    check_settings(cfg)
    assert dict(cfg.data.houses) == {**cfg.scale.houses, "style": style} and cfg.env.style == style
    assert instantiate(cfg.env).identity == identity_of(0, style)
    assert composed("eval", ["data=eqa_v1", f"env.style={style}"]).env.style == style


@pytest.mark.parametrize("agent", sorted(set(names("agent")) - {"checkpoint"}))
def test_every_scripted_agent_can_be_made_without_a_checkpoint(agent: str, tmp_path: Path) -> None:
    walks = tmp_path / "walks.jsonl"
    walks.write_text('{"episode_id": "a", "actions": ["forward"]}\n')
    cfg = composed("eval", [f"agent={agent}", "seed=3", *[f"agent.walks={walks}"] * (agent == "recorded")])
    check_settings(cfg)
    assert isinstance(instantiate(cfg.agent), Agent)


@pytest.mark.parametrize("logger", names("logger"))
def test_every_logger_can_be_chosen_by_one_word_and_csv_is_written_beside_it(logger: str) -> None:
    loggers = composed("train", ["+experiment=il", f"logger={logger}"]).logger
    assert list(loggers) == {"off": [], "csv": ["csv"], "wandb_offline": ["csv", "wandb"]}.get(logger, ["csv", logger])
    assert all(callable(get_object(one._target_)) for one in loggers.values())


@pytest.mark.parametrize("launcher", names("hydra/launcher"))
def test_every_launcher_of_sweeps_composes_where_its_package_is_installed(launcher: str) -> None:
    installed = {package.name.lower().replace("_", "-") for package in distributions()}
    (package,) = (package for package, known in LAUNCHERS.values() if launcher in known)
    if package not in installed:
        pytest.skip(f"{package} is not installed")
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        cfg = compose("train", overrides=["+experiment=il", f"hydra/launcher={launcher}"], return_hydra_config=True)
    made = get_object(cfg.hydra.launcher._target_)
    limits = cfg.hydra.launcher.get("timeout_min")
    assert callable(made) and (limits is None or limits > 60)  # minutes; the plugin's own limit is too short


def test_an_unknown_experiment_is_refused_and_the_known_ones_are_named() -> None:
    with pytest.raises(MissingConfigException, match="(?s)il2.*Available options.*il"):
        composed("train", ["+experiment=il2"])


def test_a_finished_run_gets_a_new_folder_and_a_cut_off_one_goes_on(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert train.run_name("+experiment=il,seed=0") == "il_seed-0"
    (tmp_path / "runs" / "il_seed-0").mkdir(parents=True)
    assert train.run_name("+experiment=il,seed=0") == "il_seed-0"
    (tmp_path / "runs" / "il_seed-0" / train.FINISHED).touch()
    assert train.run_name("+experiment=il,seed=0") == "il_seed-0.2"
    assert train.plain_name("+experiment=il,seed=0") == "il_seed-0"


def test_a_run_of_many_words_has_a_folder_of_its_own_that_the_file_system_takes(tmp_path: Path) -> None:
    words = ",".join(f"stages.navigator.model.option_{n}='a number, {n}'" for n in range(20))
    names = [train.plain_name(f"+experiment=il,{words},seed={seed}") for seed in (0, 1)]
    assert names[0] != names[1] and all(name.startswith("il_stages.navigator") for name in names)
    (tmp_path / f"{names[0]}.10" / "hydra").mkdir(parents=True)


def test_threads_add_up_in_one_order_so_that_a_seed_gives_the_same_weights() -> None:
    before = torch.are_deterministic_algorithms_enabled()
    try:
        torch.use_deterministic_algorithms(False)
        instantiate(composed("train", ["+experiment=il", "seed=0"]).trainer, logger=False, enable_checkpointing=False)
        assert torch.are_deterministic_algorithms_enabled() and torch.is_deterministic_algorithms_warn_only_enabled()
    finally:
        torch.use_deterministic_algorithms(before)
