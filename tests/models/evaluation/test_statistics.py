"""The fast bootstrap against a slow obvious one, and what its intervals are good for."""

import numpy as np
import pytest

from eqa.envs.metrics import bootstrap_interval
from eqa.models.evaluation.statistics import Bootstrap, Columns, draws, ratios_of_seeds

HOUSES = [f"house-{n}" for n in (0, 0, 0, 1, 2, 2, 3, 4, 4, 4, 4, 5)]


def columns(num: int, *, seeds: int = 1, unknown: float = 0.0) -> Columns:
    rng = np.random.default_rng(3)
    shape = (seeds, len(HOUSES), num)
    above, below = rng.normal(1.0, 1.0, shape), rng.uniform(0.5, 2.0, shape)
    above[rng.random(above.shape) < unknown] = np.nan
    return Columns(above, below)


def means(values: np.ndarray) -> Columns:
    """Columns of one seed whose ratios are means."""
    return Columns(values[None], np.ones_like(values)[None])


def slow_ratio(above: np.ndarray, below: np.ndarray, played: list[tuple[int, int]]) -> float:
    known = [place for place in played if not np.isnan(above[place])]
    return sum(above[place] for place in known) / sum(below[place] for place in known) if known else float("nan")


def slow_draws(resamples: int, seeds: int) -> list[list[tuple[int, int]]]:
    """The (seed, question) of each resample: those of a house as often as it was drawn, for each time that a seed was."""
    names = sorted(set(HOUSES))
    of_houses = draws(len(names), resamples=resamples)
    of_seeds = draws(seeds, resamples=resamples, seed=1)
    return [
        [
            (seed, q)
            for seed, again in enumerate(of_seeds[r])
            for _ in range(int(again))
            for house, often in zip(names, of_houses[r], strict=True)
            for _ in range(int(often))
            for q, of in enumerate(HOUSES)
            if of == house
        ]
        for r in range(resamples)
    ]


@pytest.mark.parametrize("seeds", [1, 3])
@pytest.mark.parametrize("unknown", [0.0, 0.4])
def test_estimates_and_paired_differences_are_those_of_a_slow_bootstrap(unknown: float, seeds: int) -> None:
    made = columns(4, seeds=seeds, unknown=unknown)
    fast = Bootstrap(HOUSES, resamples=300)
    found = fast.estimates(made)
    drawn = slow_draws(300, seeds)
    everything = [(s, q) for s in range(seeds) for q in range(len(HOUSES))]
    for k in range(4):
        above, below = made.above[..., k], made.below[..., k]
        slow = [slow_ratio(above, below, played) for played in drawn]
        assert found.value[k] == pytest.approx(slow_ratio(above, below, everything))
        assert (found.low[k], found.high[k]) == pytest.approx(tuple(np.nanquantile(slow, [0.025, 0.975])))
        assert found.questions[k] == (~np.isnan(above)).any(axis=0).sum()
    one, other = (Columns(made.above[..., [k]], made.below[..., [k]]) for k in (2, 0))
    pair = fast.differences(one, other)
    both = ~np.isnan(made.above[..., 2]) & ~np.isnan(made.above[..., 0])
    first, second = (np.where(both, made.above[..., k], np.nan) for k in (2, 0))
    slow = [slow_ratio(first, made.below[..., 2], d) - slow_ratio(second, made.below[..., 0], d) for d in drawn]
    assert (pair.low[0], pair.high[0]) == pytest.approx(tuple(np.nanquantile(slow, [0.025, 0.975])))
    assert pair.questions[0] == both.any(axis=0).sum()


def test_an_interval_is_the_one_of_the_metrics_module() -> None:
    above = columns(3).above[0]
    found = Bootstrap(HOUSES).estimates(means(above))
    _, groups = np.unique(HOUSES, return_inverse=True)
    for k in range(3):
        assert (found.low[k], found.high[k]) == pytest.approx(bootstrap_interval(above[:, k], groups))


def test_where_the_same_questions_are_hard_the_paired_difference_is_much_narrower_than_an_unpaired_one() -> None:
    rng = np.random.default_rng(0)
    hard = rng.normal(0.0, 2.0, 200)
    values = np.stack([hard + rng.normal(0.0, 0.2, 200), hard + 0.15 + rng.normal(0.0, 0.2, 200)], axis=1)
    bootstrap = Bootstrap([str(n) for n in range(200)])
    alone = bootstrap.estimates(means(values))
    pair = bootstrap.differences(means(values[:, [1]]), means(values[:, [0]]))
    unpaired_width = np.hypot(*(alone.high - alone.low))
    assert pair.high[0] - pair.low[0] < unpaired_width / 5
    assert pair.low[0] > 0 and abs(pair.value[0]) < unpaired_width / 2


def test_questions_that_go_right_and_wrong_together_by_house_make_the_interval_wider() -> None:
    by_house = np.repeat(np.random.default_rng(1).normal(size=20), 10)[:, None]
    of_houses = Bootstrap([str(n // 10) for n in range(200)]).estimates(means(by_house))
    of_questions = Bootstrap([str(n) for n in range(200)]).estimates(means(by_house))
    assert of_houses.high[0] - of_houses.low[0] > 2 * (of_questions.high[0] - of_questions.low[0])


def test_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    rng = np.random.default_rng(2)
    houses = [str(n // 3) for n in range(180)]
    values = np.repeat(rng.normal(size=(60, 400)), 3, axis=0) + rng.normal(size=(180, 400))
    found = Bootstrap(houses, resamples=500).estimates(means(values))
    assert 0.90 <= ((found.low <= 0) & (found.high >= 0)).mean() <= 0.98


def test_intervals_over_three_seeds_hold_the_truth_where_trainings_differ_and_those_over_houses_do_not() -> None:
    rng, trials = np.random.default_rng(4), 200
    houses = [str(n // 9) for n in range(513)]
    values = np.repeat(rng.normal(0.0, 0.6, (57, trials)), 9, axis=0) + rng.normal(0.0, 3.0, (3, 513, trials))
    values += rng.normal(0.0, 0.2 * np.sqrt(2), (3, 1, trials))  # as far apart as two lines' trainings
    bootstrap = Bootstrap(houses, resamples=400)
    over_both = bootstrap.estimates(Columns(values, np.ones_like(values)))
    over_houses = bootstrap.estimates(means(values.mean(axis=0)))
    held = [((found.low <= 0) & (found.high >= 0)).mean() for found in (over_both, over_houses)]
    assert 0.88 <= held[0] <= 0.99 and held[1] < 0.82


def test_a_column_that_knows_nothing_has_no_estimate_and_spoils_no_other() -> None:
    made = columns(2)
    made.above[..., 0] = np.nan
    found = Bootstrap(HOUSES).estimates(made)
    assert np.isnan([found.value[0], found.low[0], found.high[0]]).all() and found.questions[0] == 0
    assert np.isfinite([found.value[1], found.low[1], found.high[1]]).all()


def test_one_house_and_one_resample_can_be_drawn_and_none_cannot() -> None:
    assert draws(1, resamples=1).tolist() == [[1.0]]
    for number, resamples in ((0, 1), (1, 0)):
        with pytest.raises(ValueError, match=f"at least 1 .* got {number} and {resamples}"):
            draws(number, resamples=resamples)


def test_columns_of_other_questions_are_refused() -> None:
    with pytest.raises(ValueError, match="columns: expected 12 questions, got 3"):
        Bootstrap(HOUSES).estimates(means(np.ones((3, 1))))


def test_each_seed_has_a_ratio_over_what_it_knows() -> None:
    values = np.array([[1.0, 2.0, np.nan], [3.0, np.nan, np.nan]])[..., None]
    made = Columns(values, np.ones_like(values))
    assert ratios_of_seeds(made)[:, 0].tolist() == [1.5, 3.0]
    other = Columns(np.full_like(values, 1.0), np.ones_like(values))
    assert ratios_of_seeds(made, other)[:, 0].tolist() == [0.5, 2.0]
