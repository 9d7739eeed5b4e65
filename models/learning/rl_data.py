"""`RolloutData`: the agent to fine-tune, its worlds, and the episodes of each update."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytorch_lightning as pl
from jaxtyping import Int64
from torch.utils.data import DataLoader

from eqa.data.batches.imitation import as_collated
from eqa.data.batches.rl_episodes import RLEpisodes, SpawnCurriculum, questions_by_house
from eqa.data.batches.sampling import own_parts
from eqa.data.demonstrations.spawn_settings import RANDOM_HEADING, spawn_point
from eqa.data.source import Source
from eqa.envs.simulator import in_windows
from eqa.models.agents.checkpoints import fitting_agent
from eqa.models.agents.neural import NeuralAgent
from eqa.models.evaluation.pictures import frames_along, plan_of_walk, some_views
from eqa.models.learning.rollouts import Rewards, Rollout, Rollouts


class RolloutData(pl.LightningDataModule):
    """An update walks `questions` questions of `houses` houses, each `samples` times from one spawn.

    - An epoch has `updates` updates.
    - `checkpoint` and `base_name` choose the agent to begin with, see `models.agents.checkpoints.fitting_agent`.
    - `max_steps` are the actions of a walk in training, the world's number by default.
    - Validation walks `val_questions` of val at the source's two nearest spawns (T-10 and T-30 in houses) as evaluation
      does, with the likeliest actions. If spawns have a `random_heading`, it walks these as well; if all have, these
      alone.

    ValueError for sizes that do not go together.
    """

    def __init__(
        self,
        source: Source,
        *,
        checkpoint: str,
        base_name: str | None,
        seed: int,
        questions: int,
        samples: int,
        houses: int,
        updates: int,
        val_questions: int,
        num_envs: int,
        min_active_share: float,
        spawn: Mapping,
        rewards: Mapping,
        max_steps: int | None = None,
    ) -> None:
        super().__init__()
        sizes = {"samples": samples, "houses": houses, "updates": updates, "val_questions": val_questions}
        if min(sizes.values()) < 1 or questions < houses:
            got = ", ".join(f"{name}={value}" for name, value in {"questions": questions, **sizes}.items())
            raise ValueError(f"rollouts: expected sizes of at least 1 and no fewer questions than houses, got {got}")
        self.source, self.checkpoint, self.base_name, self.seed = source, checkpoint, base_name, seed
        self.questions, self.samples, self.houses, self.updates = questions, samples, houses, updates
        self.val_questions, self.num_envs, self.min_active_share = val_questions, num_envs, min_active_share
        self.agent: NeuralAgent | None = None  # from setup on
        self.spawn, self.rewards, self.max_steps = SpawnCurriculum(**spawn), Rewards(**rewards), max_steps

    def prepare_data(self) -> None:
        self.source.build()

    def setup(self, stage: str) -> None:
        if self.agent is not None:
            return
        self.agent = fitting_agent(self.checkpoint, self.source, name=self.base_name, covering=True)
        if self.agent.answerer.num_frames is None:
            raise ValueError("answerer: expected one that looks at the last frames, got one that looks at whole walks")
        self.demos = {split: self.source.demonstrations(split) for split in ("train", "val")}
        self.rollouts = {
            split: Rollouts(
                self.source,
                demos,
                extractor=self.source.encode,
                vocabulary=self.agent.vocabulary,
                rewards=self.rewards,
                num_envs=self.num_envs,
                min_active_share=self.min_active_share if split == "train" else 0.0,
                sample=split == "train",
                keep_frames=split == "val",
                max_steps=self.max_steps if split == "train" else None,
            )
            for split, demos in self.demos.items()
        }

    @property
    def sizes(self) -> dict:
        """Arguments of a model that begins with this agent."""
        parts = {name: getattr(self.agent, name) for name in ("navigator", "answerer")}
        described = {name: {"class": type(part).__name__, "arguments": part.arguments} for name, part in parts.items()}
        return {**described, "samples": self.samples}

    def train_dataloader(self) -> DataLoader:
        processes, epoch = self.trainer.world_size, self.trainer.current_epoch
        if self.questions % processes:
            raise ValueError(f"questions: expected a multiple of the {processes} processes, got {self.questions}")
        demos, rng = self.demos["train"], np.random.default_rng([self.seed, epoch])
        drawn = questions_by_house(demos, batches=self.updates, questions=self.questions, houses=self.houses, rng=rng)
        actions = self.source.world.actions
        spawns = [
            self.spawn.draw_spawn(demos, row, epoch=epoch, rng=rng, actions=actions) for rows in drawn for row in rows
        ]
        seed = (self.seed, epoch, 1)
        episodes = RLEpisodes(
            demos, self.agent.vocabulary, spawns, max_steps=actions.max_steps, samples=self.samples, seed=seed
        )
        rows = np.arange(len(episodes))
        return self._loader(episodes, np.split(rows, range(self.questions, len(rows), self.questions)))

    def val_dataloader(self) -> DataLoader:
        demos, actions = self.demos["val"], self.source.world.actions
        chosen = np.unique(np.linspace(0, len(demos) - 1, min(self.val_questions, len(demos))).astype(int))
        spawns = [
            s
            for row in chosen.tolist()
            for setting in self._settings
            if (s := spawn_point(demos, row, setting, actions))
        ]
        whole = len(spawns) - len(spawns) % self.trainer.world_size
        scene_ids = [demos.episodes[spawn.row].scene_id for spawn in spawns[:whole]]
        windows = in_windows(scene_ids, self.num_envs, self.source.world.scenes_at_once)
        episodes = RLEpisodes(demos, self.agent.vocabulary, spawns[:whole], max_steps=actions.max_steps)
        return self._loader(episodes, [np.array(some) for some in windows])

    @property
    def _settings(self) -> list[str]:
        """Spawn settings of validation, those of training."""
        nearest = self.source.spawns.validated
        known = [] if self.spawn.random_heading == 1 else nearest
        return [*known, *(f"{name}{RANDOM_HEADING}" for name in nearest if self.spawn.random_heading)]

    def _loader(self, episodes: RLEpisodes, batches: Sequence[Int64[np.ndarray, " _"]]) -> DataLoader:
        parts = own_parts(batches, self.trainer.global_rank, self.trainer.world_size)
        return DataLoader(episodes, batch_sampler=parts, collate_fn=as_collated)

    def draw_plans(self, rows: list[int], rollout: Rollout, folder: Path) -> None:
        """Floor plans with the first walks of a rollout of val, beside their demonstrations."""
        demos, answers = self.demos["val"], self.agent.vocabulary.answers
        for n, row in enumerate(rows):
            episode, correct = demos.episodes[row], bool(rollout.correct[n])
            plan_of_walk(
                folder / f"{n:02d}_{episode.episode_id}.png",
                self.source.world.annotations(episode.scene_id),
                target=episode.target_object,
                title=f"{episode.question}  truth: {answers[int(rollout.answers[n])]}, answered "
                f"{'right' if correct else 'wrong'}, {'stopped' if rollout.stopped[n] else 'did not stop'}",
                walks=[
                    (demos.poses[demos.rows(row)].tolist(), "#999999", "demonstration", ":"),
                    (rollout.poses[n].tolist(), "#c0392b", "agent", "-"),
                ],
                views=some_views(frames_along(self.source.world, episode.scene_id, rollout.poses[n].tolist())),
            )
