"""Reinforcement learning of navigators: REINFORCE (Das et al. 2018, Sec. 5), and PPO on the same rollouts.

`training_step` rolls out a batch of episodes to their ends under the same weights. It raises the log-probability of
each decision by its advantage: the return that follows this decision, less a baseline. Planner and controller learn
alike; encoder and answerer are frozen. Learning is teacher-forced along the actions, as from a demonstration. Every
navigator of `models.agents.neural.NAVIGATORS` that can stop can therefore be fine-tuned.

Deviations from the released code, by choice:
- An update has many episodes, not one.
- The first action at the spawn learns too; a forced return of the controller does not.
- The optimizer is Adam.

`configs/stage/reinforce.yaml` names the settings for that code's constants.

Axes: M episodes, T steps of history and walk, S decisions, C options of a decision.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytorch_lightning as pl
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from eqa.envs.progress import console
from eqa.envs.simulator import SceneFailed
from eqa.models.distributed import add_up, mean_over_processes
from eqa.models.learning.advantages import generalized_advantages, leave_one_out, returns_to_go, with_truncated_ends
from eqa.models.learning.critic import Critic
from eqa.models.learning.imitation import OPTIMIZERS, SCHEDULES, known, share_of_rate
from eqa.models.learning.minibatches import Advantages, begin_again, make_microbatches
from eqa.models.learning.rollouts import Rollout
from eqa.models.navigators.action_selection import sharpen
from eqa.models.navigators.navigator import Decisions
from eqa.models.registry import REGISTRY

BASELINES = ("none", "moving_average", "rloo", "critic")
SHOWN = 3  # walks of validation that are drawn
KL_EVERY = 5  # updates, where kl is only shown: the other navigator's forward pass is a fifth of learning


class NavigatorReinforcement(pl.LightningModule):
    """Fine-tunes the agent of `models.learning.rl_data.RolloutData`.

    - baseline: none; moving_average, of past episodes' rewards, with `baseline_decay` each update (the paper's); rloo,
      the mean of the other walks from the same spawn; critic, a learned one that is told what the simulator knows
      (`models.learning.critic`). The critic has GAE's `gae_lambda`.
    - clip_range: PPO with `epochs` over the walks of an update in `minibatches` steps each; without it, there is one
      step.
    - microbatch_size: walks at a time, whose gradients add up.
    - schedule: of all learning rates, as in imitation.
    - critic_warm_up: updates in which only the critic learns.
    - answerer_lr: above 0, the answerer adapts to the navigator's last frames.
    - draw_every: epochs between floor plans of some walks of validation, under plans/ in the stage's folder.
    - options: replacements for arguments of the navigator, such as stop_odds.
    - temperature: below 1, it sharpens the navigator's distributions from the start on, stop_odds included. The
      navigator then has stop_odds of 1.

    ValueError for settings that do not go together.

    Logs for train and val:
    - reward, and its parts: success (STOP and the right answer), d_delta, steps;
    - accuracy, stop, d_T, d_min, entered, truncated; seen, if it earns a reward.

    Logs for train alone:
    - loss; entropy and kl to the first navigator, each a decision's mean (kl without weight only in every fifth
      update);
    - grad_norm; time/* in seconds by task, and time/steps_per_second.
    """

    def __init__(
        self,
        navigator: dict,
        answerer: dict,
        samples: int,
        *,
        lr: float,
        optimizer: str,
        baseline: str,
        baseline_decay: float,
        gamma: float,
        gae_lambda: float,
        normalize: bool,
        entropy_weight: float,
        kl_weight: float,
        clip_range: float | None,
        epochs: int,
        minibatches: int,
        max_grad_norm: float,
        critic_lr: float,
        critic_warm_up: int,
        answerer_lr: float,
        temperature: float | None,
        options: dict,
        schedule: str = "constant",
        microbatch_size: int = 32,
        draw_every: int = 5,
    ):
        super().__init__()
        self.save_hyperparameters()
        self.automatic_optimization = False
        known("optimizer", optimizer, OPTIMIZERS)
        known("baseline", baseline, BASELINES)
        known("schedule", schedule, SCHEDULES)
        if clip_range is None and epochs * minibatches > 1:
            raise ValueError(
                f"epochs, minibatches: expected 1 without clip_range, got {epochs} and {minibatches}; set clip_range=0.2"
            )
        if baseline == "rloo" and samples < 2:
            raise ValueError(
                f"samples: expected at least 2 of each spawn to compare, got {samples}; or another baseline"
            )
        if critic_warm_up and baseline != "critic":
            raise ValueError(f"critic_warm_up: expected 0 without a critic, got {critic_warm_up}; set baseline=critic")
        if not (temperature is None or temperature > 0):
            raise ValueError(f"temperature: expected above 0, or null, got {temperature}")
        arguments = {**navigator["arguments"], "dropout": 0.0, **options}
        self.stop_odds = arguments.get("stop_odds", 1.0)  # at which learning begins
        if temperature is not None:
            arguments["stop_odds"] = 1.0
        self.navigator, self.reference = (REGISTRY[navigator["class"]](**arguments) for _ in range(2))
        if not self.navigator.draws:
            raise ValueError(
                f"navigator: expected one that draws its actions, got {navigator['class']}; begin with the agent that "
                "learned when to stop after it"
            )
        if not self.navigator.can_stop:
            raise ValueError(f"navigator: expected one that can stop, got {navigator['class']} with stop=False")
        self.answerer = REGISTRY[answerer["class"]](**answerer["arguments"])
        self.reference.requires_grad_(False)
        self.answerer.requires_grad_(answerer_lr > 0)
        self.critic = None
        if baseline == "critic":
            self.critic = Critic()
        self.register_buffer("moving_average", torch.full((), torch.nan))
        self.register_buffer("updates", torch.zeros((), dtype=torch.int64))

    @property
    def parts(self) -> dict[str, nn.Module]:
        """Parts of an agent that it fits."""
        return {"navigator": self.navigator, "answerer": self.answerer}

    def setup(self, stage: str) -> None:
        """Loads the agent's weights; a resumed checkpoint replaces them later.

        ValueError if walks are cut off without a critic to estimate their further rewards.
        """
        min_active_share, agent = self.trainer.datamodule.min_active_share, self.trainer.datamodule.agent
        if min_active_share > 0 and self.critic is None:
            raise ValueError(
                "min_active_share: expected 0 without a critic, which tells what a walk that is cut off would earn, got "
                f"{min_active_share:g}; set baseline=critic"
            )
        for network in (self.navigator, self.reference):
            network.load_state_dict(agent.navigator.state_dict())
            if self.hparams.temperature is not None:
                sharpen(
                    network.heads,
                    num_actions=network.num_actions,
                    temperature=self.hparams.temperature,
                    stop_odds=self.stop_odds,
                )
        self.answerer.load_state_dict(agent.answerer.state_dict())

    def on_train_batch_start(self, batch: dict[str, Tensor], batch_idx: int) -> None:
        share = share_of_rate(self.hparams.schedule, self.trainer, batch_idx)
        for group, rate in zip(self.optimizers(use_pl_optimizer=False).param_groups, self._rates, strict=True):
            group["lr"] = rate * share

    def training_step(self, batch: dict[str, Tensor], batch_idx: int) -> None:
        rollouts = self.trainer.datamodule.rollouts["train"]
        rollout = rolled_out(rollouts, self.navigator, self.answerer, batch)
        with rollouts.clock("learn"), recurrent_layers_learn(self.navigator):
            figures = self._learn(rollout, compare=self.hparams.kl_weight > 0 or batch_idx % KL_EVERY == 0)
        earned = rollout_figures(rollout)
        self.latest = {f"train/{name}": float(earned[name]) for name in ("reward", "success", "d_delta")}
        log_figures(self, "train", {**earned, **figures}, len(batch["rows"]))

    def validation_step(self, batch: dict[str, Tensor], batch_idx: int) -> None:
        validate(self, self.navigator, batch, batch_idx)

    def on_train_epoch_end(self) -> None:
        rollouts = self.trainer.datamodule.rollouts["train"]
        seconds = dict(rollouts.clock.seconds)
        self.log_dict({f"time/{name}": spent for name, spent in seconds.items()}, sync_dist=True)
        self.log("time/steps_per_second", rollouts.num_steps / max(sum(seconds.values()), 1e-9), sync_dist=True)
        rollouts.clock.seconds.clear()
        rollouts.num_steps = 0

    def configure_optimizers(self) -> torch.optim.Optimizer:
        learning = [self.navigator, *([] if self.critic is None else [self.critic])]
        learning += [self.answerer] if self.hparams.answerer_lr > 0 else []
        groups = [{"params": n.parameters(), "lr": r} for n, r in zip(learning, self._rates, strict=True)]
        return OPTIMIZERS[self.hparams.optimizer](groups)

    @property
    def _rates(self) -> list[float]:
        """Learning rates of the navigator, and of critic and answerer if they learn."""
        given = self.hparams
        of_critic = [] if self.critic is None else [given.critic_lr]
        return [given.lr, *of_critic, *([given.answerer_lr] if given.answerer_lr > 0 else [])]

    def _learn(self, rollout: Rollout, *, compare: bool) -> dict[str, Tensor]:
        """The update on one rollout; returns figures to show, with kl if it is to `compare`."""
        advantages, num, steps = self._advantages(rollout), len(rollout.answers), self.hparams.minibatches
        if num < steps:
            raise ValueError(f"minibatches: expected at most the {num} walks of an update, got {steps}")
        microbatches = make_microbatches(
            rollout,
            advantages,
            self.navigator,
            size=min(self.hparams.microbatch_size, num // steps),
            reference=self.reference if compare else None,
        )
        counted = add_up(advantages.counts.sum())
        share = self.trainer.world_size / counted.clamp(min=1)  # averaging gradients over processes divides by as many
        old = (
            [self._log_probabilities(microbatch) for microbatch in microbatches]
            if self.hparams.clip_range is not None
            else None
        )
        figures: list[dict[str, Tensor]] = []
        for _ in range(self.hparams.epochs):
            order = torch.randperm(len(microbatches)).tolist()
            for step in range(steps):
                chosen = order[step::steps]
                if figures:
                    begin_again([microbatches[i] for i in chosen], rollout, self.navigator)
                scale = share * len(microbatches) / len(chosen)
                figures.append(
                    self._update(
                        [microbatches[i] for i in chosen],
                        [old and old[i] for i in chosen],
                        scale,
                        rollout,
                        compare=compare,
                    )
                )
        self.updates += 1
        return {name: torch.stack([figure[name] for figure in figures]).mean() for name in figures[0]}

    def _update(
        self, microbatches: list[dict], old: list, scale: Tensor, rollout: Rollout, *, compare: bool
    ) -> dict[str, Tensor]:
        """One step of the optimizer on some episodes; `scale` makes sums means over the steps of all processes."""
        optimizer = self.optimizers()
        optimizer.zero_grad()
        figures: dict[str, Tensor] = {}
        for microbatch, before in zip(microbatches, old, strict=True):
            terms = self._terms(microbatch, before, compare=compare)
            given, waits = self.hparams, self.updates < self.hparams.critic_warm_up
            policy = terms["policy"] - given.entropy_weight * terms["entropy"] + given.kl_weight * terms.get("kl", 0.0)
            loss = (policy * (0.0 if waits else 1.0) + terms.get("critic", 0.0)) * scale + terms.get("answerer", 0.0)
            self.manual_backward(loss)
            shown = {**terms, "loss": loss / scale}
            for name, value in shown.items():
                figures[name] = figures.get(name, 0.0) + value.detach()
        norm = nn.utils.clip_grad_norm_([p for p in self.parameters() if p.requires_grad], self.hparams.max_grad_norm)
        if not norm.isfinite():
            raise FloatingPointError(self._kept_for_inspection(rollout, figures))
        optimizer.step()
        decisions = figures.pop("decisions").clamp(min=1)
        means = {name: figures[name] / decisions for name in ("entropy", "kl", "loss", "critic") if name in figures}
        return {**means, "grad_norm": norm}

    def _terms(self, microbatch: dict, old: dict | None, *, compare: bool) -> dict[str, Tensor]:
        """Sums over a microbatch's decisions: the loss, and the figures to show."""
        decisions = self.navigator.decision_logits(microbatch["batch"])
        with torch.no_grad():
            started = self.reference.decision_logits(microbatch["reference"]) if compare else {}
        terms = dict.fromkeys(("policy", "entropy", *(["kl"] if compare else []), "decisions"), 0.0)
        for name, part in decisions.items():
            logs = part.logits.float().log_softmax(1)
            taken, odds = _of_target(logs, part), logs.exp()
            surrogate = part.weight * taken
            if old is not None:
                ratio, clip = (taken - old[name]).exp(), self.hparams.clip_range
                surrogate = torch.minimum(part.weight * ratio, part.weight * ratio.clamp(1 - clip, 1 + clip))
            terms["policy"] = terms["policy"] - surrogate.sum()
            terms["entropy"] = terms["entropy"] - (odds * logs).sum()
            if compare:
                terms["kl"] = terms["kl"] + (odds * (logs - started[name].logits.float().log_softmax(1))).sum()
            terms["decisions"] = terms["decisions"] + logs.new_tensor(len(logs))
        if self.critic is not None:
            errors = (self.critic(microbatch["facts"]) - microbatch["returns"]) ** 2
            terms["critic"] = (errors * microbatch["counts"]).sum()
        if self.hparams.answerer_lr > 0:
            self.answerer.train()
            said = self.answerer(microbatch["last_frames"].float(), microbatch["batch"]["questions"])
            said = said + microbatch["prior"]
            terms["answerer"] = (
                F.cross_entropy(said, microbatch["answers"], reduction="sum") / microbatch["num_episodes"]
            )
            self.answerer.eval()
        return terms

    @torch.no_grad()
    def _log_probabilities(self, microbatch: dict) -> dict[str, Tensor]:
        """Log-probabilities of the actions under the current navigator."""
        decisions = self.navigator.decision_logits(microbatch["batch"])
        return {name: _of_target(part.logits.float().log_softmax(1), part) for name, part in decisions.items()}

    @torch.no_grad()
    def _advantages(self, rollout: Rollout) -> Advantages:
        """Advantages of the steps, by the chosen baseline."""
        given, rewards, counts = self.hparams, rollout.rewards, rollout.counts
        if self.critic is not None:
            values = self.critic(rollout.facts)
            rewards, counts = with_truncated_ends(rewards, counts, rollout.truncated, values)
            advantages = generalized_advantages(
                rewards, values, rollout.counts, gamma=given.gamma, gae_lambda=given.gae_lambda
            )
            returns = advantages + values
        else:
            returns = returns_to_go(rewards, given.gamma)
            advantages = returns - self._baseline(rewards)
        advantages = advantages * counts
        if given.normalize:
            number = add_up(counts.sum()).clamp(min=1)
            advantages = advantages - counts * add_up(advantages.sum()) / number
            advantages = advantages / (add_up((advantages**2).sum()) / number).sqrt().clamp(min=1e-6)
        return Advantages(advantages, returns, counts)

    def _baseline(self, rewards: Float[Tensor, "M T"]) -> Float[Tensor, "M _"]:
        """Usual reward from a step on; for a moving average, the reward of an episode before this update."""
        if self.hparams.baseline == "none":
            return torch.zeros_like(rewards)
        if self.hparams.baseline == "rloo":
            return leave_one_out(rewards, self.hparams.samples)
        now = mean_over_processes(rewards.sum(1))
        usual = torch.where(self.moving_average.isnan(), now, self.moving_average)
        decay = self.hparams.baseline_decay
        self.moving_average.copy_(decay * usual + (1 - decay) * now)
        return usual.expand(len(rewards), 1)

    def _kept_for_inspection(self, rollout: Rollout, figures: dict) -> str:
        path = Path(self.trainer.default_root_dir) / f"nonfinite_{int(self.updates)}_{self.global_rank}.pt"
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save({"batch": rollout.batch, "rewards": rollout.rewards, "navigator": self.navigator.state_dict()}, path)
        got = ", ".join(f"{name} {float(value):g}" for name, value in figures.items())
        return f"gradient: expected finite numbers, got {got} at update {int(self.updates)}; the batch is in {path}"


def _of_target(logs: Float[Tensor, "S C"], decisions: Decisions) -> Float[Tensor, " S"]:
    return logs.gather(1, decisions.target[:, None]).squeeze(1)


def rolled_out(
    rollouts: Callable[..., Rollout], navigator: nn.Module, answerer: nn.Module, batch: dict[str, Tensor]
) -> Rollout:
    """A batch's rollout by `Rollouts`. Episodes of a scene that fails leave the batch, and it says so."""
    while True:
        try:
            return rollouts(navigator, answerer, batch)
        except SceneFailed as failed:
            scenes = [rollouts.demos.episodes[row].scene_id for row in batch["rows"].tolist()]
            stay = torch.tensor([scene_id != failed.scene_id for scene_id in scenes], device=batch["rows"].device)
            if not stay.any():
                raise
            console.print(f"[yellow]void: {int((~stay).sum())} walks of an update; {failed}", soft_wrap=True)
            batch.update({name: values[stay] for name, values in batch.items()})


@contextmanager
def recurrent_layers_learn(network: nn.Module) -> Iterator[None]:
    """Puts recurrent layers in training mode, without their dropout: cuDNN differentiates them in no other mode."""
    layers = [(part, part.training, part.dropout) for part in network.modules() if isinstance(part, nn.RNNBase)]
    for part, *_ in layers:
        part.training, part.dropout = True, 0.0
    yield
    for part, training, dropout in layers:
        part.training, part.dropout = training, dropout


def validate(module: pl.LightningModule, navigator: nn.Module, batch: dict[str, Tensor], batch_idx: int) -> None:
    """Walks a batch of val by a navigator, logs its figures for a module, and draws some walks every few epochs."""
    data = module.trainer.datamodule
    rollout = rolled_out(data.rollouts["val"], navigator, module.answerer, batch)
    log_figures(module, "val", rollout_figures(rollout), len(batch["rows"]))
    shown = module.current_epoch % module.hparams.draw_every == 0
    if batch_idx == 0 and shown and module.trainer.is_global_zero:
        folder = Path(module.trainer.default_root_dir) / "plans" / f"epoch_{module.current_epoch:02d}"
        data.draw_plans(batch["rows"][:SHOWN].tolist(), rollout, folder)


def log_figures(module: pl.LightningModule, stage: str, figures: dict[str, Tensor], size: int) -> None:
    """Logs the means of a stage's figures over an epoch and all processes."""
    values = {f"{stage}/{name}": value.float() for name, value in figures.items()}
    module.log_dict(values, on_step=False, on_epoch=True, batch_size=size, sync_dist=True)


def rollout_figures(rollout: Rollout) -> dict[str, Tensor]:
    """Figures of a rollout for the logs, each a mean over its episodes."""
    distances, right = torch.from_numpy(rollout.distances_m), rollout.correct & rollout.stopped
    seen = {} if rollout.seen is None else {"seen": rollout.seen.float().mean()}
    return seen | {
        "reward": rollout.rewards.sum(1).mean(),
        "success": right.float().mean(),
        "accuracy": rollout.correct.float().mean(),
        "stop": rollout.stopped.float().mean(),
        "steps": rollout.counts.sum(1).float().mean(),
        "d_delta": (distances[:, 0] - distances[:, -1]).mean(),
        "d_T": distances[:, -1].mean(),
        "d_min": distances.min(1).values.mean(),
        "entered": torch.from_numpy(rollout.entered).float().mean(),
        "truncated": rollout.truncated.float().mean(),
    }
