"""PPO in one file on eqa/House-v1, after CleanRL's ppo.py: walks to a target, stops and answers, from pixels and words.

python docs/ppo_example.py                          # tiny houses, ten actions before the target
python docs/ppo_example.py --scale small --num-envs 64 --total-steps 2000000
"""

import argparse
import time

import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

import eqa  # noqa: F401 (makes eqa/House-v1 known)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    numbers = {"num-envs": 16, "num-steps": 64, "total-steps": 100_000, "epochs": 4, "minibatches": 4, "seed": 0}
    rates = {"lr": 3e-4, "gamma": 0.99, "gae-lambda": 0.95, "clip": 0.2, "entropy": 0.01, "value": 0.5, "max-norm": 0.5}
    for kind, settings in ((int, numbers), (float, rates), (str, {"scale": "tiny", "spawn": "T-10"})):
        for name, default in settings.items():
            parser.add_argument(f"--{name}", type=kind, default=default)
    return parser.parse_args()


class Agent(nn.Module):
    """A small CNN over the frame and the mean of the question's words; no memory."""

    def __init__(self, envs: gym.vector.VectorEnv) -> None:
        super().__init__()
        height, width, _ = envs.single_observation_space["rgb"].shape
        self.see = nn.Sequential(
            nn.Conv2d(3, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3, 1), nn.ReLU()
        )
        size = self.see(torch.zeros(1, 3, height, width)).numel()
        self.hear = nn.EmbeddingBag(int(envs.single_observation_space["question"].high.max()) + 1, 64, padding_idx=0)
        self.trunk = nn.Sequential(nn.Linear(size + 64, 256), nn.ReLU())
        self.actor, self.critic = nn.Linear(256, int(envs.single_action_space.n)), nn.Linear(256, 1)
        nn.init.orthogonal_(self.actor.weight, 0.01)

    def forward(self, obs: dict[str, torch.Tensor]) -> tuple[Categorical, torch.Tensor]:
        frame = self.see(obs["rgb"].permute(0, 3, 1, 2) / 255).flatten(1)
        hidden = self.trunk(torch.cat([frame, self.hear(obs["question"])], 1))
        return Categorical(logits=self.actor(hidden)), self.critic(hidden).squeeze(1)


def tensors(obs: dict[str, np.ndarray]) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(obs[name]) for name in ("rgb", "question")}


def main(args: argparse.Namespace) -> list[float]:
    """Trains, and returns the mean reward per step of each update."""
    torch.manual_seed(args.seed)
    options = {"scale": args.scale, "spawn": args.spawn, "answer": True, "image_size": (64, 64)}
    envs = gym.make_vec("eqa/House-v1", num_envs=args.num_envs, **options)
    agent = Agent(envs)
    optimizer = torch.optim.Adam(agent.parameters(), args.lr, eps=1e-5)
    obs, _ = envs.reset(seed=args.seed)
    obs, history, began = tensors(obs), [], time.monotonic()
    batch = args.num_envs * args.num_steps
    for update in range(max(1, args.total_steps // batch)):
        seen, taken, logs, values, rewards, ends, right = [], [], [], [], [], [], []
        for _ in range(args.num_steps):
            with torch.no_grad():
                policy, value = agent(obs)
            action = policy.sample()
            seen.append(obs), taken.append(action), logs.append(policy.log_prob(action)), values.append(value)
            obs, reward, terminated, truncated, info = envs.step(action.numpy())
            obs = tensors(obs)  # after an end, the first frame of the next episode
            rewards.append(torch.from_numpy(reward).float()), ends.append(torch.from_numpy(terminated | truncated))
            if "final_info" in info:
                right += info["final_info"]["success"][info["_final_info"]].tolist()
        with torch.no_grad():
            following, advantage, advantages = agent(obs)[1], 0.0, [torch.zeros(())] * args.num_steps
        for t in reversed(range(args.num_steps)):
            on = (~ends[t]).float()
            delta = rewards[t] + args.gamma * following * on - values[t]
            advantages[t] = advantage = delta + args.gamma * args.gae_lambda * on * advantage
            following = values[t]
        flat = {name: torch.cat([o[name] for o in seen]) for name in obs}
        action, log, value, gain = (torch.cat(rows) for rows in (taken, logs, values, advantages))
        returns = gain + value
        for _ in range(args.epochs):
            for rows in torch.randperm(batch).chunk(args.minibatches):
                policy, now = agent({name: content[rows] for name, content in flat.items()})
                ratio = (policy.log_prob(action[rows]) - log[rows]).exp()
                norm = (gain[rows] - gain[rows].mean()) / (gain[rows].std() + 1e-8)
                clipped = torch.min(norm * ratio, norm * ratio.clamp(1 - args.clip, 1 + args.clip)).mean()
                loss = args.value * 0.5 * (now - returns[rows]).square().mean()
                loss = loss - clipped - args.entropy * policy.entropy().mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), args.max_norm)
                optimizer.step()
        history.append(torch.stack(rewards).mean().item())
        rate = (update + 1) * batch / (time.monotonic() - began)
        answered = f"{100 * np.mean(right):.0f} % of {len(right)} right" if right else "none ended"
        print(
            f"step {(update + 1) * batch}: reward {history[-1]:.3f} a step, {answered}, {rate:.0f} steps/s", flush=True
        )
    return history


if __name__ == "__main__":
    main(arguments())
