"""The fast bootstrap against a slow obvious one, and what its intervals are good for."""

import numpy as np
import pytest

from envs.metrics import bootstrap_interval
from models.statistics import Bootstrap, deviation_of_seeds, house_draws, over_seeds

HOUSES = [f"house-{n}" for n in (0, 0, 0, 1, 2, 2, 3, 4, 4, 4, 4, 5)]


def columns(num: int, *, unknown: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    above, below = rng.normal(1.0, 1.0, (len(HOUSES), num)), rng.uniform(0.5, 2.0, (len(HOUSES), num))
    above[rng.random(above.shape) < unknown] = np.nan
    return above, below


def slow_ratio(above: np.ndarray, below: np.ndarray, questions: list[int]) -> float:
    known = [q for q in questions if not np.isnan(above[q])]
    return sum(above[q] for q in known) / sum(below[q] for q in known) if known else float("nan")


def slow_draws(resamples: int) -> list[list[int]]:
    """The questions of each resample: those of a house as often as the house was drawn."""
    names = sorted(set(HOUSES))
    return [
        [
            q
            for house, often in zip(names, times, strict=True)
            for _ in range(int(often))
            for q, of in enumerate(HOUSES)
            if of == house
        ]
        for times in house_draws(len(names), resamples=resamples)
    ]


@pytest.mark.parametrize("unknown", [0.0, 0.4])
def test_estimates_and_paired_differences_are_those_of_a_slow_bootstrap(unknown: float) -> None:
    above, below = columns(4, unknown=unknown)
    fast = Bootstrap(HOUSES, resamples=300)
    found = fast.estimates(above, below)
    draws = slow_draws(300)
    for k in range(4):
        slow = [slow_ratio(above[:, k], below[:, k], questions) for questions in draws]
        assert found.value[k] == pytest.approx(slow_ratio(above[:, k], below[:, k], list(range(len(HOUSES)))))
        assert (found.low[k], found.high[k]) == pytest.approx(tuple(np.nanquantile(slow, [0.025, 0.975])))
        assert found.questions[k] == (~np.isnan(above[:, k])).sum()
    pair = fast.differences(above, below, np.array([[2, 0]]))
    both = ~np.isnan(above[:, 2]) & ~np.isnan(above[:, 0])
    first, second = (np.where(both, above[:, k], np.nan) for k in (2, 0))
    slow = [slow_ratio(first, below[:, 2], q) - slow_ratio(second, below[:, 0], q) for q in draws]
    assert (pair.low[0], pair.high[0]) == pytest.approx(tuple(np.nanquantile(slow, [0.025, 0.975])))
    assert pair.questions[0] == both.sum()


def test_an_interval_is_the_one_of_the_metrics_module() -> None:
    above, _ = columns(3)
    found = Bootstrap(HOUSES).estimates(above, np.ones_like(above))
    _, groups = np.unique(HOUSES, return_inverse=True)
    for k in range(3):
        assert (found.low[k], found.high[k]) == pytest.approx(bootstrap_interval(above[:, k], groups))


def test_where_the_same_questions_are_hard_the_paired_difference_is_much_narrower_than_an_unpaired_one() -> None:
    rng = np.random.default_rng(0)
    hard = rng.normal(0.0, 2.0, 200)
    values = np.stack([hard + rng.normal(0.0, 0.2, 200), hard + 0.15 + rng.normal(0.0, 0.2, 200)], axis=1)
    bootstrap = Bootstrap([str(n) for n in range(200)])
    alone = bootstrap.estimates(values, np.ones_like(values))
    pair = bootstrap.differences(values, np.ones_like(values), np.array([[1, 0]]))
    unpaired_width = np.hypot(*(alone.high - alone.low))
    assert pair.high[0] - pair.low[0] < unpaired_width / 5
    assert pair.low[0] > 0 and abs(pair.value[0]) < unpaired_width / 2


def test_questions_that_go_right_and_wrong_together_by_house_make_the_interval_wider() -> None:
    by_house = np.repeat(np.random.default_rng(1).normal(size=20), 10)[:, None]
    of_houses = Bootstrap([str(n // 10) for n in range(200)]).estimates(by_house, np.ones_like(by_house))
    of_questions = Bootstrap([str(n) for n in range(200)]).estimates(by_house, np.ones_like(by_house))
    assert of_houses.high[0] - of_houses.low[0] > 2 * (of_questions.high[0] - of_questions.low[0])


def test_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    rng = np.random.default_rng(2)
    houses = [str(n // 3) for n in range(180)]
    values = np.repeat(rng.normal(size=(60, 400)), 3, axis=0) + rng.normal(size=(180, 400))
    found = Bootstrap(houses, resamples=500).estimates(values, np.ones_like(values))
    assert 0.90 <= ((found.low <= 0) & (found.high >= 0)).mean() <= 0.98


def test_a_column_that_knows_nothing_has_no_estimate_and_spoils_no_other() -> None:
    above, below = columns(2)
    above[:, 0] = np.nan
    found = Bootstrap(HOUSES).estimates(above, below)
    assert np.isnan([found.value[0], found.low[0], found.high[0]]).all() and found.questions[0] == 0
    assert np.isfinite([found.value[1], found.low[1], found.high[1]]).all()


def test_columns_of_other_questions_are_refused() -> None:
    with pytest.raises(ValueError, match="numerators: expected 12 questions, got 3"):
        Bootstrap(HOUSES).estimates(np.ones((3, 1)), np.ones((3, 1)))


def test_seeds_are_averaged_for_each_question_and_their_deviation_is_between_their_means() -> None:
    values = np.array([[1.0, 2.0, np.nan], [3.0, np.nan, np.nan]])
    assert over_seeds(values)[:2].tolist() == [2.0, 2.0] and np.isnan(over_seeds(values)[2])
    assert deviation_of_seeds(values, np.ones_like(values)) == pytest.approx(np.std([1.5, 3.0], ddof=1))
    assert np.isnan(deviation_of_seeds(values[:1], np.ones((1, 3))))
