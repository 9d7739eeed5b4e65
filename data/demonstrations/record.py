"""`recorded`: a file of demonstrations, made if it is missing; `Recorder`, which renders and encodes the walks.

Axes: T poses, F features.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
from jaxtyping import Float, Float64

from eqa.data.demonstrations.storage import Demonstrations, Encode, Recording, build
from eqa.envs.episode import Episode
from eqa.envs.files import build_once
from eqa.envs.navigation.walk import walks_of
from eqa.envs.progress import absolute, console, progress
from eqa.envs.rendering.camera import Camera
from eqa.envs.shards import Shard
from eqa.envs.simulator import Goal, World

RENDER_BATCH = 64
RECORDER = "frames-1"  # raise with every change of the demonstrations' contents


def made_by(world: World, encode: Encode) -> dict:
    """All that a recording of given walks depends on, in JSON; a camera is named unless it is the usual one."""
    usual = world.camera == Camera()
    return {"recorder": RECORDER, "encoder": encode.identity} | ({} if usual else {"camera": asdict(world.camera)})


class Recorder:
    """Renders and encodes the walks of one scene's episodes: `recorder(scene_id, episodes)` gives their `Recording`.

    `anew` first replaces a scene's episodes by ones with other walks. ValueError for an episode without a walk.
    """

    def __init__(
        self, world: World, encode: Encode, anew: Callable[[str, list[Episode]], list[Episode]] | None = None
    ) -> None:
        self.world, self.encode, self.anew = world, encode, anew

    def __call__(self, scene_id: str, episodes: list[Episode]) -> Recording:
        if self.anew is not None:
            episodes = self.anew(scene_id, episodes)
        walks = walks_of(self.world, scene_id, episodes)
        goals = [Goal.of(episode) for episode in episodes]
        distances = self.world.distances(scene_id, goals, [walk.poses for walk in walks])
        poses = np.concatenate([walk.poses for walk in walks])
        return Recording(
            episodes=episodes,
            lengths=np.array([len(walk.actions) for walk in walks]),
            features=self._see(scene_id, poses),
            actions=np.concatenate([walk.actions for walk in walks]),
            poses=poses,
            distance_m=np.concatenate(distances),
        )

    def _see(self, scene_id: str, poses: Float64[np.ndarray, "T 4"]) -> Float[np.ndarray, "T F"]:
        simulator, features = self.world.open([scene_id], num_agents=1), []
        for first in range(0, len(poses), RENDER_BATCH):
            batch = poses[first : first + RENDER_BATCH]
            frames = simulator.look(np.zeros(len(batch), np.int64), batch)["rgb"]
            features.append(self.encode(frames).cpu().numpy())
        return np.concatenate(features)


def recorded(
    path: Path,
    episodes: Callable[[], Sequence[Episode]],
    recorder: Callable[[str, list[Episode]], Recording],
    *,
    configuration: Mapping,
    title: str,
    shard: Shard | None = None,
) -> Demonstrations:
    """The demonstrations at `path`; if they are missing, the walks of `episodes` are recorded there.

    `episodes` is called only then. `title` names the progress. A `shard` records its part, and joins the parts if the
    others have recorded theirs; OthersMissing if not. ValueError for a file with another configuration.
    """

    def record(of: Shard | None) -> None:
        walked = list(episodes())
        with progress(title, len({episode.scene_id for episode in walked})) as advance:
            report = absolute(advance)
            for done, total in build(path, walked, recorder, configuration=configuration, shard=of):
                report(done, total)

    if shard is not None and not path.exists():
        record(shard)
    with build_once(path) as to_be_made:
        if to_be_made:
            record(None)
            console.print(f"demonstrations: {path}")
    return Demonstrations.open(path, configuration=configuration)
