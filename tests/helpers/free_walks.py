"""Walks of episodes in houses, where known walks are free."""

from eqa.envs.actions import ActionSet
from eqa.envs.episode import Episode
from eqa.envs.navigation.walk import actions_of, replay
from eqa.envs.simulator import Walk


def walk_of(episode: Episode, actions: ActionSet) -> Walk:
    return replay(episode.start, actions_of(episode, actions), actions)
