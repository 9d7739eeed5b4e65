"""Settings are checked before any work: wrong ones are refused by name, and none is forgotten."""

import inspect
from collections.abc import Callable
from copy import deepcopy
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Union, get_args, get_origin

import pytest
from hydra import compose, initialize_config_dir
from hydra.utils import get_object
from omegaconf import DictConfig, OmegaConf

from eqa.models.learning.run_settings import (
    FINITE,
    NETWORKS,
    RULES,
    check_settings,
    forget_variant_of,
    in_words_of_today,
    leaves,
    named,
    refuse_old_words,
    rule_of,
)
from tests.helpers.commands import Outcome, outcomes

CONFIGS = Path(__file__).parents[3] / "configs"
EXPERIMENTS = sorted(path.stem for path in (CONFIGS / "experiment").glob("*.yaml"))


@cache
def _composed(config: str, *words: str) -> DictConfig:
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        return compose(config, overrides=[*words, *["run_folder=runs/test"] * (config != "demos")])


def composed(config: str, *words: str) -> DictConfig:
    return deepcopy(_composed(config, *words))


@pytest.mark.parametrize("scale", ["tiny", "small", "paper"])
@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_what_ships_is_fine_and_every_number_in_it_has_a_rule(experiment: str, scale: str) -> None:
    cfg = composed("train", f"+experiment={experiment}", f"scale={scale}")
    check_settings(cfg)
    content = OmegaConf.to_container(cfg, resolve=True)
    numbers = [path for path, value in leaves(content) if isinstance(value, int | float | None)]
    without = [path for path in numbers if not path.startswith(("hydra.", "logger.")) and rule_of(path) is None]
    assert not [path for path in without if path not in TEXTS] and len(numbers) > 20


TEXTS = ("on_finish.base_name", "on_finish.checkpoint", *(f"trainer.{n}" for n in (
    "use_distributed_sampler", "enable_progress_bar", "enable_model_summary")))  # fmt: skip


def test_every_rule_is_of_use() -> None:
    used = set()
    for experiment in EXPERIMENTS:
        content = OmegaConf.to_container(composed("train", f"+experiment={experiment}"), resolve=True)
        paths = [*(path for path, _ in leaves(content)), *numbers_taken(content)]
        used |= {id(path_rule) for path in paths if (path_rule := rule_of(path))}
    others = (
        ("eval", "checkpoint=x"),
        ("eval", "agent=frontier", "data=mp3d_eqa", "data.path=x"),
        ("demos", "env=city"),
        ("demos",),
    )
    for config, *words in others:
        content = OmegaConf.to_container(composed(config, *words), resolve=True)
        used |= {id(path_rule) for path, _ in leaves(content) if (path_rule := rule_of(path))}
    rare = {
        "stages",
        "on_finish",
        "stages.*.data.num_workers",
        "stages.*.model.microbatch_size",
        "stages.*.model.draw_every",
    }
    assert {pattern for pattern, rule in RULES.items() if id(rule) not in used} <= rare


@pytest.mark.parametrize("shard", ["9/8", "0/8", "x", "3"])
def test_a_shard_that_is_none_is_refused_by_name(shard: str) -> None:
    check_settings(composed("demos", "shard=3/8"))
    with pytest.raises(ValueError, match=rf"shard: expected NUMBER/PARTS as in 3/8.*, or null, got '?{shard}'?"):
        check_settings(composed("demos", f"shard={shard}"))


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_no_number_that_a_class_takes_may_be_just_any(experiment: str) -> None:
    taken = numbers_taken(OmegaConf.to_container(composed("train", f"+experiment={experiment}"), resolve=True))
    assert len(taken) > 20
    assert not [path for path in taken if (rule_of(path) or FINITE).fits(-7)]


def numbers_taken(content: dict) -> list[str]:
    """What can be set on the command line to a number, though no configuration sets it."""
    taken = []
    for path, node in named(content):
        if not path.startswith("logger"):
            taken += [f"{path}.{name}" for name in numbers_of(get_object(node["_target_"]))]
        for part, known in NETWORKS.items():
            if node.get(part) in known:
                taken += [f"{path}.options.{name}" for name in numbers_of(known[node[part]])]
    return taken


def numbers_of(target: Callable) -> list[str]:
    """Arguments, also of the classes that it passes others on to, that are annotated as numbers."""
    found = {}
    for callable_ in (c.__init__ for c in target.__mro__[:-1]) if inspect.isclass(target) else (target,):
        found |= dict(inspect.signature(callable_).parameters)
    return [
        name
        for name, parameter in found.items()
        if {int, float} & {parameter.annotation, *_either(parameter.annotation)} and name not in GIVEN_BY_THE_REST
    ]


def _either(annotation: object) -> tuple:
    return get_args(annotation) if get_origin(annotation) in (Union, UnionType) else ()


# By the data that a stage learns from, whatever is set.
GIVEN_BY_THE_REST = ("vocabulary_size", "feature_size", "num_actions", "samples", "height_px", "width_px", *(
    f"num_{n}" for n in ("answers", "classes", "colors", "rooms")), "first_thing", "first_asked")  # fmt: skip


NAVIGATOR, MODEL = "stages.navigator", "stages.navigator.model"
WRONG = {
    "il": [
        ("on_finish.split=nope", "on_finish.split: expected one of train, val, test, human, got 'nope'"),
        ("stages.answerer.data.num_frames=-1", "stages.answerer.data.num_frames: expected a whole number from 1 on"),
        ("stages.answerer.data.num_frames=1.5", "num_frames: expected a whole number from 1 on, or null, got 1.5"),
        ("seed=-1", "seed: expected a whole number from 0 to 4294967295, got -1"),
        ("seed=abc", "seed: expected a whole number from 0 to 4294967295, got 'abc'"),
        ("seed=true", "seed: expected a whole number from 0 to 4294967295, got True"),
        ("data.seed=4294967296", "data.seed: expected a whole number"),
        (f"{MODEL}.optimizer=lion", f"{MODEL}.optimizer: expected one of adam, adamax, adamw, got 'lion'"),
        (f"{MODEL}.navigator=Pacmann", f"{MODEL}.navigator: expected one of Pacman, Reactive, Lstm, Transformer, got"),
        (f"{MODEL}.schedule=step", f"{MODEL}.schedule: expected one of constant, cosine, got 'step'"),
        (f"{MODEL}.lr=1e30", f"{MODEL}.lr: expected a number above 0 to 1, got 1e+30"),
        (f"{MODEL}.lr=nan", f"{MODEL}.lr: expected a number above 0 to 1, got nan"),
        (f"{MODEL}.lr=0", f"{MODEL}.lr: expected a number above 0 to 1, got 0"),
        (f"{MODEL}.options.dropout=1", f"{MODEL}.options.dropout: expected a number from 0 below 1, got 1"),
        (f"{MODEL}.options.stop_odds=0", f"{MODEL}.options.stop_odds: expected a number above 0, got 0"),
        (f"+{MODEL}.options.planer_hidden=8", f"{MODEL}.options.planer_hidden: expected one of action_size, "),
        (f"+{MODEL}.learning_rate=0.1", f"{MODEL}.learning_rate: expected one of "),
        ("save_top_k=0", "save_top_k: expected a whole number from 1 on, got 0"),
        (f"{NAVIGATOR}.max_epochs=-1", f"{NAVIGATOR}.max_epochs: expected a whole number from 1 on, got -1"),
        (f"{NAVIGATOR}.monitor=loss", f"{NAVIGATOR}.monitor: expected a figure of validation, val/..., got 'loss'"),
        (f"{NAVIGATOR}.mode=least", f"{NAVIGATOR}.mode: expected one of min, max, got 'least'"),
        (f"{NAVIGATOR}.data.batch_size=0", f"{NAVIGATOR}.data.batch_size: expected a whole number from 1 on, got 0"),
        ("patience=0", "patience: expected a whole number from 1 on, or null, got 0"),
        ("scale.houses.train=0", "scale.houses.train: expected a whole number from 1 on, got 0"),
        ("data.balance=even", "data.balance: expected one of none, entropy, paired, got 'even'"),
        ("data.question_set=v2", "data.question_set: expected one of eqa_v1, all, cityeqa, got 'v2'"),
        ("data.human_walks=nowhere.h5", "data.human_walks: expected a file that is there, or null, got 'nowhere.h5'"),
        ("encoder=nowhere", "encoder: expected a file that is there, got 'nowhere'"),
        ("trainer.devices=0", "trainer.devices: expected a whole number from 1 on, or auto, got 0"),
        ("trainer.precision=8", "trainer.precision: expected one of 32-true"),
        ("trainer.gradient_clip_val=-1", "trainer.gradient_clip_val: expected a number above 0, or null, got -1"),
        (f"{MODEL}.options.planner_hidden=-3", f"{MODEL}.options.planner_hidden: expected a whole number from 1 on"),
        (f"+{MODEL}.options.planner=8", f"{MODEL}.options.planner: expected a text, got 8"),
        ("+trainer.max_steps=-5", "trainer.max_steps: expected a whole number from 1 on, or -1 for no limit, got -5"),
        (
            "+trainer.limit_train_batches=-1",
            "trainer.limit_train_batches: expected a whole number from 1 on, or a share",
        ),
        ("+trainer.limit_val_batches=1.5", "trainer.limit_val_batches: expected a whole number from 1 on, or a share"),
        ("+trainer.max_epochs=3", "trainer.max_epochs: expected none: stages.NAME.max_epochs says it, got 3"),
        ("+trainer.max_step=3", "trainer.max_step: expected one of "),
        (
            "checkpoint=nowhere.ckpt",
            "checkpoint: expected an agent's file or folder that is there, or last, got 'nowhere.ckpt'",
        ),
    ],
    "reinforce_paper": [
        (f"{MODEL}.baseline=mean", f"{MODEL}.baseline: expected one of none, moving_average, rloo, critic, got 'mean'"),
        (f"{MODEL}.clip_range=1", f"{MODEL}.clip_range: expected a number above 0 below 1, or null, got 1"),
        (f"{MODEL}.gamma=1.1", f"{MODEL}.gamma: expected a number from 0 to 1, got 1.1"),
        (f"{MODEL}.entropy_weight=-0.1", f"{MODEL}.entropy_weight: expected a number from 0, got -0.1"),
        (f"{MODEL}.temperature=0", f"{MODEL}.temperature: expected a number above 0, or null, got 0"),
        (
            f"{NAVIGATOR}.data.min_active_share=1",
            f"{NAVIGATOR}.data.min_active_share: expected a number from 0 below 1, got 1",
        ),
        (
            f"{NAVIGATOR}.data.min_active_share=0.5",
            f"{NAVIGATOR}.data.min_active_share: expected 0 without a critic, got 0.5",
        ),
        (f"{MODEL}.critic_warm_up=3", f"{MODEL}.critic_warm_up: expected 0 without a critic, got 3"),
        (f"{MODEL}.epochs=2", f"{MODEL}.epochs: expected 1, and 1 minibatch, without clip_range"),
        (f"{NAVIGATOR}.data.houses=17", f"{NAVIGATOR}.data.questions: expected no fewer than houses, 17, got 16"),
        (
            f"{NAVIGATOR}.data.spawn.random_heading=2",
            f"{NAVIGATOR}.data.spawn.random_heading: expected a number from 0 to 1, got 2",
        ),
        (f"{NAVIGATOR}.data.rewards.answer=.inf", f"{NAVIGATOR}.data.rewards.answer: expected a number from 0 to"),
        ("on_finish.also_at=[0]", "on_finish.also_at.0: expected a number above 0, got 0"),
    ],
    "pacman_q_dagger": [
        (f"{NAVIGATOR}.data.beta=-0.1", f"{NAVIGATOR}.data.beta: expected a number from 0 to 1, got -0.1"),
    ],
}


@pytest.mark.parametrize(("experiment", "word", "said"), [(e, *case) for e, cases in WRONG.items() for case in cases])
def test_what_cannot_be_is_refused_by_name(experiment: str, word: str, said: str) -> None:
    with pytest.raises(ValueError) as refused:
        check_settings(composed("train", f"+experiment={experiment}", word))
    assert f"\n  {said}" in str(refused.value) or said in str(refused.value).split("\n")[1]
    assert len(str(refused.value).split("\n")) == 2


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("split=nope", "split: expected one of train, val, test, human, got 'nope'"),
        ("lines=some", "lines: expected one of main, all, own, answerer, got 'some'"),
        ("stop_odds=0", "stop_odds: expected a number above 0, or null, got 0"),
        (
            "compare_with=nowhere",
            "compare_with: expected an agent's file or folder that is there, or null, got 'nowhere'",
        ),
        ("checkpoint=nowhere", "checkpoint: expected an agent's file or folder that is there, or last, got 'nowhere'"),
    ],
)
def test_so_it_is_for_evaluation(word: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "agent.ckpt").touch()
    with pytest.raises(ValueError) as refused:
        check_settings(composed("eval", f"checkpoint={tmp_path / 'agent.ckpt'}", word))
    assert str(refused.value) == f"settings:\n  {said}"


NO_PLACE = "expected a file or folder that is there, or null, got 0"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["checkpoint=x"], "checkpoint: expected nothing, as frontier_agent is no trained agent, got 'x'"),
        (["lines=own"], "lines: expected nothing, as frontier_agent is no trained agent, got 'own'"),
        (["stop_odds=10"], "stop_odds: expected nothing, as frontier_agent is no trained agent, got 10"),
        (["agent.smallest=10"], "agent.smallest: expected a whole number from 1 to 9, got 10"),
        (["env.camera.width_px=0"], "env.camera.width_px: expected a whole number from 1 to 8192, got 0"),
        (["data.houses.style=villa"], "data.houses.style: expected one of paper, everyday, mixed, got 'villa'"),
        (["env.style=paper"], "env.style: expected data.houses.style, mixed, of which the questions are, got 'paper'"),
        (["env.seed=1"], "env.seed: expected data.seed, 0, whose houses the questions are about, got 1"),
        (["data=eqa_v1"], "data.path: expected a file or folder that is there, got nothing"),
        (["data=mp3d_eqa", "data.path=nowhere"], "data.path: expected a file or folder that is there, got 'nowhere'"),
        (
            ["data=eqa_v1", "data.path=.", "data.vocabulary=0"],
            "data.vocabulary: " + NO_PLACE,
        ),
    ],
)
def test_so_it_is_for_worlds_sources_and_scripted_agents(words: list[str], said: str) -> None:
    with pytest.raises(ValueError) as refused:
        check_settings(composed("eval", "agent=frontier", *words))
    assert str(refused.value) == f"settings:\n  {said}"


def test_an_encoder_learns_from_generated_houses_alone() -> None:
    with pytest.raises(ValueError, match="data: expected data=generated, as the encoder learns from views"):
        check_settings(composed("train", "+experiment=cnn_pretrain", "data=mp3d_eqa", "data.path=."))


def test_all_that_is_wrong_is_said_at_once_and_a_critic_may_wait() -> None:
    with pytest.raises(ValueError, match=r"(?s)seed: .*\n  save_top_k: ") as refused:
        check_settings(composed("train", "+experiment=il", "seed=-1", "save_top_k=0"))
    assert str(refused.value).count("\n") == 2
    words = (
        f"{MODEL}.baseline=critic",
        f"{MODEL}.critic_warm_up=2",
        f"{NAVIGATOR}.data.min_active_share=0.5",
        "+stages.navigator.data.walks=1",
    )
    with pytest.raises(ValueError, match="walks: expected one of") as refused:
        check_settings(composed("train", "+experiment=reinforce_paper", *words))
    check_settings(composed("train", "+experiment=reinforce_paper", *words[:-1]))


REFUSED = {
    "seed: expected": ["train.py", "+experiment=il", "seed=-1"],
    "finish.split is on_finish.split now": ["train.py", "+experiment=il", "finish.split=val"],
    "plays is lines now": ["eval.py", "checkpoint=x", "plays=own"],
    "stages: expected an experiment, +experiment=il, got nothing": ["train.py"],
    "checkpoint: expected an agent's file": ["eval.py", "checkpoint=x"],
    "data.walks: expected": ["scripts/make_demos.py", "data.walks=0"],
}


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Outcome], Path]:
    folder = tmp_path_factory.mktemp("refused")
    words = {said: [*command, f"hydra.run.dir={folder / 'run'}"] for said, command in REFUSED.items()}
    return outcomes(words, folder), folder


@pytest.mark.parametrize("said", REFUSED)
def test_a_command_says_it_in_a_line_and_does_nothing(said: str, refused: tuple[dict[str, Outcome], Path]) -> None:
    done, folder = refused
    assert done[said].status == 1 and said in done[said].output and "Traceback" not in done[said].output
    assert not list((folder / "run").glob("*.h5")) and not (folder / "run" / "run.json").exists()


@pytest.mark.parametrize(
    ("word", "today"),
    [
        ("finish.split=val", "on_finish.split=val"),
        ("finish.plays=own", "on_finish.lines=own"),
        ("++finish.also_at=[10,1]", "++on_finish.also_at=[10,1]"),
        ("row=mine", "name=mine"),
        ("plays=own", "lines=own"),
        ("against=a.ckpt", "compare_with=a.ckpt"),
        ("+experiment=own_ends", "+experiment=answerer_rollouts"),
        ("+experiment=il,places", "+experiment=il,spatial_attention"),
        ("scale.practice_updates=3", "scale.rl_updates=3"),
        (f"{MODEL}.baseline=running", f"{MODEL}.baseline=moving_average"),
        (f"{MODEL}.baseline=samples", f"{MODEL}.baseline=rloo"),
        (f"{MODEL}.clip=0.2", f"{MODEL}.clip_range=0.2"),
        (f"+{MODEL}.chunk=8", f"+{MODEL}.microbatch_size=8"),
        (f"~{NAVIGATOR}.data.spawn.turned", f"~{NAVIGATOR}.data.spawn.random_heading"),
        ("stages.answerer.model.options.also_back=[1]", "stages.answerer.model.options.earlier_frames=[1]"),
        ("stages.answerer.model.answerer=PlacesAnswerer", "stages.answerer.model.answerer=SpatialAttentionAnswerer"),
    ],
)
def test_an_older_name_is_refused_with_the_one_of_today(word: str, today: str) -> None:
    assert in_words_of_today(word) == today and in_words_of_today(today) == today
    with pytest.raises(SystemExit) as refused:
        refuse_old_words(["seed=1", word])
    old, new = (w.lstrip("+~") for w in (word, today))
    if old.split("=")[0] != new.split("=")[0]:
        old, new = old.split("=")[0], new.split("=")[0]
    assert str(refused.value) == f"settings:\n  {old} is {new} now"


def test_words_of_today_are_left_alone() -> None:
    words = ["-m", "+experiment=il", "seed=0,1", "on_finish.split=val", f"{MODEL}.baseline=critic", "scale=tiny"]
    refuse_old_words(words)
    assert [in_words_of_today(word) for word in words] == words


@pytest.mark.parametrize(
    ("words", "variant_of"),
    [
        ([], "PACMAN+Q"),
        (["name='PACMAN+Q, mine'"], None),
        (["name=mine", "variant_of=Mine+Q"], "Mine+Q"),
        (["seed=1"], "PACMAN+Q"),
    ],
)
def test_an_agent_of_a_typed_name_is_a_variant_only_of_what_is_typed(words: list[str], variant_of: str | None) -> None:
    cfg = composed("train", "+experiment=pacman_q_dagger", *words)
    forget_variant_of(cfg, ["+experiment=pacman_q_dagger", *words])
    assert (cfg.variant_of, cfg.finetuned_from) == (variant_of, None)
