"""Comparison of several runs: each line's means over questions and seeds, and the differences that exceed chance.

A comparison of two lines is over the seeds that both have; an untrained walk stands beside every seed. Intervals
resample houses, and seeds if there are several, with the same draws for every line (`models.evaluation.statistics`).

A difference is shown only with CLAIM_SEEDS seeds or more. With fewer, its interval is about other houses for these
trained agents, and not about other trainings. The deviation between trainings stands beside it.

d_Δ/d_0 is the mean way nearer over the mean distance at the spawn. No other distance can be compared across houses.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import yaml
from jaxtyping import Float64

from eqa.models.agents.relations import Relations, origin
from eqa.models.evaluation.run_tables import CITY, COLUMNS
from eqa.models.evaluation.runs import Place, Played, Run
from eqa.models.evaluation.statistics import Bootstrap, Columns, Estimates, ratios_of_seeds

REFERENCE = "PACMAN+Q"
CLAIM_SEEDS = 3  # of both lines, for a difference to be more than these trainings' own
AGENTS = (
    "random walk",
    "forward only",
    "nearest frontier",
    "Reactive",
    "Reactive+Q",
    "LSTM",
    "LSTM+Q",
    "Transformer+Q",
    "PACMAN",
    "PACMAN+Q",
    "PACMAN-RL+Q",
)
LAST_AGENTS = ("HumanNav", "best view", "shortest path", "majority", "question only")
UNTRAINED_WALKS = ("random walk", "forward only", "nearest frontier", "best view", "shortest path")
UNTRAINED = ("HumanNav", "majority")  # they bring their own answers, too
ANSWERS = ("rank", "correct")  # metrics of the answerer, which is trained for every walker
WITH_QUESTION = {"Reactive": "Reactive+Q", "LSTM": "LSTM+Q", "PACMAN": "PACMAN+Q"}  # by the same without it
ABLATIONS = (
    ("LSTM", "Reactive"),
    ("LSTM+Q", "Reactive+Q"),
    ("LSTM+Q", "Reactive+Q, stops"),
    ("Transformer+Q", "LSTM+Q"),
    ("PACMAN", "LSTM"),
    (REFERENCE, "LSTM+Q"),
    (REFERENCE, "forward only"),
    (REFERENCE, "random walk"),
    ("shortest path", "question only"),  # shows that the answerer uses the views
    ("shortest path", "majority"),
)
PAPER = Path(__file__).with_name("paper_table1.yaml")
ALL = "all"  # question types


@dataclass(frozen=True, slots=True)
class Metric:
    """A column of the table: `sum(above) / sum(below)`; without `below`, the divisor is the number of questions."""

    name: str
    heading: str
    factor: int
    decimals: int
    above: str
    below: str | None = None


def _metrics() -> tuple[Metric, ...]:
    """The columns of a single run's table, and those that only stand here."""
    known = {name: Metric(name, heading, factor, decimals, name) for name, heading, factor, decimals in COLUMNS + CITY}
    more = (
        Metric("d_0", "d_0", 1, 2, "d_0"),
        Metric("ratio", "d_Δ/d_0", 1, 2, "d_delta", "d_0"),
        Metric("success", "success", 100, 0, "success"),
        Metric("spl", "SPL", 1, 2, "spl"),
        Metric("collisions", "collisions", 1, 1, "collisions"),
    )
    known = {metric.name: metric for metric in more} | known
    order = ("d_0", "d_T", "d_delta", "ratio", "d_min", "r_T", "r_e", "stop", "seen", "success", "spl", "collisions")
    return tuple(known[name] for name in (*order, *(n for n in known if n not in order)))


METRICS = _metrics()


def in_order(agents: Iterable[str], relations: Mapping[str, Relations]) -> list[str]:
    """Each agent once, in the table's order: baselines, trained agents, then agents that know the way or do not walk.

    Variants follow the agent that they go back to, by name.
    """
    origins = {agent: origin(agent, relations) for agent in agents}
    others = [of for of in origins.values() if of not in (*AGENTS, *LAST_AGENTS)]
    order = [*AGENTS, *others, *LAST_AGENTS]
    return sorted(origins, key=lambda name: (order.index(origins[name]), name != origins[name], name))


@dataclass(frozen=True, slots=True)
class Lines:
    """Results of all runs by line.

    `questions` of each spawn are in one order; `rows` has each line's rows in that order, by seed. `relations` are
    those of each agent.
    """

    questions: dict[str | None, list[str]]
    rows: dict[Place, dict[int | str, list[Played]]]
    relations: dict[str, Relations] = field(default_factory=dict)

    @property
    def agents(self) -> list[str]:
        return in_order((agent for agent, _ in self.rows), self.relations)

    def of_spawn(self, spawn: str | None) -> list[str]:
        return [agent for agent in self.agents if (agent, spawn) in self.rows]

    def about(self, spawn: str | None) -> list[Played]:
        """Any line's rows at the spawn, for facts about the question alone."""
        return next(iter(self.rows[self.of_spawn(spawn)[0], spawn].values()))

    def values(self, agent: str, spawn: str | None, name: str) -> Float64[np.ndarray, "S Q"]:
        """Values of each seed and question; NaN where a row has none."""
        seeds = self.rows[agent, spawn].values()
        return np.array([[row.values[name] for row in rows] for rows in seeds], np.float64)

    def heard(self, agent: str, spawn: str | None, name: str) -> Float64[np.ndarray, "S Q"]:
        """Values of lines without walks over the questions of a spawn; NaN for questions that they did not get."""
        place = {episode: n for n, episode in enumerate(self.questions[None])}
        values = np.pad(self.values(agent, None, name), ((0, 0), (0, 1)), constant_values=np.nan)
        return values[:, [place.get(episode, -1) for episode in self.questions[spawn]]]


def gather(runs: Sequence[Run]) -> Lines:
    """Lines of runs that `models.evaluation.runs.read_runs` accepts: several seeds of a line come from several runs."""
    questions: dict[str | None, list[str]] = {}
    rows: dict[Place, dict[int | str, list[Played]]] = {}
    relations: dict[str, Relations] = {}
    for run in runs:
        relations |= {agent: of for agent, of in run.relations.items() if of != Relations()}
        for place, played in run.lines.items():
            order = questions.setdefault(place[1], list(played))
            rows.setdefault(place, {})[run.seed] = [played[episode] for episode in order]
    walked = [spawn for spawn in questions if spawn is not None]
    return Lines(
        {spawn: questions[spawn] for spawn in [*walked, *([None] if None in questions else [])]}, rows, relations
    )


def bootstrap_of(lines: Lines, spawn: str | None, resamples: int = 2000) -> Bootstrap:
    return Bootstrap([row.scene_id for row in lines.about(spawn)], resamples=resamples)


def estimates(lines: Lines, *, resamples: int = 2000) -> list[dict]:
    """Estimates in long form, one for each line, question type and metric.

    Entries: agent, spawn, question_type ("all"; for the accuracy also each type), metric, mean, low, high (95 %),
    seed_sd (NaN for one seed), questions, houses, seeds.
    """
    out = []
    for spawn in lines.questions:
        about = lines.about(spawn)
        kinds = np.array([row.question_type for row in about])
        keys, columns = [], []
        for agent in lines.of_spawn(spawn):
            for metric in METRICS:
                above, below = _values(lines, agent, spawn, metric)
                for kind in (ALL, *(sorted(set(kinds)) if metric.name == "correct" else ())):
                    keys.append((agent, spawn, kind, metric.name))
                    columns.append(_column(np.where((kinds == kind) | (kind == ALL), above, np.nan), below))
        found = _each([(column,) for column in columns], bootstrap_of(lines, spawn, resamples).estimates)
        for key, column, (mean, low, high, questions) in zip(keys, columns, found, strict=True):
            if np.isfinite(mean):
                entry = dict(zip(("agent", "spawn", "question_type", "metric"), key, strict=True))
                entry |= {"mean": mean, "low": low, "high": high, "seed_sd": _deviation(ratios_of_seeds(column))}
                entry |= {"questions": questions, "houses": len({row.scene_id for row in about})}
                out.append(entry | {"seeds": len(column.above)})
    return out


def differences(lines: Lines, pairs: Sequence[tuple[str, str]], *, resamples: int = 2000) -> list[dict]:
    """Paired differences in long form, one for each pair, spawn and metric.

    Entries: agent, minus, spawn, metric, difference, low, high (95 %, paired), excludes_zero, questions, seeds,
    seed_sd, shown.

    - Each is over the seeds that both lines have; lines that share none have no entry.
    - seed_sd: the standard deviation of the difference between trainings, measured between those seeds. For a single
      seed it is the one expected from all lines of several seeds (NaN if there are none).
    - shown: the interval excludes zero, and CLAIM_SEEDS seeds or more stand behind it, or no training at all (seeds 0).
    - Lines without walks are compared with others over the questions of each spawn.
    """
    out = []
    metrics = [metric for metric in METRICS if metric.name != "d_0"]
    for spawn in lines.questions:
        walking = lines.of_spawn(spawn)
        known = walking + [agent for agent in lines.of_spawn(None) if agent not in walking]
        here = [(a, b) for a, b in pairs if a in known and b in known and (a in walking or b in walking)]
        keys, columns = [], []
        for a, b in here:
            for metric in metrics:
                if both := _paired(lines, a, b, spawn, metric):
                    keys.append((a, b, metric))
                    columns.append(both)
        bootstrap = bootstrap_of(lines, spawn, resamples)
        found = _each(columns, bootstrap.differences)
        expected = {metric.name: _expected_deviation(lines, spawn, metric) for metric in metrics} if here else {}
        for (a, b, metric), both, (difference, low, high, questions) in zip(keys, columns, found, strict=True):
            if np.isfinite(difference):
                trained = sum(not untrained(lines, agent, metric) for agent in (a, b))
                seeds = len(both[0].above) if trained else 0
                of_one = np.sqrt(trained) * expected[metric.name] if trained else np.nan
                deviation = float(of_one) if seeds < 2 else _deviation(ratios_of_seeds(*both))
                excludes_zero = low > 0 or high < 0
                entry = {"agent": a, "minus": b, "spawn": spawn, "metric": metric.name, "difference": difference}
                entry |= {"low": low, "high": high, "excludes_zero": excludes_zero, "questions": questions}
                shown = excludes_zero and (seeds >= CLAIM_SEEDS or not trained)
                out.append(entry | {"seeds": seeds, "seed_sd": deviation, "shown": shown})
    return out


def untrained(lines: Lines, agent: str, metric: Metric) -> bool:
    """True if no training changes the line's figure.

    Walks by rule are the same for every seed; their answers come from the answerer trained with the seed.
    """
    walker = lines.relations.get(agent, Relations()).walked_by or agent
    return agent in UNTRAINED or (metric.name not in ANSWERS and walker in UNTRAINED_WALKS)


def _paired(lines: Lines, a: str, b: str, spawn: str | None, metric: Metric) -> tuple[Columns, Columns] | None:
    """One column of each line over the seeds of both, None if they share none."""
    of_both = [dict(zip(_seeds(lines, agent, spawn), zip(*_values(lines, agent, spawn, metric)))) for agent in (a, b)]
    seeds = list(dict.fromkeys([*of_both[0], *of_both[1]]))
    for of_line, agent in zip(of_both, (a, b), strict=True):
        if untrained(lines, agent, metric):
            any_seed = next(iter(of_line.values()))
            of_line |= {seed: of_line.get(seed, any_seed) for seed in seeds}
    common = [seed for seed in seeds if seed in of_both[0] and seed in of_both[1]]
    if all(untrained(lines, agent, metric) for agent in (a, b)):
        common = common[:1]
    if not common:
        return None
    first, second = (_column(*map(np.array, zip(*(of_line[seed] for seed in common)))) for of_line in of_both)
    return first, second


def _seeds(lines: Lines, agent: str, spawn: str | None) -> list[int | str]:
    return list(lines.rows[agent, spawn if (agent, spawn) in lines.rows else None])


def _expected_deviation(lines: Lines, spawn: str | None, metric: Metric) -> float:
    """Deviation between trainings of one line: the root mean square over all trained lines of several seeds.

    NaN if there are none.
    """
    trained = [agent for agent in lines.of_spawn(spawn) if not untrained(lines, agent, metric)]
    columns = (_column(*_values(lines, agent, spawn, metric)) for agent in trained)
    deviations = np.array([_deviation(ratios_of_seeds(column)) for column in columns])
    deviations = deviations[np.isfinite(deviations)]
    return float(np.sqrt((deviations**2).mean())) if len(deviations) else float("nan")


def _deviation(ratios: Float64[np.ndarray, "S 1"]) -> float:
    """Standard deviation (of a sample) between seeds; NaN for a single one."""
    return float(ratios.std(ddof=1)) if len(ratios) > 1 else float("nan")


def default_pairs(
    agents: Sequence[str], relations: Mapping[str, Relations], reference: str = REFERENCE
) -> list[tuple[str, str]]:
    """Every difference of a full report: those of `nearest_pairs`, then every line against `reference`."""
    pairs = nearest_pairs(agents, relations)
    done = {frozenset(pair) for pair in pairs}
    against = [(agent, reference) for agent in agents if reference in agents and agent != reference]
    return pairs + [pair for pair in against if frozenset(pair) not in done]


def nearest_pairs(agents: Sequence[str], relations: Mapping[str, Relations]) -> list[tuple[str, str]]:
    """Pairs that the table is read for.

    Ablations come first, then with and without the question, fine-tuned or not, other answers or walks, and variants
    against what they vary.
    """
    with_question = [(of, agent) for agent, of in WITH_QUESTION.items()]
    known = {agent: relations.get(agent, Relations()) for agent in agents}
    tuned = [(agent, start) for agent, of in known.items() for start in _starts(of.finetuned_from, known)]
    mixed = [
        pair
        for line, of in known.items()
        if of.walked_by and of.walked_by not in UNTRAINED_WALKS
        for pair in ((line, of.walked_by), (of.answered_by, line))  # the change by the answers, then by the walks
    ]
    variants = [(agent, before) for agent, of in known.items() if (before := of.walked_by or of.variant_of)]
    wanted = [*ABLATIONS[:3], *with_question, *ABLATIONS[3:], *tuned, *mixed, *variants]
    return list(dict.fromkeys(pair for pair in wanted if set(pair) <= set(agents)))


def _starts(start: str | None, relations: Mapping[str, Relations]) -> list[str]:
    """The agent that another one is fine-tuned from, and the same at other stop_odds."""
    return [
        agent
        for agent, of in relations.items()
        if start is not None and (agent == start or (of.variant_of == start and of.stop_odds is not None))
    ]


def paper_estimates() -> list[dict]:
    """The paper's Table 1: agent, spawn, metric, mean; with d_0 and the ratio where it gives d_T and d_delta."""
    content = yaml.safe_load(PAPER.read_text())
    out = []
    for agent, columns in content["lines"].items():
        for n, spawn in enumerate(content["spawns"]):
            values = {name: of_spawns[n] for name, of_spawns in columns.items()}
            if {"d_T", "d_delta"} <= values.keys():
                values["d_0"] = values["d_T"] + values["d_delta"]
                values["ratio"] = values["d_delta"] / values["d_0"]
            out += [{"agent": agent, "spawn": spawn, "metric": name, "mean": value} for name, value in values.items()]
    return out


def longest_walk(lines: Lines) -> int:
    """Actions of the longest walk of all lines; 0 without `distances`."""
    rows = (row for of_line in lines.rows.values() for of_seed in of_line.values() for row in of_seed)
    return max((len(row.distances) - 1 for row in rows if row.distances is not None), default=0)


def distances_by_step(lines: Lines, agent: str, spawn: str, num_steps: int) -> Float64[np.ndarray, "S Q T"] | None:
    """Metres to the target after each of `num_steps` actions, of each seed; a stopped agent stays in place.

    None if a row has no `distances`.
    """
    seeds = list(lines.rows[agent, spawn].values())
    if any(row.distances is None for rows in seeds for row in rows):
        return None
    steps = np.arange(num_steps + 1)
    walked = [[row.distances[np.minimum(steps, len(row.distances) - 1)] for row in rows] for rows in seeds]
    return np.array(walked, np.float64)


def _values(lines: Lines, agent: str, spawn: str | None, metric: Metric) -> tuple[np.ndarray, np.ndarray]:
    """Numerators and denominators (S, Q)."""
    values = lines.values if (agent, spawn) in lines.rows else lines.heard
    above = values(agent, spawn, metric.above)
    return above, values(agent, spawn, metric.below) if metric.below else np.ones_like(above)


def _column(above: Float64[np.ndarray, "S Q"], below: Float64[np.ndarray, "S Q"]) -> Columns:
    return Columns(above[..., None], below[..., None])


def _each(items: Sequence[tuple[Columns, ...]], estimate: Callable) -> list[tuple[float, float, float, int]]:
    """Result of `estimate` for each item's columns, in their order; items of equally many seeds are done at once."""
    found: list = [None] * len(items)
    groups: dict[int, list[int]] = {}
    for place, (column, *_) in enumerate(items):
        groups.setdefault(len(column.above), []).append(place)
    for places in groups.values():
        made: Estimates = estimate(*map(_beside, zip(*(items[place] for place in places), strict=True)))
        of_each = zip(*(getattr(made, name).tolist() for name in ("value", "low", "high", "questions")), strict=True)
        for place, values in zip(places, of_each, strict=True):
            found[place] = values
    return found


def _beside(columns: Sequence[Columns]) -> Columns:
    return Columns(*(np.concatenate([getattr(c, name) for c in columns], axis=2) for name in ("above", "below")))


def by_line(entries: Iterable[Mapping]) -> dict[tuple, dict[str, Mapping]]:
    """Long form by (agent, spawn), or (agent, minus, spawn), and metric; of all question types together."""
    out: dict[tuple, dict[str, Mapping]] = {}
    for entry in entries:
        if entry.get("question_type", ALL) == ALL:
            key = tuple(entry[name] for name in ("agent", "minus", "spawn") if name in entry)
            out.setdefault(key, {})[entry["metric"]] = entry
    return out
