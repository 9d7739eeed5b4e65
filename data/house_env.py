"""`eqa/House-v1`: the task in generated houses as a Gymnasium environment, for one agent (`HouseEnv`) or many at once.

    gym.make("eqa/House-v1")
    gym.make_vec("eqa/House-v1", num_envs=64, scale="small", split="val", sensors=("rgb", "depth"), answer=True)

The houses and questions are those of `train.py` with the same scale, seed and style. Missing ones are made under
$EQA_DATA when the first environment is.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import yaml

from eqa.data.generated import GeneratedEQA
from eqa.envs.episode import Episode
from eqa.envs.eqa import EQAVectorEnv
from eqa.envs.progress import progress

SCALES = Path(__file__).resolve().parents[1] / "configs" / "scale"
IN_MEMORY = 2  # sources with their prepared houses, which environments share


def make_house_envs(
    num_envs: int = 1,
    *,
    split: str = "train",
    scale: str = "tiny",
    seed: int = 0,
    style: str = "mixed",
    question_set: str = "eqa_v1",
    spawn: str = "start",
    sensors: Sequence[str] = ("rgb",),
    answer: bool = False,
    image_size: tuple[int, int] | None = None,
    max_steps: int | None = None,
    render_mode: str | None = "rgb_array",
) -> EQAVectorEnv:
    """N agents in the houses of a split; see `envs.eqa.EQAVectorEnv` for spaces, rewards and info.

    `answer` adds an action for each answer of the training questions: action 4 + k stops and gives `answers[k]`.
    `spawn` is a key of `Episode.spawns`: "start" is far away, "T-10" is ten actions before the target.
    `image_size` is height and width in pixels, by default 224 x 224. `seed` is that of houses and questions; `reset`
    takes another for the order of the questions. ValueError for an unknown scale, split, spawn or sensor.
    """
    of_source = (scale, seed, style, question_set)
    source = _source(*of_source)
    episodes = list(_spawned(source.episodes(split), spawn))
    vocabulary, camera = source.vocabulary, source.world.camera
    if image_size is not None:
        camera = replace(camera, height_px=image_size[0], width_px=image_size[1])
    envs = EQAVectorEnv(
        source.world.open(_prepared(split, *of_source), num_agents=num_envs, camera=camera),
        episodes=episodes,
        encode=vocabulary.encode,
        num_words=len(vocabulary.words),
        max_steps=max_steps,
        sensors=sensors,
        answers=vocabulary.answers if answer else (),
        question_length=_longest(*of_source),
    )
    envs.render_mode, envs.vocabulary = render_mode, vocabulary
    return envs


class HouseEnv(gym.Env):
    """One agent of `make_house_envs`, whose arguments it takes, without autoreset.

    `reset(options={"episode": k})` starts `episodes[k]`. Info has the vector environment's entries.
    """

    metadata: ClassVar[dict[str, Any]] = {
        name: value for name, value in EQAVectorEnv.metadata.items() if name != "autoreset_mode"
    }

    def __init__(self, *, render_mode: str | None = None, **arguments: Any) -> None:
        self.envs = make_house_envs(1, render_mode=render_mode, **arguments)
        self.render_mode, self.vocabulary = render_mode, self.envs.vocabulary
        self.episodes, self.answers = self.envs.episodes, self.envs.answers
        self.observation_space, self.action_space = self.envs.single_observation_space, self.envs.single_action_space

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[dict, dict]:
        super().reset(seed=seed)
        if unknown := set(options or ()) - {"episode"}:
            raise ValueError(f"options: expected 'episode' or nothing, got {sorted(unknown)}")
        chosen = {"episodes": [options["episode"]]} if options else None
        observation, info = self.envs.reset(seed=seed, options=chosen)
        return _first(observation), _first_info(info)

    def step(self, action: int | np.integer) -> tuple[dict, float, bool, bool, dict]:
        observation, reward, terminated, truncated, info = self.envs.step(np.array([action]))
        ended = bool(terminated[0] or truncated[0])
        last = info["final_obs"][0] if ended else _first(observation)
        about = _first_info(info["final_info"] if ended else info)
        return last, float(reward[0]), bool(terminated[0]), bool(truncated[0]), about

    def render(self) -> np.ndarray | None:
        """The agent's view (H, W, 3) with render_mode="rgb_array", else None."""
        return None if self.render_mode is None else self.envs.render()[0]


@lru_cache(IN_MEMORY)
def _source(scale: str, seed: int, style: str, question_set: str) -> GeneratedEQA:
    sizes = _sizes(scale)
    houses = {**sizes["houses"], "style": style}
    questions = {"questions": sizes["questions"], "question_set": question_set, "balance": "paired"}
    return GeneratedEQA(seed=seed, houses=houses, **questions)


def _sizes(scale: str) -> dict:
    known = sorted(path.stem for path in SCALES.glob("*.yaml"))
    if scale not in known:
        raise ValueError(f"scale: expected one of {', '.join(known)}, got {scale!r}")
    return yaml.safe_load((SCALES / f"{scale}.yaml").read_text(encoding="utf-8"))


@lru_cache(IN_MEMORY * 3)
def _prepared(split: str, *of_source: Any) -> list[str]:
    """Ids of the houses of a split's questions, all of which are in the world's memory now."""
    source = _source(*of_source)
    scene_ids = list(dict.fromkeys(episode.scene_id for episode in source.episodes(split)))
    with progress(f"preparing houses, {split}", len(scene_ids)) as advance:
        for scene_id in scene_ids:
            source.world.open([scene_id], num_agents=1)
            advance()
    return scene_ids


@lru_cache(IN_MEMORY)
def _longest(*of_source: Any) -> int:
    """Words of the longest question of all splits, so that environments of one source have the same spaces."""
    source = _source(*of_source)
    return max(len(source.vocabulary.encode(e.question)) for split in source.splits for e in source.episodes(split))


def _spawned(episodes: Sequence[Episode], spawn: str):
    """Episodes that can start there, starting there."""
    there = [episode for episode in episodes if episode.spawns and spawn in episode.spawns]
    if not there:
        known = sorted({name for episode in episodes for name in episode.spawns or ()})
        raise ValueError(f"spawn: expected one of {', '.join(known)}, got {spawn!r}")
    return (replace(episode, spawns={"start": episode.spawns[spawn]}) for episode in there)


def _first(observation: dict) -> dict:
    return {name: values[0] for name, values in observation.items()}


def _first_info(info: dict) -> dict:
    """Values of the only agent, without masks."""
    known = {name: values[0] for name, values in info.items() if f"_{name}" in info and not name.startswith("final_")}
    return {name: value.item() if np.ndim(value) == 0 else value for name, value in known.items()}
