"""`target_shares`: the share of a view that its target fills, which tells if an agent looks at its question's object.

Axes: K houses, N views.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float64, Int

from eqa.envs.rendering.camera import Camera
from eqa.envs.rendering.renderer import Renderer
from eqa.envs.rendering.scene import Scene

LEAST_SHARE = 0.01  # of a view's pixels; a target that fills less is hardly seen


def target_shares(
    houses: Sequence[Scene],
    scenes: Int[np.ndarray, " N"],
    poses: Float64[np.ndarray, "N 3"],
    targets: Int[np.ndarray, " N"],
) -> Float64[np.ndarray, " N"]:
    """The share of each view's pixels that show its target, an object id of the house given in `scenes`."""
    renderer = Renderer(Camera(), ("instance_id",))
    renderer.load(houses)
    seen = renderer.render(scenes.astype(np.int32), poses)["instance_id"]
    return (seen == targets[:, None, None]).mean(axis=(1, 2))
