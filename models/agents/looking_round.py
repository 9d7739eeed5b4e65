"""`LookingRound`: a trained navigator that looks round for its target where it would stop.

Demonstrations walk straight to their targets. So an agent that imitates them stops near one that lies behind it. This
one turns a full circle there. It stops at the first view in which the encoder is sure of the thing that the question
asks for. After a circle without such a view it turns back to the best one.

Axes: N episodes, W of them that walk, F features.
"""

from math import radians

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from eqa.envs.actions import Action, ActionSet
from eqa.envs.simulator import Observation
from eqa.models.agents.agent import EpisodeBatch
from eqa.models.agents.navigating import SeeingAgain
from eqa.models.encoders.place_names import NameReader
from eqa.models.encoders.seen_frames import SeenFrames

SURE = 0.7  # mean probability of the surest places at which it stops; chosen on val
APART_RAD = radians(36)  # between the views of the circle that it looks at, at most, so that they overlap
WALKING, CIRCLING, RETURNING = range(3)


def look_every(actions: ActionSet) -> int:
    """Turns from one view of the circle to the next: as many as fit, of those that close it. In houses it is four."""
    most = max(int(APART_RAD / actions.turn_rad + 1e-6), 1)
    return next(turns for turns in range(most, 0, -1) if actions.num_headings % turns == 0)


def looks_round(agent: str) -> str:
    """The line of an agent that looks round before it stops."""
    return f"{agent}, looks round"


class LookingRound(SeeingAgain):
    """`names` finds the class that a question asks for. With too few actions left for it, it stops at once.

    Between two looks the features of the last one stay.
    """

    planned = None  # turns of the circle are neither a planner's nor a controller's

    def __init__(self, navigator: nn.Module, frames: SeenFrames, names: NameReader) -> None:
        super().__init__(navigator, frames)
        self.names = names

    @torch.inference_mode()
    def reset(self, batch: EpisodeBatch) -> None:
        super().reset(batch)
        self.every = look_every(batch.action_set)
        self.circle, left = batch.action_set.num_headings, batch.action_set.max_steps
        self.asked = self.names.asked(batch.question_ids.to(self.names.layer.weight.device))
        self.left = np.full(self.num, left)  # actions
        self.phase, self.turned = np.zeros(self.num, np.int64), np.zeros(self.num, np.int64)
        self.best, self.at = np.full(self.num, -1.0), np.zeros(self.num, np.int64)
        self.back, self.way = np.zeros(self.num, np.int64), np.zeros(self.num, np.int64)

    @torch.inference_mode()
    def act(self, observation: Observation, agents: Int64[np.ndarray, " W"]) -> Int64[np.ndarray, " W"]:
        looks = self._looks(agents)
        actions = super().act(observation, agents)
        begins = (self.phase[agents] == WALKING) & (actions == Action.STOP)
        begins &= self.left[agents] > self.circle + self.circle // 2
        self.phase[agents[begins]] = CIRCLING
        self._judge(agents[looks & (self.phase[agents] == CIRCLING)])
        self.left[agents] -= 1
        circling, returning = (self.phase[agents] == phase for phase in (CIRCLING, RETURNING))
        self.turned[agents[circling]] += 1
        there = returning & (self.back[agents] == 0)
        self.back[agents[returning & ~there]] -= 1
        actions = np.where(circling, int(Action.LEFT), np.where(returning, self.way[agents], actions))
        return np.where(there, int(Action.STOP), actions)

    def _judge(self, agents: Int64[np.ndarray, " _"]) -> None:
        """Keeps the best view of the circle so far; the circle ends with a sure view, or once it is whole."""
        whole = self.turned[agents] >= self.circle
        sure = self.sureness(self._seen[-1][torch.from_numpy(agents)], agents)
        better = ~whole & (sure > self.best[agents])
        self.best[agents[better]], self.at[agents[better]] = sure[better], self.turned[agents[better]]
        over = agents[whole | (sure >= SURE)]
        right = np.where(self.turned[over] >= self.circle, self.circle - self.at[over], 0)
        left = np.where(right > 0, self.circle - right, 0)
        self.phase[over], self.back[over] = RETURNING, np.minimum(left, right)
        self.way[over] = np.where(right <= left, int(Action.RIGHT), int(Action.LEFT))

    def sureness(self, features: Float[Tensor, "W F"], agents: Int64[np.ndarray, " W"]) -> np.ndarray:
        """See `NameReader.sureness`, of the thing that each agent's question asks for."""
        who = torch.from_numpy(agents)
        return self.names.sureness(features, *(part[who] for part in self.asked))[0].double().cpu().numpy()

    def _looks(self, agents: Int64[np.ndarray, " W"]) -> Bool[np.ndarray, " W"]:
        """True for agents that look at the view before them."""
        phase = self.phase[agents]
        turns = np.where(phase == CIRCLING, self.turned[agents], self.back[agents])
        return (phase == WALKING) | (turns % self.every == 0)

    def _encode(self, observation: Observation, agents: Int64[np.ndarray, " W"]) -> Float[Tensor, "W F"]:
        looks = self._looks(agents)
        if looks.all():
            return super()._encode(observation, agents)
        chosen = torch.from_numpy(np.flatnonzero(looks))
        seen = self._seen[-1][torch.from_numpy(agents)].clone()
        if len(chosen):
            shown = {name: values[chosen] for name, values in observation.items()}
            seen[chosen] = super()._encode(shown, agents[looks])
        return seen
