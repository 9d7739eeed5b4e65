"""What may be set, and how far: all settings of a command are checked before it does anything.

`RULES` says of each setting what it may be, by where it stands in the configuration; the first that fits its path counts.
What a class takes besides (`+stages.navigator.model.options.planner_hidden=64`) has to be among its arguments.
"""

import inspect
import math
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from hydra.utils import get_object
from omegaconf import DictConfig, OmegaConf

from eqa.data.questions.generate import ALL_SPLITS, BALANCES
from eqa.data.questions.rules import load_rules
from eqa.models.evaluation.results import PLAYS
from eqa.models.learning.imitation import ANSWERING, CLASSES, OPTIMIZERS, SCHEDULES
from eqa.models.learning.reinforce import BASELINES

MOST_SEED = 2**32 - 1  # NumPy's legacy generator, which Lightning seeds, takes no more
PRECISIONS = ("32-true", "64-true", "16-mixed", "bf16-mixed", "16-true", "bf16-true")
GIVEN = {"finish": {"source", "folder", "configuration"}}  # arguments that no setting names, by where


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
    """From `low` to `high`, one or both of them left out."""

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
BATCHES = Rule(
    "a whole number from 1 on, or a share above 0.0 to 1.0",
    lambda v: whole(1).fits(v) or (type(v) is float and 0 < v <= 1),
)
SHARE, POSITIVE, RATE = number(0, 1), number(0, without=[0]), number(0, 1, without=[0])

RULES: dict[str, Rule] = {
    "stages": Rule("an experiment, +experiment=il", lambda v: False),
    "finish": Rule("an experiment, +experiment=il", lambda v: False),
    "seed": whole(0, MOST_SEED),
    "*.seed": whole(0, MOST_SEED),
    "patience": whole(1).or_null,
    "save_top_k": whole(1),
    "compile": Rule("true, false or a backend's name", lambda v: isinstance(v, bool | str)),
    "encoder": FILE,
    "checkpoint": FILE.or_word("last"),
    "*.checkpoint": FILE.or_word("last").or_null,
    "against": FILE.or_null,
    "split": one_of(*ALL_SPLITS),
    "plays": one_of(*PLAYS),
    "stop_odds": POSITIVE.or_null,
    # data
    "scale.houses.*": whole(1),
    "scale.questions.*": whole(1),
    "scale.dagger_first_epoch": whole(0),
    "scale.name": TEXT,
    "scale.*": whole(1),
    "data.houses.*": whole(1),
    "data.questions.*": whole(1),
    "data.question_set": one_of(*load_rules().sets),
    "data.balance": one_of(*BALANCES),
    "data.walks": whole(1),
    "data.human_walks": FILE.or_null,
    "data.encode": Rule("an encoder, or null", lambda v: v is None),
    "data.encode.weights": TEXT.or_null,
    "data.encode.grid": whole(1),
    "data.encode.*": TEXT,
    # stages: what is learned from
    "stages.*.data.spawn.start": whole(1),
    "stages.*.data.spawn.step": whole(0),
    "stages.*.data.spawn.turned": SHARE,
    "stages.*.data.rewards.graded": FLAG,
    "stages.*.data.rewards.*": number(0, 1e6),
    "stages.*.data.wait": number(0, 1, without=[1]),
    "stages.*.data.num_frames": whole(1).or_null,
    "stages.*.also_back.*": whole(1),
    "stages.*.data.inflection": FLAG,
    "stages.*.data.beta": SHARE,
    "stages.*.data.near_objects": SHARE,
    "stages.*.data.first_epoch": whole(0),
    "stages.*.data.curriculum_step": whole(0),
    "stages.*.data.surroundings_every": whole(1).or_null,
    "stages.*.data.num_workers": whole(0),
    **dict.fromkeys(("stages.*.data.folder", "stages.*.data._target_"), TEXT),
    "stages.*.data.row": TEXT.or_null,
    "stages.*.data.*": whole(1),
    # stages: how
    "stages.*.max_epochs": whole(1),
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
    **dict.fromkeys((f"stages.*.model.{n}" for n in ("baseline_decay", "discount", "smoothing")), SHARE),
    **dict.fromkeys((f"stages.*.model.{n}" for n in ("entropy_weight", "kl_weight")), number(0)),
    "stages.*.model.clip": number(0, 1, without=[0, 1]).or_null,
    **dict.fromkeys((f"stages.*.model.{n}" for n in ("passes", "minibatches", "chunk", "draw_every")), whole(1)),
    "stages.*.model.warm_up": whole(0),
    "stages.*.model.*_weight": number(0),
    **dict.fromkeys(("stages.*.model.pixel_stride", "stages.*.model.trunk_channels"), whole(1)),
    "stages.*.model.max_grad_norm": POSITIVE,
    "stages.*.model.temperature": POSITIVE.or_null,
    "stages.*.model.normalize": FLAG,
    "stages.*.model.start": FILE.or_null,
    "stages.*.dropout": number(0, 1, without=[1]),
    "stages.*.options.stop_odds": POSITIVE,
    "stages.*.options.stop": FLAG,
    "stages.*.options.with_question": FLAG,
    "stages.*.options.num_frames": whole(1).or_null,
    "stages.*.options.question_dropout": number(0, 1, without=[1]),
    **{f"stages.*.options.{n}": TEXT for n in ("planner", "attention", "fusion")},
    "stages.*.options.*": whole(1),  # sizes
    # what comes at the end
    "finish.split": one_of(*ALL_SPLITS),
    "finish.plays": one_of(*PLAYS),
    "finish.also_at.*": POSITIVE,
    **dict.fromkeys(("finish.compare", "finish.ship"), FLAG),
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
# Where no rule says more; "???" stands where something has to be said.
FINITE = Rule("something finite", lambda v: v != "???" and not (isinstance(v, float) and not math.isfinite(v)))


def refuse_wrong_settings(cfg: DictConfig) -> None:
    """Ends a command with what `check_settings` says, and no more."""
    try:
        check_settings(cfg)
    except ValueError as error:
        sys.exit(str(error))


def check_settings(cfg: DictConfig) -> None:
    """ValueError with a line for each setting that cannot be, where it is set and not where it is only passed on."""
    content = OmegaConf.to_container(cfg, resolve=False)
    wrong = [
        f"{path}: expected {rule.expected}, got {'nothing' if value == '???' else repr(value)}"
        for path, value in leaves(content)
        if not (isinstance(value, str) and "${" in value) and not (rule := rule_of(path) or FINITE).fits(value)
    ]
    wrong += unknown_arguments(content)
    if not wrong and "stages" in content:
        stages = OmegaConf.to_container(cfg.stages, resolve=True)
        wrong = [line for name, stage in stages.items() for line in _together(name, stage)]
    if wrong:
        raise ValueError("\n".join(("settings:", *(f"  {line}" for line in wrong))))


def rule_of(path: str) -> Rule | None:
    return next((rule for pattern, rule in RULES.items() if fnmatchcase(path, pattern)), None)


def leaves(content: object, path: str = "") -> Iterator[tuple[str, object]]:
    """All settings with where they stand; places of a list are numbered."""
    if isinstance(content, dict | list):
        for name, inner in content.items() if isinstance(content, dict) else enumerate(content):
            yield from leaves(inner, f"{path}.{name}" if path else str(name))
    else:
        yield path, content


def unknown_arguments(content: Mapping) -> list[str]:
    """Names under a `_target_` that it does not take, and under options those that the network does not."""
    wrong = []
    for path, node in named(content):
        taken = _arguments(get_object(node["_target_"]))
        if taken is not None:
            known = ", ".join(sorted(taken - GIVEN.get(path, {"source"}) - {"self"}))
            unknown = (name for name in node if name not in taken and not name.startswith("_"))
            wrong += [f"{path}.{name}: expected one of {known}, got another name" for name in unknown]
        kinds = [known[node[part]] for part, known in NETWORKS.items() if node.get(part) in known]
        for name in node.get("options") or {} if kinds else ():
            taken = sorted(set(inspect.signature(kinds[0]).parameters) - {"vocabulary_size", "feature_size"})
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
    """What is wrong with settings that are fine alone."""
    data, model = stage["data"], stage["model"]
    where = f"stages.{name}"
    if "baseline" not in model:
        return
    if model["clip"] is None and model["passes"] * model["minibatches"] > 1:
        yield f"{where}.model.passes: expected 1, and 1 minibatch, without clip; set clip=0.2"
    if model["baseline"] == "samples" and data["samples"] < 2:
        yield f"{where}.data.samples: expected at least 2 with baseline=samples, got {data['samples']}"
    if model["baseline"] != "critic":
        for part, key in (("model", "warm_up"), ("data", "wait")):
            if stage[part][key]:
                yield f"{where}.{part}.{key}: expected 0 without a critic, got {stage[part][key]}; set baseline=critic"
    if data["questions"] < data["houses"]:
        yield f"{where}.data.questions: expected no fewer than houses, {data['houses']}, got {data['questions']}"
    if model["minibatches"] > data["questions"] * data["samples"]:
        most = data["questions"] * data["samples"]
        yield f"{where}.model.minibatches: expected at most the {most} walks of an update, got {model['minibatches']}"
