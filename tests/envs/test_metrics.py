"""The paper's metrics on walks small enough to work out by hand, and each evaluation bug of the released code."""

import numpy as np
import pytest

from eqa.envs.actions import Action
from eqa.envs.metrics import (
    answer_ranks,
    bootstrap_interval,
    inside_polygon,
    navigation_errors,
    walk_metrics,
    wilson_interval,
)

F, L, R, STOP = Action.FORWARD, Action.LEFT, Action.RIGHT, Action.STOP


def measure(distances, in_room, actions, path_m=0.0):
    return walk_metrics(
        np.array([distances], np.float32),
        np.array([in_room]),
        np.array([[int(a) for a in actions]]),
        np.array([len(actions)]),
        np.array([path_m]),
    )


def test_a_walk_worked_out_by_hand():
    got = measure([2.0, 1.5, 1.0, 1.25, 1.25], [False, True, True, False, False], [F, F, F, STOP])
    expected = {"d_0": 2, "d_T": 1.25, "d_delta": 0.75, "d_min": 1, "r_T": 0, "r_e": 1, "stop": 1, "ep_len": 4}
    expected |= {"success": 0, "spl": 0}
    assert {name: float(value[0]) for name, value in got.items()} == expected


def test_the_pose_after_the_hundredth_action_counts():
    distances = np.linspace(10, 0, 101)
    in_room = np.arange(101) == 100
    got = measure(distances, in_room, [F] * 100)
    assert (got["d_T"][0], got["d_min"][0], got["r_T"][0], got["r_e"][0], got["stop"][0]) == (0, 0, 1, 1, 0)


def test_leaving_out_the_final_pose_is_refused():
    with pytest.raises(ValueError, match="pose after the last action"):
        measure([2.0, 1.5], [False, False], [F, STOP])


def test_an_agent_that_stops_at_once_has_its_spawn_as_final_pose():
    got = measure([3.0, 3.0], [True, True], [STOP])
    assert (got["d_T"][0], got["d_delta"][0], got["stop"][0], got["r_T"][0]) == (3, 0, 1, 1)


def test_success_is_stopping_in_the_targets_room_and_spl_weighs_it_by_the_way_taken():
    for stopped, in_room, success in ((True, True, 1), (True, False, 0), (False, True, 0)):
        got = measure([2.0, 1.0], [False, in_room], [STOP if stopped else F], path_m=8.0)
        assert (got["success"][0], got["spl"][0]) == (success, success * 2 / 8)
    assert measure([2.0, 0.5], [False, True], [STOP], path_m=1.5)["spl"][0] == 1  # no more than all of it
    assert measure([0.0, 0.0], [True, True], [STOP])["spl"][0] == 1  # spawned at the goal


def test_padding_never_counts():
    distances = np.array([[5.0, 4.0, 0.0, 0.0], [5.0, 4.0, 3.0, 2.0]])
    in_room = np.array([[False, False, True, True], [False, False, False, True]])
    actions = np.array([[F, STOP, STOP], [F, F, F]], dtype=np.int64)
    got = walk_metrics(distances, in_room, actions, np.array([1, 3]), np.zeros(2))
    assert got["d_min"].tolist() == [4, 2] and got["d_T"].tolist() == [4, 2]
    assert got["r_e"].tolist() == [0, 1] and got["r_T"].tolist() == [0, 1]
    assert got["stop"].tolist() == [0, 0]


def test_padding_may_hold_anything():
    plain = measure([2.0, 1.0], [False, True], [F])
    padded = walk_metrics(
        np.array([[2.0, 1.0, np.nan, np.inf]]),
        np.array([[False, True, True, False]]),
        np.array([[0, -1, -1]]),
        np.array([1]),
        np.zeros(1),
    )
    assert all(plain[name] == padded[name] for name in plain)


def test_each_question_has_its_own_row_so_a_mean_does_not_depend_on_order():
    # The released code filled missing walks with the running mean: 0, eight missing, 10 gave 1.0.
    distances = np.array([[0.0, 0.0], [10.0, 10.0]])
    got = walk_metrics(distances, np.zeros((2, 2), bool), np.full((2, 1), 3), np.array([1, 1]), np.zeros(2))
    assert got["d_T"].mean() == 5 and got["d_T"][::-1].mean() == 5


def test_an_unknown_distance_is_refused_and_not_averaged():
    for unknown in (np.nan, np.inf):
        with pytest.raises(ValueError, match="row 0"):
            measure([2.0, unknown], [False, False], [F])


def test_lengths_beyond_the_actions_are_refused():
    with pytest.raises(ValueError, match="num_actions"):
        walk_metrics(np.zeros((1, 2)), np.zeros((1, 2), bool), np.zeros((1, 1), int), np.array([2]), np.zeros(1))


def test_a_room_with_a_corner_cut_out_is_told_from_its_bounding_box():
    room = [(0.0, 0.0), (0.0, 4.0), (2.0, 4.0), (2.0, 2.0), (4.0, 2.0), (4.0, 0.0)]
    points = np.array([[[1, 1], [3, 3]], [[1, 3], [3, 1]]], np.float64)
    assert inside_polygon(points, room).tolist() == [[True, False], [True, True]]
    with pytest.raises(ValueError, match="x and z"):
        inside_polygon(np.zeros((3, 4)), room)


def test_ranks_agree_with_sorting_where_no_scores_are_equal():
    scores = np.random.default_rng(0).permuted(np.tile(np.arange(7.0), (50, 1)), axis=1)
    answers = np.random.default_rng(1).integers(7, size=50)
    slow = [1 + sorted(row, reverse=True).index(row[a]) for row, a in zip(scores.tolist(), answers)]
    assert answer_ranks(scores, answers).tolist() == slow


def test_scoring_all_answers_alike_gives_the_middle_rank_and_not_the_first():
    assert answer_ranks(np.zeros((1, 5)), np.array([2])).tolist() == [3]


def test_scores_that_are_not_numbers_and_answers_that_do_not_exist_are_refused():
    with pytest.raises(ValueError, match="NaN"):
        answer_ranks(np.array([[np.nan, 1.0]]), np.array([0]))
    with pytest.raises(ValueError, match="answers"):
        answer_ranks(np.zeros((1, 2)), np.array([2]))


def test_bootstrap_intervals_are_reproducible_and_as_wide_as_theory_says():
    values = np.random.default_rng(0).normal(3, 2, size=400)
    low, high = bootstrap_interval(values)
    assert (low, high) == bootstrap_interval(values)
    theory = 1.96 * values.std() / 20
    assert low == pytest.approx(values.mean() - theory, abs=0.05) and high == pytest.approx(
        values.mean() + theory, abs=0.05
    )


def test_bootstrap_intervals_of_grouped_questions_are_wider():
    values = np.repeat(np.random.default_rng(0).normal(size=40), 10)
    low, high = bootstrap_interval(values)
    grouped_low, grouped_high = bootstrap_interval(values, np.repeat(np.arange(40), 10))
    assert grouped_high - grouped_low > 2 * (high - low)


def test_bootstrap_refuses_what_is_not_valid():
    for values in ([], [1.0, np.nan]):
        with pytest.raises(ValueError, match="values"):
            bootstrap_interval(np.array(values))


@pytest.mark.parametrize(("right", "num"), [(0, 1), (0, 10), (7, 10), (10, 10), (43, 100), (2.5, 8)])
def test_a_wilson_interval_is_where_the_score_test_stops_refusing(right, num):
    shares = np.linspace(0, 1, 200_001)
    kept = shares[(right / num - shares) ** 2 <= 1.96**2 * shares * (1 - shares) / num + 1e-15]
    assert wilson_interval(right, num) == pytest.approx((kept.min(), kept.max()), abs=2e-5)


@pytest.mark.parametrize("answers", [[0, 2], [2, 0], [-1, 0], [0, -1], [-1, -1]])
def test_an_answer_that_is_no_column_is_refused(answers):
    with pytest.raises(ValueError, match="answers: expected 0 to 1"):
        answer_ranks(np.zeros((2, 2)), np.array(answers))


@pytest.mark.parametrize("resamples", [50, 250, 301])
def test_a_bootstrap_interval_is_that_of_as_many_means_as_are_asked_for(resamples):
    values, rng = np.random.default_rng(1).normal(size=7), np.random.default_rng(0)
    means = [values[rng.integers(7, size=7)].mean() for _ in range(resamples)]
    assert bootstrap_interval(values, resamples=resamples) == pytest.approx(tuple(np.quantile(means, (0.025, 0.975))))


def test_navigation_errors_are_straight_and_along_the_axes_of_the_plan():
    ends, targets = np.array([[3.0, 9.0, 4.0], [0, 0, 0], [1, 2, 3]]), np.array([[0.0, 9.0, 0.0], [0, 5, 0], [1, 2, 3]])
    found = navigation_errors(ends, targets)
    assert found["ne_m"].tolist() == [5, 5, 0] and found["ne_l1_m"].tolist() == [7, 0, 0]  # height counts in one alone
    rng = np.random.default_rng(0)
    ends, targets = rng.normal(size=(2, 50, 3))
    found = navigation_errors(ends, targets)
    slow = [sum((a - b) ** 2 for a, b in zip(*pair, strict=True)) ** 0.5 for pair in zip(ends, targets, strict=True)]
    assert np.allclose(found["ne_m"], slow)
    assert navigation_errors(np.zeros((0, 3)), np.zeros((0, 3)))["ne_m"].shape == (0,)


@pytest.mark.parametrize("ends", [np.array([[0.0, 0, np.nan]]), np.array([[0.0, 0, np.inf]]), np.zeros((1, 2)), np.zeros((2, 3))])  # fmt: skip
def test_navigation_errors_of_unknown_places_are_refused(ends):
    with pytest.raises((ValueError, TypeError)):
        navigation_errors(ends, np.zeros((1, 3)))
