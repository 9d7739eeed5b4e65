"""Limits of settings: all settings of a command are checked before it does anything.

`RULES` gives each setting's limits by its path in the configuration; the first pattern that fits counts. Further
arguments of a class (`+stages.navigator.model.options.planner_hidden=64`) must be among those that it takes.
"""

import inspect
import math
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from hydra.utils import get_object
from omegaconf import DictConfig, OmegaConf

from eqa.data.generated import GeneratedEQA
from eqa.data.questions.city.rules import city_rules
from eqa.data.questions.generate import ALL_SPLITS, BALANCES
from eqa.data.questions.rules import load_rules
from eqa.envs.files import here_or_packaged
from eqa.envs.shards import EXPECTED, Shard
from eqa.models.evaluation.results import LINES, SPAWNS
from eqa.models.learning.imitation import ANSWERING, CLASSES, OPTIMIZERS, SCHEDULES
from eqa.models.learning.reinforce import BASELINES

# Older names of settings, by path, and of some values; `*` is a stage.
RENAMED = {
    "finish": "on_finish",
    "finish.plays": "on_finish.lines",
    "finish.start": "on_finish.base_name",
    "row": "name",
    "plays": "lines",
    "against": "compare_with",
    "scale.practice_epochs": "scale.rl_epochs",
    "scale.practice_updates": "scale.rl_updates",
    "scale.practice_val_questions": "scale.rl_val_questions",
    "scale.own_ends_epochs": "scale.answerer_rollouts_epochs",
    "stages.*.data.row": "stages.*.data.base_name",
    "stages.*.data.wait": "stages.*.data.min_active_share",
    "stages.*.data.spawn.turned": "stages.*.data.spawn.random_heading",
    "stages.*.data.also_back": "stages.*.data.earlier_frames",
    "stages.*.model.options.also_back": "stages.*.model.options.earlier_frames",
    "stages.*.model.options.glimpses": "stages.*.model.options.num_heads",
    "stages.*.model.discount": "stages.*.model.gamma",
    "stages.*.model.smoothing": "stages.*.model.gae_lambda",
    "stages.*.model.clip": "stages.*.model.clip_range",
    "stages.*.model.passes": "stages.*.model.epochs",
    "stages.*.model.chunk": "stages.*.model.microbatch_size",
    "stages.*.model.warm_up": "stages.*.model.critic_warm_up",
}
RENAMED_VALUES = {
    "experiment": {"own_ends": "answerer_rollouts", "places": "spatial_attention", "rl_ppo": "ppo"},
    "stage@stages.*": {"own_ends": "answerer_rollouts", "practice": "reinforce"},
    "stages.*.model.baseline": {"running": "moving_average", "samples": "rloo"},
    "stages.*.model.answerer": {"PlacesAnswerer": "SpatialAttentionAnswerer"},
}

MOST_SEED = 2**32 - 1  # NumPy's legacy generator, which Lightning seeds, takes no more
PRECISIONS = ("32-true", "64-true", "16-mixed", "bf16-mixed", "16-true", "bf16-true")
GIVEN = {"on_finish": {"source", "folder", "configuration"}}  # arguments that no setting names, by path


@dataclass(frozen=True, slots=True)
class Rule:
    expected: str
    fits: Callable[[object], bool]

    @property
    def or_null(self) -> "Rule":
        return replace(self, expected=f"{self.expected}, or null", fits=lambda v: v is None or self.fits(v))

    def or_word(self, *words: str) -> "Rule":
        return replace(
            self, expected=f"{self.expected}, or {' or '.join(words)}", fits=lambda v: v in words or self.fits(v)
        )


def whole(least: int, most: int | None = None) -> Rule:
    def fits(value: object) -> bool:
        return type(value) is int and least <= value and (most is None or value <= most)

    return Rule(f"a whole number from {least}" + (" on" if most is None else f" to {most}"), fits)


def number(low: float, high: float = math.inf, *, without: Collection[float] = ()) -> Rule:
    """Rule for numbers from `low` to `high`, one or both of them left out."""

    def fits(value: object) -> bool:
        if type(value) not in (int, float) or not math.isfinite(value):
            return False
        return low <= value <= high and value not in without

    bounds = [f"{'above' if low in without else 'from'} {low:g}"]
    if high < math.inf:
        bounds.append(f"{'below' if high in without else 'to'} {high:g}")
    return Rule(f"a number {' '.join(bounds)}", fits)


def one_of(*known: str) -> Rule:
    return Rule(f"one of {', '.join(known)}", lambda v: isinstance(v, str) and v in known)


FLAG = Rule("true or false", lambda v: type(v) is bool)
TEXT = Rule("a text", lambda v: isinstance(v, str))
FILE = Rule("a file that is there", lambda v: isinstance(v, str) and Path(v).expanduser().is_file())
WEIGHTS = Rule("a file that is there", lambda v: isinstance(v, str) and here_or_packaged(v).is_file())
AGENT = Rule("an agent's file or folder that is there", lambda v: isinstance(v, str) and here_or_packaged(v).exists())
PLACE = Rule("a file or folder that is there", lambda v: isinstance(v, str) and Path(v).expanduser().exists())
BATCHES = Rule(
    "a whole number from 1 on, or a share above 0.0 to 1.0",
    lambda v: whole(1).fits(v) or (type(v) is float and 0 < v <= 1),
)
SHARE, POSITIVE, RATE = number(0, 1), number(0, without=[0]), number(0, 1, without=[0])


def _is_shard(value: object) -> bool:
    try:
        Shard.parse(value)
    except ValueError:
        return False
    return True


RULES: dict[str, Rule] = {
    "shard": Rule(EXPECTED, _is_shard).or_null,
    "stages": Rule("an experiment, +experiment=il", lambda v: False),
    "on_finish": Rule("an experiment, +experiment=il", lambda v: False),
    **dict.fromkeys(("variant_of", "finetuned_from"), TEXT.or_null),
    "seed": whole(0, MOST_SEED),
    "*.seed": whole(0, MOST_SEED),
    "patience": whole(1).or_null,
    "save_top_k": whole(1),
    "compile": Rule("true, false or a backend's name", lambda v: isinstance(v, bool | str)),
    "encoder": WEIGHTS,
    "checkpoint": AGENT.or_word("last"),
    "*.checkpoint": AGENT.or_word("last").or_null,
    "compare_with": AGENT.or_null,
    "split": one_of(*ALL_SPLITS),
    "lines": one_of(*LINES),
    "spawns": one_of(*SPAWNS),
    "stop_odds": POSITIVE.or_null,
    # data
    "scale.houses.*": whole(1),
    "scale.questions.*": whole(1),
    **dict.fromkeys(("scale.cities.*", "scale.city_questions.*", "data.cities.*"), whole(1)),
    "scale.dagger_first_epoch": whole(0),
    "scale.name": TEXT,
    "scale.*": whole(1),
    **dict.fromkeys(("data.houses.style", "env.style"), one_of(*GeneratedEQA.styles)),
    "data.houses.*": whole(1),
    "data.questions.*": whole(1),
    "data.question_set": one_of(*load_rules().sets, *city_rules().sets),
    "data.most_per_city": whole(1),
    "data.lowest_m": POSITIVE,
    "data.balance": one_of(*BALANCES),
    "data.walks": whole(1),
    "data.human_walks": FILE.or_null,
    "data.path": PLACE,
    "data.vocabulary": PLACE.or_null,
    "data.encode": Rule("an encoder, or null", lambda v: v is None),
    "data.encode.weights": TEXT.or_null,
    "data.encode.grid": whole(1),
    "data.encode.*": TEXT,
    # the world, and an agent to play
    "*.camera.*_px": whole(1, 8192),
    "*.camera.samples": whole(1, 4),
    "*.camera.vertical_fov_deg": number(0, 180, without=[0, 180]),
    "*.camera.height_m": number(0),  # 0 is the camera of a drone, whose pose is the camera's own
    "*.camera.near_m": POSITIVE,
    "*.camera.pitch_rad": number(-math.pi / 2, math.pi / 2),
    "agent.per_turn_m": number(0),
    "agent.smallest": whole(1, 9),
    # stages: data
    "stages.*.data.spawn.start": whole(1),
    "stages.*.data.spawn.step": whole(0),
    "stages.*.data.spawn.random_heading": SHARE,
    "stages.*.data.rewards.graded": FLAG,
    "stages.*.data.rewards.*": number(0, 1e6),
    "stages.*.data.min_active_share": number(0, 1, without=[1]),
    "answer_from.num_frames": whole(1),
    "answer_from.earlier_frames.*": whole(1),
    "stages.*.data.num_frames": whole(1).or_null,
    "stages.*.earlier_frames.*": whole(1),
    "stages.*.data.inflection": FLAG,
    "stages.*.data.beta": SHARE,
    **dict.fromkeys((f"stages.*.data.{name}" for name in ("near_objects", "repaint")), SHARE),
    "stages.*.data.first_epoch": whole(0),
    "stages.*.data.curriculum_step": whole(0),
    "stages.*.data.surroundings_every": whole(1).or_null,
    "stages.*.data.num_workers": whole(0),
    **dict.fromkeys(("stages.*.data.folder", "stages.*.data._target_"), TEXT),
    "stages.*.data.base_name": TEXT.or_null,
    "stages.*.data.max_steps": whole(2).or_null,
    "stages.*.data.*": whole(1),
    # stages: training
    "stages.*.max_epochs": whole(1),
    "stages.*.validate_first": FLAG,
    "stages.*.mode": one_of("min", "max"),
    "stages.*.monitor": Rule("a figure of validation, val/...", lambda v: isinstance(v, str) and v.startswith("val/")),
    "stages.*.model.navigator": one_of(*CLASSES),
    "stages.*.model.answerer": one_of(*ANSWERING),
    "stages.*.model.optimizer": one_of(*OPTIMIZERS),
    "stages.*.model.schedule": one_of(*SCHEDULES),
    "stages.*.model.baseline": one_of(*BASELINES),
    "stages.*.model.answerer_lr": SHARE,
    "stages.*.model.lr": RATE,
    "stages.*.model.critic_lr": RATE,
    **dict.fromkeys((f"stages.*.model.{n}" for n in ("baseline_decay", "gamma", "gae_lambda")), SHARE),
    **dict.fromkeys((f"stages.*.model.{n}" for n in ("entropy_weight", "kl_weight")), number(0)),
    "stages.*.model.clip_range": number(0, 1, without=[0, 1]).or_null,
    **dict.fromkeys(
        (
            f"stages.*.model.{n}"
            for n in ("epochs", "minibatches", "microbatch_size", "draw_every", "batch_size", "steps")
        ),
        whole(1),
    ),
    "stages.*.model.critic_warm_up": whole(0),
    "stages.*.model.longest": whole(2),
    "stages.*.model.*_weight": number(0),
    **dict.fromkeys(("stages.*.model.pixel_stride", "stages.*.model.trunk_channels"), whole(1)),
    "stages.*.model.max_grad_norm": POSITIVE,
    "stages.*.model.temperature": POSITIVE.or_null,
    "stages.*.model.normalize": FLAG,
    "stages.*.model.start": WEIGHTS.or_null,
    "stages.*.dropout": number(0, 1, without=[1]),
    "stages.*.options.stop_odds": POSITIVE,
    "stages.*.options.stop": FLAG,
    "stages.*.options.with_question": FLAG,
    "stages.*.options.num_frames": whole(1).or_null,
    "stages.*.options.question_dropout": number(0, 1, without=[1]),
    **{f"stages.*.options.{n}": TEXT for n in ("planner", "attention", "fusion")},
    "stages.*.options.*": whole(1),  # sizes
    # after the last stage
    "on_finish.split": one_of(*ALL_SPLITS),
    "on_finish.lines": one_of(*LINES),
    "on_finish.spawns": one_of(*SPAWNS),
    "on_finish.also_at.*": POSITIVE,
    **dict.fromkeys(("on_finish.compare", "on_finish.finetunes", "on_finish.ship"), FLAG),
    # Lightning's trainer
    "trainer.devices": whole(1).or_word("auto"),
    "trainer.num_nodes": whole(1),
    "trainer.precision": one_of(*PRECISIONS),
    "trainer.gradient_clip_val": POSITIVE.or_null,
    "trainer.accelerator": one_of("auto", "cpu", "gpu", "cuda", "mps"),
    "trainer.reload_dataloaders_every_n_epochs": whole(1, 1),
    "trainer.num_sanity_val_steps": whole(0),
    "trainer.log_every_n_steps": whole(1),
    "trainer.max_epochs": Rule("none: stages.NAME.max_epochs says it", lambda v: False),
    "trainer.max_steps": Rule("a whole number from 1 on, or -1 for no limit", lambda v: v == -1 or whole(1).fits(v)),
    **{f"trainer.{n}": whole(1).or_null for n in ("min_epochs", "min_steps", "check_val_every_n_epoch")},
    "trainer.accumulate_grad_batches": whole(1),
    **{f"trainer.limit_{n}_batches": BATCHES.or_null for n in ("train", "val", "test", "predict")},
    "trainer.val_check_interval": BATCHES.or_null,
    "trainer.overfit_batches": Rule(f"{BATCHES.expected}, or 0", lambda v: v == 0 or BATCHES.fits(v)),
    "trainer.fast_dev_run": Rule("true, false or a whole number from 1 on", lambda v: FLAG.fits(v) or whole(1).fits(v)),
}
# Settings of a trained agent, as they are if not typed.
OF_TRAINED = {"checkpoint": "models/weights/pacman_q", "lines": "main", "compare_with": None, "stop_odds": None}
# For settings without a rule; "???" marks a required value.
FINITE = Rule("something finite", lambda v: v != "???" and not (isinstance(v, float) and not math.isfinite(v)))


def refuse_old_words(words: Sequence[str]) -> None:
    """Ends a command with older names, before Hydra reads it; names today's word for each."""
    if lines := [f"  {old} is {new} now" for old, new in map(_renamed, words) if new != old]:
        sys.exit("\n".join(("settings:", *lines)))


def in_words_of_today(word: str) -> str:
    """A word of a command line in today's form: `on_finish.split=val` for `finish.split=val`."""
    setting = word.lstrip("+~")
    old, new = _renamed(word)
    return word[: -len(setting) or None] + new + setting[len(old) :] if new != old else word


def _renamed(word: str) -> tuple[str, str]:
    """A setting as typed and as today; with its value if that has another name."""
    path, _, value = word.lstrip("+~").partition("=")
    parts, today = path.split("."), path
    for length in range(len(parts), 0, -1):  # the longest beginning that has a name of its own
        known = (new for old, new in RENAMED.items() if fnmatchcase(".".join(parts[:length]), old))
        if found := next(known, None):
            today = ".".join([found.replace("*", parts[min(1, length - 1)]), *parts[length:]])
            break
    values = next((names for pattern, names in RENAMED_VALUES.items() if fnmatchcase(today, pattern)), {})
    named = ",".join(values.get(one, one) for one in value.split(","))  # a sweep has several
    return (path, today) if named == value else (f"{path}={value}", f"{today}={named}")


def forget_variant_of(cfg: DictConfig, words: Sequence[str]) -> None:
    """Makes an agent of a typed name no variant, unless that is typed, too: the experiment speaks of its own name."""
    typed = {word.lstrip("+~").partition("=")[0] for word in words}
    if "name" in typed and "variant_of" not in typed:
        cfg.variant_of = None


def refuse_wrong_settings(cfg: DictConfig) -> None:
    """Ends a command with the message of `check_settings`, and no more."""
    try:
        check_settings(cfg)
    except ValueError as error:
        sys.exit(str(error))


def check_settings(cfg: DictConfig) -> None:
    """Raises ValueError with a line for each wrong setting, at its definition and not at references to it."""
    content = OmegaConf.to_container(cfg, resolve=False)
    wrong = [*_of_the_world(cfg), *_of_scripted(content)]
    wrong += [
        f"{path}: expected {rule.expected}, got {'nothing' if value in ('???', None) else repr(value)}"
        for path, value in leaves(content)
        if not (isinstance(value, str) and "${" in value) and not (rule := rule_of(path) or FINITE).fits(value)
    ]
    wrong += unknown_arguments(content)
    if not wrong and "stages" in content:
        stages = OmegaConf.to_container(cfg.stages, resolve=True)
        wrong = [line for name, stage in stages.items() for line in _together(name, stage)]
    if wrong:
        raise ValueError("\n".join(("settings:", *(f"  {line}" for line in wrong))))


def _of_the_world(cfg: DictConfig) -> Iterator[str]:
    """Errors of the data and the world, or of the data and a stage, that are fine alone."""
    data, env = cfg.get("data", {}), cfg.get("env", {})
    if "seed" in data and "seed" in env and env.seed != data.seed:
        yield f"env.seed: expected data.seed, {data.seed}, whose houses the questions are about, got {env.seed!r}"
    style = (data.get("houses") or {}).get("style")
    if style is not None and env.get("style", style) != style:
        yield f"env.style: expected data.houses.style, {style}, of which the questions are, got {env.style!r}"
    if "path" in data and any("RenderedFrames" in stage.data._target_ for stage in (cfg.get("stages") or {}).values()):
        yield "data: expected data=generated, as the encoder learns from views of generated houses, got question files"


def _of_scripted(content: dict) -> Iterator[str]:
    """Errors of settings that only a trained agent has; takes these settings out where there is none."""
    target = (content.get("agent") or {}).get("_target_")
    if target is None or target.endswith("NeuralAgent.load"):
        return
    for name, unset in OF_TRAINED.items():
        if (value := content.pop(name)) != unset:
            yield f"{name}: expected nothing, as {target.rsplit('.', 1)[-1]} is no trained agent, got {value!r}"


def rule_of(path: str) -> Rule | None:
    return next((rule for pattern, rule in RULES.items() if fnmatchcase(path, pattern)), None)


def leaves(content: object, path: str = "") -> Iterator[tuple[str, object]]:
    """All settings with their paths; places of a list are numbered."""
    if isinstance(content, dict | list):
        for name, inner in content.items() if isinstance(content, dict) else enumerate(content):
            yield from leaves(inner, f"{path}.{name}" if path else str(name))
    else:
        yield path, content


def unknown_arguments(content: Mapping) -> list[str]:
    """Names that a `_target_` does not take, and options that the network does not."""
    wrong = []
    for path, node in named(content):
        taken = _arguments(get_object(node["_target_"]))
        if taken is not None:
            known = ", ".join(sorted(taken - GIVEN.get(path, {"source"}) - {"self"}))
            unknown = (name for name in node if name not in taken and not name.startswith("_"))
            wrong += [f"{path}.{name}: expected one of {known}, got another name" for name in unknown]
        kinds = [known[node[part]] for part, known in NETWORKS.items() if node.get(part) in known]
        for name in node.get("options") or {} if kinds else ():
            taken = sorted(
                set(inspect.signature(kinds[0]).parameters)
                - {"vocabulary_size", "feature_size", "map_shape", "name_counts", "asks_colors", "num_actions"}
            )
            if name not in taken:
                wrong.append(f"{path}.options.{name}: expected one of {', '.join(taken)}, got another name")
    return wrong


def _arguments(target: Callable) -> set[str] | None:
    """Names that it takes, with those of the class that it passes others on to; None if it takes any."""
    taken: set[str] = set()
    for callable_ in (c.__init__ for c in target.__mro__[:-1]) if inspect.isclass(target) else (target,):
        parameters = inspect.signature(callable_).parameters.values()
        taken |= {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
        if not any(p.kind == p.VAR_KEYWORD for p in parameters):
            return taken
    return None


NETWORKS = {"navigator": CLASSES, "answerer": ANSWERING}


def named(content: object, path: str = "") -> Iterator[tuple[str, Mapping]]:
    if isinstance(content, dict):
        if "_target_" in content:
            yield path, content
        for name, inner in content.items():
            yield from named(inner, f"{path}.{name}" if path else str(name))


def _together(name: str, stage: Mapping) -> Iterator[str]:
    """Errors of settings that are fine alone."""
    data, model = stage["data"], stage["model"]
    where = f"stages.{name}"
    if "baseline" not in model:
        return
    if model["clip_range"] is None and model["epochs"] * model["minibatches"] > 1:
        yield f"{where}.model.epochs: expected 1, and 1 minibatch, without clip_range; set clip_range=0.2"
    if model["baseline"] == "rloo" and data["samples"] < 2:
        yield f"{where}.data.samples: expected at least 2 with baseline=rloo, got {data['samples']}"
    if model["baseline"] != "critic":
        for part, key in (("model", "critic_warm_up"), ("data", "min_active_share")):
            if stage[part][key]:
                yield f"{where}.{part}.{key}: expected 0 without a critic, got {stage[part][key]}; set baseline=critic"
    if data["questions"] < data["houses"]:
        yield f"{where}.data.questions: expected no fewer than houses, {data['houses']}, got {data['questions']}"
    if model["minibatches"] > data["questions"] * data["samples"]:
        most = data["questions"] * data["samples"]
        yield f"{where}.model.minibatches: expected at most the {most} walks of an update, got {model['minibatches']}"
