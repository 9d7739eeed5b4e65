"""Plays an MP3D-EQA file with habitat-lab's own data set class and its task EQA-v0, in a process of its own.

    python habitat_lab_player.py SPLIT SAVED.json.gz

The interpreter has habitat and habitat_sim, and need not have this project. The working folder has the layout that
habitat-lab expects: data/scene_datasets/eqa and data/datasets/eqa/ours. The last line printed is JSON: a row for each
episode. In the end the data set is saved by its class.
"""

import dataclasses
import gzip
import json
import sys

import numpy as np

FORWARD, LEFT, RIGHT, STOP = range(4)  # as stored paths have them
NAMES = {FORWARD: "move_forward", LEFT: "turn_left", RIGHT: "turn_right"}
SIZE_PX = 64


def import_habitat():
    """habitat-lab 0.3.3 has instances of data classes as defaults, which Python 3.11 refuses if they have no hash."""
    made = dataclasses.dataclass

    def hashable(cls=None, **options):
        ours = getattr(cls, "__module__", "").startswith("habitat.")
        return made(cls, **options, **({"unsafe_hash": True} if ours else {}))

    dataclasses.dataclass = hashable
    import habitat
    import habitat.config.default
    import habitat.datasets

    dataclasses.dataclass = made
    return habitat


def settings(split):
    """Settings of habitat-lab with the moves, the body and the camera of generated houses."""
    agent, simulator = "habitat.simulator.agents.main_agent", "habitat.simulator"
    cameras = [f"{agent}.sim_sensors.{name}_sensor" for name in ("rgb", "depth", "semantic")]
    seen = {"width": SIZE_PX, "height": SIZE_PX, "hfov": 60, "position": [0.0, 1.0, 0.0]}
    return {
        "habitat.dataset.data_path": "'data/datasets/eqa/ours/{split}/{split}.json.gz'",
        "habitat.dataset.split": split,
        "habitat.dataset.scenes_dir": "data/scene_datasets/",
        "habitat.environment.iterator_options.shuffle": False,
        f"{simulator}.forward_step_size": 0.25,
        f"{simulator}.turn_angle": 9,
        f"{simulator}.habitat_sim_v0.gpu_device_id": -1,
        f"{simulator}.habitat_sim_v0.allow_sliding": False,
        f"{agent}.height": 1.0,
        f"{agent}.radius": 0.1,
        f"{agent}.max_climb": 0.15,
        **{f"{camera}.{name}": value for camera in cameras for name, value in seen.items()},
    }


def played(env, dataset, episode):
    """Walks the stored path and gives the true answer; then again, with a wrong answer at once."""
    env.current_episode = episode
    observed = env.reset()
    row = {
        "id": episode.info["eqa"]["episode_id"],
        "words": [dataset.question_vocab.word_list[token] for token in observed["question"]],
        "start_m": env.get_metrics()["distance_to_goal"],
    }
    path, collisions = episode.shortest_paths[0], 0
    row["taken"] = [point.action for point in path]
    for point in path:
        if point.action != STOP:
            observed = env.step(NAMES[point.action])
            collisions += bool(env.sim.previous_step_collided)
    end = np.array(env.sim.get_agent_state().position)
    row |= {
        "collisions": collisions,
        "actions": len(path),
        "apart_m": float(np.linalg.norm((end - path[-1].position)[[0, 2]])),
        "end_m": env.get_metrics()["distance_to_goal"],
        "target_px": int((observed["semantic"] == int(episode.goals[0].object_id or -1)).sum()),
    }
    token = episode.question.answer_token
    row |= {"answer": dataset.answer_vocab.word_list[token], "right": answered(env, token)}
    env.current_episode = episode
    env.reset()
    row["wrong"] = answered(env, (token + 1) % dataset.answer_vocab.get_size())
    return row


def answered(env, token):
    """The score of an answer, which ends the episode for the task."""
    env.step({"action": "answer", "action_args": {"answer_id": token}})
    return env.get_metrics()["answer_accuracy"]


def main():
    split, saved = sys.argv[1:]
    habitat = import_habitat()
    overrides = [f"{name}={value}" for name, value in settings(split).items()]
    config = habitat.config.default.get_config("benchmark/nav/eqa_mp3d.yaml", overrides)
    dataset = habitat.datasets.make_dataset("MP3DEQA-v1", config=config.habitat.dataset)
    env = habitat.Env(config, dataset=dataset)
    rows = [played(env, dataset, episode) for episode in dataset.episodes]
    with gzip.open(saved, "wt") as file:
        file.write(dataset.to_json())
    print(json.dumps({"version": habitat.__version__, "task": type(env.task).__name__, "episodes": rows}), flush=True)


if __name__ == "__main__":
    main()
