"""Microbatches of an update's episodes, in the form that a navigator learns from.

A walk is learned from as a demonstration, weighted by each step's advantage. A navigator that `keeps_state` learns from
its own actions alone. Its state at the spawn is known from walking, and no gradient goes back through the history.
Others get the whole walk.

Axes: M episodes, C of them, T steps of history and walk.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from eqa.envs.actions import PADDED_ACTION
from eqa.models.learning.rollouts import Rollout
from eqa.models.navigators.navigator import Navigator, prepared
from eqa.models.navigators.recurrent_state import rows

ALONG = ("features", "actions", "planner_queried")  # parts of a batch that have an entry for each step


@dataclass(frozen=True, slots=True)
class Advantages:
    """Advantages, returns and counted steps of episodes."""

    values: Float[Tensor, "M T"]
    returns: Float[Tensor, "M T"]  # targets of the critic
    counts: Bool[Tensor, "M T"]


def make_microbatches(
    rollout: Rollout,
    advantages: Advantages,
    navigator: Navigator,
    *,
    size: int,
    reference: Navigator | None,
) -> list[dict]:
    """All episodes, `size` at a time, alike in length, so that little is padding.

    One step of the optimizer takes some of them; their gradients add up. Each microbatch has
    - batch, for `navigator`; reference, for another one that is compared with it;
    - answers, their prior and last_frames; num_episodes of the update; chosen, the indices of its episodes;
    - facts, returns and counts of each step, for the critic.
    """
    there = rollout.batch["actions"] != PADDED_ACTION
    lengths = (rollout.counts if navigator.keeps_state else there).sum(1)
    theirs = None if reference is None or not navigator.keeps_state else rollout.at_spawns(reference)
    microbatches = []
    for chosen in lengths.argsort(stable=True).split(size):
        given = episodes(rollout, chosen, longest=int(there[chosen].sum(1).max()))
        given["weights"] = advantages.values[chosen, : given["actions"].shape[1]]
        batch = given
        if navigator.keeps_state:
            batch = {**own_steps(given), "state": rows(rollout.state, chosen)}
        batch = prepared(navigator, batch)
        microbatch = {
            "batch": batch,
            "reference": batch if theirs is None else {**batch, "state": rows(theirs, chosen)},
        }
        microbatch["chosen"] = chosen
        microbatch |= {name: getattr(rollout, name)[chosen] for name in ("answers", "prior", "last_frames")}
        microbatch["num_episodes"] = len(lengths)
        of_steps = {"facts": rollout.facts, "returns": advantages.returns, "counts": advantages.counts}
        microbatch |= {name: values[chosen] for name, values in of_steps.items()}
        microbatches.append(microbatch)
    return microbatches


@torch.no_grad()
def begin_again(microbatches: list[dict], rollout: Rollout, navigator: Navigator) -> None:
    """Recomputes the states at the spawns for a navigator that has changed since the walk."""
    if navigator.keeps_state:
        state = rollout.at_spawns(navigator)
        for microbatch in microbatches:
            microbatch["batch"]["state"] = rows(state, microbatch["chosen"])


def episodes(rollout: Rollout, chosen: Int64[Tensor, " C"], *, longest: int | None = None) -> dict[str, Tensor]:
    """Some episodes up to a length, as a batch of `models.navigators.navigator`."""
    along = {name: rollout.batch[name][chosen, :longest] for name in ALONG}
    return along | {name: rollout.batch[name][chosen] for name in ("questions", "loss_from")}


def own_steps(batch: dict[str, Tensor]) -> dict[str, Tensor]:
    """A batch without the walks' histories: frame 0 is the view at the spawn."""
    actions, known = batch["actions"], batch["loss_from"]
    longest = int(((actions != PADDED_ACTION).sum(1) - known).max())
    step = known[:, None] + torch.arange(longest, device=known.device)
    there, step = step < actions.shape[1], step.clamp(max=actions.shape[1] - 1)
    walk = torch.arange(len(known), device=known.device)[:, None]
    own = {name: batch[name][walk, step] for name in (*ALONG, "weights")}
    own["actions"] = torch.where(there, own["actions"], PADDED_ACTION)
    return {**own, "questions": batch["questions"], "loss_from": torch.zeros_like(known)}
