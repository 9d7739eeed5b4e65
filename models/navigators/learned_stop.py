"""`LearnedStop`: a navigator that walks as another one does, and stops where a small network says so.

The network sees how sure the encoder is of the thing and of the room that the question asks for, in this view and in
those before it, how many steps were made, and how likely the other navigator would have stopped.
`models.learning.stopping` teaches it.

Axes: N agents, F features, I inputs, K classes, R rooms, O colours.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from eqa.envs.actions import Action
from eqa.models.encoders.place_names import NameReader
from eqa.models.navigators.action_selection import checked_odds
from eqa.models.navigators.navigator import Decisions, Navigator
from eqa.models.navigators.recurrent_state import RecurrentState
from eqa.models.registry import REGISTRY, register

SURE = 0.5  # from which on a view counts as one of the target
MANY = 10  # such views
NEVER = 1e-30  # stop_odds
FIRST_LOGIT = -2.0  # of stopping, before learning: it walks about nine steps
INPUTS = (
    "sureness of the thing that is asked for",
    "the largest so far",
    "what it has gained by the last step",
    "views so far that were sure of it, in tens",
    "sureness of the room that is asked for",
    "the share of the longest walk that is made",
    "the walker's probability of STOP in its last choice, twice",  # it is seldom large
    "the largest so far, twice",
)


@dataclass(frozen=True, slots=True)
class StopState(RecurrentState):
    """The walker's state, and what each of N agents has seen since its spawn."""

    walker: RecurrentState
    asked_class: Tensor  # (N, K) weights of the classes that are asked for
    asked_room: Tensor  # (N, R)
    asked_color: Tensor  # (N, O)
    last: Tensor  # (N,) sureness of the last view
    most: Tensor  # (N,)
    views: Tensor  # (N,) that were sure
    steps: Tensor  # (N,) since the spawn
    wish: Tensor  # (N,) the walker's largest probability of STOP

    @property
    def num_steps(self) -> int:
        return self.walker.num_steps

    def aligned(self, steps: int) -> "StopState":
        return replace(self, walker=self.walker.aligned(steps))


@register
class LearnedStop(Navigator):
    """`walker` has the class and arguments of the other navigator, of which the likeliest actions are taken.

    It stops after at most `longest` steps. `name_counts` are those of the encoder's `PlaceNames`. `asks_colors` is for
    questions that tell a thing by its colour. With `stops` set to False it never stops, to see what there is to see.
    Learning to walk is the walker's.
    """

    draws = False

    def __init__(
        self,
        vocabulary_size: int,
        *,
        walker: Mapping,
        map_shape: Sequence[int],
        name_counts: Sequence[int],
        asks_colors: bool = False,
        longest: int = 40,
        hidden_size: int = 64,
        stop_odds: float = 1.0,
    ):
        super().__init__()
        self.walker = REGISTRY[walker["class"]](**{**walker["arguments"], "stop_odds": NEVER})
        self.num_actions, self.longest, self.stop_odds = self.walker.num_actions, longest, checked_odds(stop_odds)
        self.names = NameReader(vocabulary_size, map_shape[0], name_counts, asks_colors=asks_colors)
        self.network = nn.Sequential(
            nn.Linear(len(INPUTS), hidden_size),
            nn.Tanh(),
            nn.Linear(hidden_size, hidden_size),
            nn.Tanh(),
            nn.Linear(hidden_size, 1),
        )
        nn.init.zeros_(self.network[-1].weight)
        nn.init.constant_(self.network[-1].bias, FIRST_LOGIT)
        self.stops = True

    @property
    def heads(self) -> list[nn.Linear]:
        return self.walker.heads

    def prepare(self, batch: dict) -> dict:
        return self.walker.prepare(batch)

    def decision_logits(self, batch: dict) -> dict[str, Decisions]:
        """Those of the walker."""
        return self.walker.decision_logits(batch)

    def initial_state(self, questions: Int64[Tensor, "N L"]) -> StopState:
        return self._begun(self.walker.initial_state(questions), questions)

    def warm_up(
        self, questions: Int64[Tensor, "N L"], features: Float[Tensor, "N T F"], actions: Int64[Tensor, "N T"]
    ) -> StopState:
        """The walker's state after a history; only what is seen from the spawn on counts for stopping."""
        return self._begun(self.walker.warm_up(questions, features, actions), questions)

    def _begun(self, walker: RecurrentState, questions: Int64[Tensor, "N L"]) -> StopState:
        asked = self.names.asked(questions)
        zero = asked[0].new_zeros(len(questions))
        return StopState(walker, *asked, zero, zero, zero, zero, zero)

    def act(
        self,
        state: StopState,
        features: Float[Tensor, "N F"],
        *,
        forced_action: Int64[Tensor, " N"] | None = None,
        active: Bool[Tensor, " N"] | None = None,
        noise: Float[Tensor, "N 2"] | None = None,
    ) -> tuple[StopState, Int64[Tensor, " N"]]:
        """See `Navigator.act`; `noise` changes nothing."""
        state, actions, _ = self.step(state, features, forced_action=forced_action, active=active)
        return state, actions

    def step(
        self,
        state: StopState,
        features: Float[Tensor, "N F"],
        *,
        forced_action: Int64[Tensor, " N"] | None = None,
        active: Bool[Tensor, " N"] | None = None,
    ) -> tuple[StopState, Int64[Tensor, " N"], Float[Tensor, "N I"]]:
        """`act`, and what the network was told, see `INPUTS`."""
        active = torch.ones(len(features), dtype=torch.bool, device=features.device) if active is None else active
        walker, actions = self.walker.act(state.walker, features, forced_action=forced_action, active=active)
        sure, room = self.names.sureness(features, state.asked_class, state.asked_room, state.asked_color)
        wish = self.walker.stop_share(walker)
        wish = torch.zeros_like(sure) if wish is None else wish.float()
        seen = {
            "last": sure,
            "most": torch.maximum(state.most, sure),
            "views": state.views + (sure > SURE),
            "steps": state.steps + 1,
            "wish": torch.maximum(state.wish, wish),
        }
        gained = torch.where(state.steps > 0, sure - state.last, torch.zeros_like(sure))
        told = sure, seen["most"], gained, seen["views"] / MANY, room, state.steps / self.longest
        inputs = torch.stack([*told, 2 * wish, 2 * seen["wish"]], 1)
        stop = (self.stop_logits(inputs) + math.log(self.stop_odds) > 0) | (state.steps >= self.longest - 1)
        if self.stops and forced_action is None:
            actions = torch.where(active & stop, int(Action.STOP), actions)
        kept = {name: torch.where(active, value, getattr(state, name)) for name, value in seen.items()}
        return replace(state, walker=walker, **kept), actions, inputs

    def planner_queried(self, state: StopState) -> Bool[Tensor, " N"] | None:
        return self.walker.planner_queried(state.walker)

    def stop_logits(self, inputs: Float[Tensor, "*axes I"]) -> Float[Tensor, "*axes"]:
        """Logits of stopping where the network is told `inputs`."""
        return self.network(2 * inputs - 1).squeeze(-1)
