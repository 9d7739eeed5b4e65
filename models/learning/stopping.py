"""Reinforcement learning of when to stop, from walks that do not.

A walk's end does not change the way there. So a navigator walks on for `longest` steps, and the reward of stopping is
known at each of them. The mean reward over all ends of a walk, each by its probability, is differentiable:
REINFORCE (Williams 1992) with its expectation taken over STOP instead of a draw. All walks so far teach the network of
`models.navigators.learned_stop` again and again, as it does not change them.

Axes: M walks, S own steps, I inputs.
"""

from dataclasses import dataclass

import pytorch_lightning as pl
import torch
from jaxtyping import Float
from torch import Tensor, nn

from eqa.data.batches.imitation import last_places
from eqa.models.learning.reinforce import log_figures, rolled_out, validate
from eqa.models.learning.rollouts import Rewards, Rollout
from eqa.models.navigators.learned_stop import LearnedStop
from eqa.models.registry import REGISTRY


@dataclass(frozen=True, slots=True)
class Walks:
    """Walks that did not stop: what the network is told at each step, and what stopping there would have earned."""

    inputs: Float[Tensor, "M S I"]
    earned: Float[Tensor, "M S"]


class StopReinforcement(pl.LightningModule):
    """Teaches the agent of `models.learning.rl_data.RolloutData` when to stop; its answerer has to name places.

    - longest: steps after which it stops at the latest.
    - batch_size: walks of a step of Adam, drawn from all so far; an update makes `steps` of them.

    Logs as `models.learning.reinforce.NavigatorReinforcement` does; train/earned is the mean reward under the network's
    probabilities. The first validation is of the agent that it begins with.
    """

    def __init__(
        self,
        navigator: dict,
        answerer: dict,
        samples: int,
        *,
        lr: float,
        longest: int,
        batch_size: int,
        steps: int,
        draw_every: int = 5,
    ):
        super().__init__()
        self.save_hyperparameters()
        self.automatic_optimization = False
        given = answerer["arguments"]
        if "name_counts" not in given:
            raise ValueError(
                f"answerer: expected one that names places, got {answerer['class']}; fine-tune it with +experiment=ppo"
            )
        if not REGISTRY[navigator["class"]].draws:
            raise ValueError(f"navigator: expected one that has not learned when to stop, got {navigator['class']}")
        self.answerer = REGISTRY[answerer["class"]](**given).requires_grad_(False)
        sizes = {name: given[name] for name in ("vocabulary_size", "map_shape", "name_counts")}
        sizes["asks_colors"] = given.get("asks_colors", False)
        self.navigator = LearnedStop(**sizes, walker=navigator, longest=longest)
        for part in (self.navigator.walker, self.navigator.names):
            part.requires_grad_(False)
        self.walks: list[Walks] = []
        self.register_buffer("updates", torch.zeros((), dtype=torch.int64))

    @property
    def parts(self) -> dict[str, nn.Module]:
        """Parts of an agent that it fits."""
        return {"navigator": self.navigator, "answerer": self.answerer}

    def setup(self, stage: str) -> None:
        """Takes the agent's weights; a resumed checkpoint replaces them later. ValueError for several processes."""
        if self.trainer.world_size > 1:
            raise ValueError(
                f"trainer.devices: expected 1 to learn when to stop, got {self.trainer.world_size} processes"
            )
        agent = self.trainer.datamodule.agent
        self.navigator.walker.load_state_dict(agent.navigator.state_dict())
        self.navigator.names.load_state_dict(agent.answerer.names.state_dict())
        self.answerer.load_state_dict(agent.answerer.state_dict())

    def training_step(self, batch: dict[str, Tensor], batch_idx: int) -> None:
        data = self.trainer.datamodule
        rollouts = data.rollouts["train"]
        self.navigator.stops = False
        rollout = rolled_out(rollouts, self.navigator, self.answerer, batch)
        self.navigator.stops = True
        with rollouts.clock("answer"):
            self.walks.append(self._what_stopping_earns(rollout, data.rewards))
        with rollouts.clock("learn"):
            earned = self._learn()
        self.updates += 1
        self.latest = {"train/earned": float(earned)}
        log_figures(self, "train", {"earned": earned}, len(batch["rows"]))

    @torch.no_grad()
    def _what_stopping_earns(self, rollout: Rollout, given: Rewards) -> Walks:
        """Inputs of the network along the walks, which it goes once more, and the reward of stopping there."""
        features, state = rollout.batch["features"], rollout.state
        known, who = rollout.batch["loss_from"], torch.arange(len(rollout.answers))
        distances = torch.from_numpy(rollout.distances_m).to(features.device)
        inputs, earned = [], []
        for t in range(min(self.hparams.longest, features.shape[1] - int(known.max()))):
            state, _, told = self.navigator.step(state, features[who, known + t].float())
            inputs.append(told)
            worth = given.nearer * (distances[:, 0] - distances[:, t]) - given.action * t
            earned.append(given.answer * self._right(rollout, t, given) + worth)
            if rollout.shown is not None:
                earned[-1] += given.seen * rollout.shown[:, t]
        return Walks(torch.stack(inputs, 1).float(), torch.stack(earned, 1).float())

    def _right(self, rollout: Rollout, step: int, given: Rewards) -> Float[Tensor, " M"]:
        """The probability of the right answer after so many own steps, or whether it is given."""
        features, ends = rollout.batch["features"], (rollout.batch["loss_from"] + step + 1).tolist()
        wanted = self.answerer.num_frames, self.answerer.earlier_frames
        places = torch.stack([torch.from_numpy(last_places(end, *wanted)) for end in ends])
        frames = features[torch.arange(len(ends))[:, None], places]
        scores = self.answerer(frames.float(), rollout.batch["questions"], None) + rollout.prior
        if not given.graded:
            return (scores.argmax(1) == rollout.answers).float()
        return scores.float().softmax(1).gather(1, rollout.answers[:, None])[:, 0]

    def _learn(self) -> Tensor:
        """Steps of Adam on walks so far; returns the mean reward before each."""
        steps = min(walks.earned.shape[1] for walks in self.walks)
        inputs, worth = (
            torch.cat([getattr(walks, name)[:, :steps].to(self.device) for walks in self.walks])
            for name in ("inputs", "earned")
        )
        optimizer, means = self.optimizers(), []
        for _ in range(self.hparams.steps):
            chosen = torch.randperm(len(inputs))[: self.hparams.batch_size].to(inputs.device)
            mean = expected_reward(self.navigator.stop_logits(inputs[chosen]), worth[chosen]).mean()
            optimizer.zero_grad()
            self.manual_backward(-mean)
            optimizer.step()
            means.append(mean.detach())
        return torch.stack(means).mean()

    def validation_step(self, batch: dict[str, Tensor], batch_idx: int) -> None:
        walker = self.navigator if self.updates else self.trainer.datamodule.agent.navigator.to(self.device)
        validate(self, walker, batch, batch_idx)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.navigator.network.parameters(), lr=self.hparams.lr)

    def on_save_checkpoint(self, checkpoint: dict) -> None:
        checkpoint["walks"] = [(walks.inputs, walks.earned) for walks in self.walks]

    def on_load_checkpoint(self, checkpoint: dict) -> None:
        self.walks = [Walks(*parts) for parts in checkpoint["walks"]]


def expected_reward(logits: Float[Tensor, "M S"], earned: Float[Tensor, "M S"]) -> Float[Tensor, " M"]:
    """The mean reward of walks that stop at each step with a probability, and at the last one for sure."""
    on = nn.functional.logsigmoid(-logits[:, :-1]).cumsum(1).exp()  # the probability to walk on beyond each step
    there = torch.cat([torch.ones_like(on[:, :1]), on], 1)
    stop = torch.cat([logits[:, :-1].sigmoid(), torch.ones_like(there[:, :1])], 1)
    return (there * stop * earned).sum(1)
