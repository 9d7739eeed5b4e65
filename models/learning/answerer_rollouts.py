"""`AnswererRollouts`: training data of an answerer from ends of a navigator's rollouts, beside ends of shortest walks.

The answerer of an imitating agent has seen the ends of shortest walks alone. A navigator that ends a metre off shows it
other views. The navigator walks the questions of train as in evaluation, from spawns at drawn distances with their
history. An answerer learns from those ends as well. Questions of val are walked alike, and choose the epoch.

Axes: M walks, N frames that are answered from, F features.
"""

from collections.abc import Sequence
from pathlib import Path

import h5py
import numpy as np
import torch
from jaxtyping import Float16
from torch import Tensor, nn

from eqa.data.batches.imitation import AnswererData, LastFrames
from eqa.data.batches.rl_episodes import RLEpisodes, SpawnCurriculum
from eqa.data.source import Source
from eqa.data.vocabulary import Vocabulary
from eqa.envs.episode import Episode
from eqa.envs.files import atomic_write, build_once
from eqa.envs.progress import progress
from eqa.envs.simulator import in_windows
from eqa.models.agents.checkpoints import fitting_agent
from eqa.models.learning.rollouts import Rewards, Rollouts

AT_ONCE = 64  # walks


class AnswererRollouts(AnswererData):
    """Epochs mix the ends of the demonstrations and of each of `walks` rollouts, one end of every question in each.

    Spawns are at most `farthest` actions before the end of the shortest walk. The navigator of an earlier stage of the
    same run walks, and the answerer sees `num_frames` and `earlier_frames`. Without such a stage, the agent of
    `checkpoint` walks, and the answerer is of the kind that it has. Ends are kept under `folder`, a file for each walk,
    so that a resumed run learns from the same ones. ValueError for answers from whole walks.
    """

    def __init__(
        self,
        source: Source,
        *,
        folder: str,
        walks: int,
        farthest: int,
        batch_size: int,
        seed: int,
        checkpoint: str | None = None,
        base_name: str | None = None,
        num_frames: int | None = None,
        earlier_frames: Sequence[int] = (),
    ) -> None:
        super().__init__(source, batch_size=batch_size, seed=seed, num_frames=num_frames, earlier_frames=earlier_frames)
        if walks < 1:
            raise ValueError(f"walks: expected at least 1 of each question, got {walks}")
        self.checkpoint, self.base_name, self.folder, self.walks = checkpoint, base_name, Path(folder), walks
        self.navigator: nn.Module | None = None  # from setup on
        self.like: dict = {}  # kind of the answerer, where an agent gives it
        self.spawns_from = SpawnCurriculum(start=farthest, step=0, random_heading=0.0)

    def setup(self, stage: str) -> None:
        if self.navigator is not None:
            return
        if "navigator" in self.fitted:
            self.navigator = self.fitted["navigator"].navigator
        else:
            agent = fitting_agent(self.checkpoint, self.source, name=self.base_name)
            self.navigator, answerer = agent.navigator, agent.answerer
            self.num_frames, self.earlier_frames = answerer.num_frames, answerer.earlier_frames
            self.like = {"answerer": type(answerer).__name__, "options": answerer.arguments}
        if self.num_frames is None:
            raise ValueError("answerer: expected one that looks at the last frames, got one that looks at whole walks")
        super().setup(stage)
        self.trains += [self._rollout_frames("train", walk) for walk in range(self.walks)]
        self.val = self._rollout_frames("val", 0)

    @property
    def sizes(self) -> dict:
        """Arguments of a model for this data: an answerer of the agent's kind, if there is one."""
        sizes = super().sizes
        if not self.like:
            return sizes
        options = {name: value for name, value in self.like["options"].items() if name not in sizes}
        return {**sizes, **self.like, "options": options}

    def _rollout_frames(self, split: str, walk: int) -> LastFrames:
        demos, path = self.source.demonstrations(split), self.folder / f"{split}_{walk}.h5"
        with build_once(path) as to_be_made:
            if to_be_made:
                with atomic_write(path) as aside, h5py.File(aside, "w") as file:
                    self._walk(file, split, walk)
        with h5py.File(path) as file:
            return RolloutFrames(file["frames"][:], demos.episodes, self.source.vocabulary)

    def _walk(self, file: h5py.File, split: str, walk: int) -> None:
        """Walks all questions of a split once, those of a house side by side."""
        demos, rng = self.source.demonstrations(split), np.random.default_rng([self.seed, walk, int(split == "val")])
        actions = self.source.world.actions
        spawns = [
            self.spawns_from.draw_spawn(demos, row, epoch=0, rng=rng, actions=actions) for row in range(len(demos))
        ]
        episodes = RLEpisodes(demos, self.source.vocabulary, spawns, max_steps=actions.max_steps)
        rollouts = Rollouts(
            self.source,
            demos,
            extractor=self.source.encode,
            vocabulary=self.source.vocabulary,
            rewards=Rewards(),
            num_envs=AT_ONCE,
            sample=False,
        )
        device = rollouts.frames.device
        navigator = self.navigator.to(device)
        frames, nobody = None, Silent(self.num_frames, self.earlier_frames, len(self.source.vocabulary.answers))
        with progress(f"answerer rollouts, {split} {walk}", len(episodes)) as advance:
            scene_ids, most = [episode.scene_id for episode in demos.episodes], self.source.world.scenes_at_once
            for some in in_windows(scene_ids, AT_ONCE, most):
                spawns = {name: values.to(device) for name, values in episodes.__getitems__(some).items()}
                ends = rollouts(navigator, nobody, spawns).last_frames.cpu().numpy()
                if frames is None:
                    frames = file.create_dataset("frames", (len(episodes), *ends.shape[1:]), "f2")
                frames[some.start : some.stop] = ends
                advance(len(some))


class Silent(nn.Module):
    """Takes the frames that an answerer would take, and has no opinion."""

    def __init__(self, num_frames: int, earlier_frames: Sequence[int], num_answers: int) -> None:
        super().__init__()
        self.num_frames, self.earlier_frames, self.num_answers = num_frames, earlier_frames, num_answers

    def forward(self, features: Tensor, questions: Tensor, mask: Tensor | None) -> Tensor:
        return torch.zeros(len(questions), self.num_answers, device=questions.device)


class RolloutFrames(LastFrames):
    """Batches as those of `LastFrames`, from given frames."""

    def __init__(
        self, features: Float16[np.ndarray, "M N F"], episodes: Sequence[Episode], vocabulary: Vocabulary
    ) -> None:
        self.num_frames, self.features = features.shape[1], torch.from_numpy(features)
        self._ask(episodes, vocabulary)
