"""Targets of PACMAN's planner and controller along walks of primitive actions.

The planner is queried where a run of equal actions begins, and within a run at the latest after `max_repeats` steps. At
each frame in between the controller repeats the current action or returns to the planner.

Axes: B walks, T steps (frame t is seen before action t), P planner decisions of the walk that has most; in a batch,
S planner decisions, M controller decisions and K frames that either needs.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from eqa.models.navigators.action_selection import START
from eqa.models.navigators.navigator import loss_mask, targets, weights


@runtime_checkable
class CarriedAction(Protocol):
    """The action with which walks go on; `models.navigators.pacman.PacmanState` is an example."""

    previous_action: Tensor  # (B,) int64
    repeats: Tensor  # (B,) int64


@dataclass(frozen=True, slots=True)
class HierarchicalTargets:
    """The part that decides at each step of a walk, and its target; every array is (B, T)."""

    queries: Tensor  # bool: the planner chooses action t
    controls: Tensor  # bool: the controller decides at frame t, that is, wherever an action is under way
    repeats: Tensor  # bool, the controller's target: action t repeats the previous one under the same planner decision
    must_return: Tensor  # bool: the controller must return because the limit is reached; no target for learning
    previous_action: Tensor  # int64: the action under way when frame t is seen; START where a walk begins
    planner_step: Tensor  # int64: the walk's planner decision in force when frame t is seen; -1 before the first


def hierarchical_targets(
    actions: Int64[Tensor, "B T"],
    max_repeats: int = 5,
    *,
    planner_queried: Bool[Tensor, "B T"] | None = None,
    state: CarriedAction | None = None,
) -> HierarchicalTargets:
    """Splits primitive actions, padded with -1, into planner and controller decisions. `actions` is left unchanged.

    The planner is queried at the start of each run of equal actions, and within a run after every `max_repeats` steps.
    `planner_queried` overrides this: a trained agent may also query it within a run and choose the same action again.
    Walks that continue take their previous action and its repeats from `state`.
    """
    valid = actions >= 0
    first = torch.ones_like(valid[:, :1])
    starts = torch.cat([first, actions[:, 1:] != actions[:, :-1]], dim=1)
    steps = torch.arange(actions.shape[1], device=actions.device).expand_as(actions)
    if planner_queried is None:
        planner_queried = (steps - torch.where(starts, steps, 0).cummax(1).values) % max_repeats == 0
    before = torch.full_like(actions[:, :1], START) if state is None else state.previous_action.cpu()[:, None]
    repeated = torch.zeros_like(actions[:, :1]) if state is None else state.repeats.cpu()[:, None]
    place = steps - torch.where(planner_queried, steps, 0).cummax(1).values
    place = torch.where(planner_queried.cumsum(1) > 0, place, place + repeated)
    queries = valid & planner_queried
    previous_action = torch.cat([before, actions[:, :-1]], dim=1)
    controls = valid & (previous_action != START)
    last_place = torch.cat([repeated - 1, place[:, :-1]], dim=1)
    return HierarchicalTargets(
        queries=queries,
        controls=controls,
        repeats=controls & ~queries,
        must_return=controls & (last_place == max_repeats - 1),
        previous_action=previous_action,
        planner_step=queries.long().cumsum(1) - queries.long() - 1,
    )


@dataclass(frozen=True, slots=True)
class TeacherForcing:
    """The decisions of a batch of walks: the planner's padded, one row per walk; the controller's concatenated.

    `Pacman.prepare` makes it on the CPU, so moving a batch to a GPU does not wait for it.
    """

    frames: Tensor  # (K,) rows of features flattened to (B T, F): those that a decision needs
    planner_frame: Tensor  # (B, P) index into `frames`
    planner_input: Tensor  # (B, P) action under way until now, or START
    planner_scored: Tensor  # (S,) decisions that count for the loss, index into B (1 + P): place 0 is before the first
    planner_target: Tensor  # (S,)
    planner_weight: Tensor  # (S,) weight of the decision
    controller_frame: Tensor  # (M,) index into `frames`; only decisions that count
    controller_planner: Tensor  # (M,) the planner decision in force, index into B (1 + P)
    controller_input: Tensor  # (M,) the action under way
    controller_target: Tensor  # (M,) 1 repeats
    controller_weight: Tensor  # (M,)

    def to(self, *args, **kwargs) -> "TeacherForcing":
        return self._map(lambda tensor: tensor.to(*args, **kwargs))

    def pin_memory(self) -> "TeacherForcing":
        return self._map(Tensor.pin_memory)

    def _map(self, function: Callable[[Tensor], Tensor]) -> "TeacherForcing":
        return TeacherForcing(**{field.name: function(getattr(self, field.name)) for field in fields(self)})


def list_decisions(batch: dict, max_repeats: int) -> TeacherForcing:
    """All decisions of a batch of walks, see `models.navigators.navigator`. The walks' history is given, but not
    scored.

    The actions taken determine which part decides when; its target is the right action.

    A decision weighs as much as its action, whichever part takes it. The probability that both parts together give to
    an action is then weighted as in a navigator without parts.
    """
    actions, wanted, counts, weight = batch["actions"].cpu(), targets(batch), loss_mask(batch), weights(batch)
    split = hierarchical_targets(actions, max_repeats)
    if "planner_queried" in batch:
        own = torch.arange(actions.shape[1]) >= batch["loss_from"].cpu()[:, None]
        chosen = torch.where(own, batch["planner_queried"].cpu(), split.queries)
        split = hierarchical_targets(actions, max_repeats, planner_queried=chosen, state=batch.get("state"))
    repeats = split.repeats if "planner_queried" in batch else wanted == split.previous_action
    num_walks, num_steps = actions.shape

    walk, step = split.queries.nonzero(as_tuple=True)
    width = max(int(split.queries.sum(1).max()), 1)
    place = walk * width + split.planner_step[walk, step] + 1
    scored = counts[walk, step]
    control_walk, control_step = (split.controls & ~split.must_return & counts).nonzero(as_tuple=True)
    frames, index = torch.unique(
        torch.cat([walk * num_steps + step, control_walk * num_steps + control_step]), return_inverse=True
    )
    planner_frame = torch.zeros(num_walks * width, dtype=torch.int64).scatter_(0, place, index[: len(walk)])
    planner_input = torch.full((num_walks * width,), START).scatter_(0, place, split.previous_action[walk, step])
    return TeacherForcing(
        frames=frames,
        planner_frame=planner_frame.view(num_walks, width),
        planner_input=planner_input.view(num_walks, width),
        planner_scored=(place + walk + 1)[scored],
        planner_target=wanted[walk, step][scored],
        planner_weight=weight[walk, step][scored],
        controller_frame=index[len(walk) :],
        controller_planner=control_walk * (width + 1) + split.planner_step[control_walk, control_step] + 1,
        controller_input=split.previous_action[control_walk, control_step],
        controller_target=repeats[control_walk, control_step].long(),
        controller_weight=weight[control_walk, control_step],
    )
