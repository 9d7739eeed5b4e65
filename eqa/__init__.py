"""Embodied question answering under one import name: `eqa.envs`, `eqa.data`, `eqa.models`; `eqa/House-v1` in Gymnasium.

In a clone these folders lie beside this one, so the package's path includes the root of the repository. In an installed
wheel they lie inside it. Neither puts anything called `data` or `models` at the top of a user's environment.
"""

from pathlib import Path

from gymnasium.envs.registration import register, registry

_here = Path(__file__).parent
if not (_here / "envs").is_dir():
    __path__.append(str(_here.parent))

if "eqa/House-v1" not in registry:  # its modules are imported when one is made
    _env = "eqa.data.house_env"
    register("eqa/House-v1", entry_point=f"{_env}:HouseEnv", vector_entry_point=f"{_env}:make_house_envs")
