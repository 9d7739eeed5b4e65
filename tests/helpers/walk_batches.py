"""Batches of made-up walks for the tests of navigators, with words 0 to 8 and 6 features per frame."""

import itertools

import numpy as np
import torch

STOP = 3


def random_walks(rng: np.random.Generator, num: int = 9, longest: int = 30) -> list[list[int]]:
    """Walks with long runs, so that PACMAN's repeat limit is reached."""
    walks = []
    for _ in range(num):
        runs = [[int(a)] * int(rng.integers(1, 13)) for a in rng.integers(0, 3, int(rng.integers(0, 6)))]
        walks.append([*itertools.chain(*runs)][: longest - 1] + [STOP])
    return walks


def padded(walks: list[list[int]], extra: int = 0) -> torch.Tensor:
    width = max(map(len, walks)) + extra
    return torch.tensor([[*walk, *[-1] * (width - len(walk))] for walk in walks])


def walk_batch(rng: np.random.Generator, walks: list[list[int]], extra: int = 0) -> dict:
    """Features, actions and questions of walks, with `extra` steps and words of padding after the longest."""
    actions = padded(walks)
    features = torch.from_numpy(rng.standard_normal((*actions.shape, 6)).astype(np.float32))
    questions = torch.from_numpy(rng.integers(1, 9, (len(walks), 5)))
    for row, length in zip(questions, rng.integers(1, 6, len(walks)), strict=True):
        row[length:] = 0
    if extra:
        junk = torch.full((len(walks), extra, 6), 1e3)
        actions, features = padded(walks, extra), torch.cat([features, junk], 1)
        questions = torch.nn.functional.pad(questions, (0, extra))
    return {"features": features, "actions": actions, "questions": questions}
