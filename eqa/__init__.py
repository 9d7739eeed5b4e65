"""Embodied question answering under one import name: `eqa.envs`, `eqa.data`, `eqa.models`.

In a clone these folders lie beside this one, so the package's path includes the root of the repository. In an installed
wheel they lie inside it. Neither puts anything called `data` or `models` at the top of a user's environment.
"""

from pathlib import Path

_here = Path(__file__).parent
if not (_here / "envs").is_dir():
    __path__.append(str(_here.parent))
