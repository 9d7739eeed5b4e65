"""`@register`: modules that remember their arguments, so that a checkpoint can hold them.

A checkpoint names a class and its plain arguments. Only classes registered here can be made from it, so that a foreign
file cannot make anything else. Older names of classes, arguments and parts are still read.
"""

import functools
import inspect

from torch import nn

REGISTRY: dict[str, type[nn.Module]] = {}

# Old name -> today's; for parts of networks, wherever it stands in a weight's name.
OLD_CLASSES = {"PlacesAnswerer": "SpatialAttentionAnswerer"}
OLD_ARGUMENTS = {"also_back": "earlier_frames", "glimpses": "num_heads"}
OLD_PARTS = {"senses": "observation_encoder", "hearing": "question_input", "seeing": "frame_input"}
# Older words in the names of agents.
OLD_NAMES = {
    ", own ends": ", on-policy answerer",
    ", places": ", spatial attention",
    ", also turned": ", random heading",
}


def register(cls: type[nn.Module]) -> type[nn.Module]:
    """Class decorator: registers the class and gives each instance `arguments`, a dict of plain values."""
    init = cls.__init__
    signature = inspect.signature(init)

    @functools.wraps(init)
    def remembering(self, *args, **kwargs) -> None:
        bound = signature.bind(self, *args, **kwargs)
        bound.apply_defaults()
        init(self, *args, **kwargs)
        self.arguments = {name: _plain(v) for name, v in list(bound.arguments.items())[1:]}

    cls.__init__ = remembering
    REGISTRY[cls.__name__] = cls
    return cls


def describe(module: nn.Module) -> dict:
    """Description for `rebuild`: class, arguments and weights (on the CPU)."""
    state = {name: value.detach().cpu() for name, value in module.state_dict().items()}
    return {"class": type(module).__name__, "arguments": module.arguments, "state": state}


def rebuild(description: dict) -> nn.Module:
    """The described module, in evaluation mode; ValueError if class, arguments or weights do not fit."""
    name = description.get("class")
    name = OLD_CLASSES.get(name, name)
    if name not in REGISTRY:
        raise ValueError(f"module class: expected one of {sorted(REGISTRY)}, got {name!r}")
    try:
        arguments = {OLD_ARGUMENTS.get(key, key): value for key, value in description["arguments"].items()}
        module = REGISTRY[name](**arguments)
        module.load_state_dict({_of_today(key): value for key, value in description["state"].items()})
    except (AttributeError, KeyError, TypeError, RuntimeError) as error:
        raise ValueError(f"{name}: arguments or weights do not fit this version ({error})") from None
    return module.eval()


def current_name(agent: str) -> str:
    """An agent's name in the results table, in today's words."""
    for old, new in OLD_NAMES.items():
        agent = agent.replace(old, new)
    return agent


def _of_today(weight: str) -> str:
    return ".".join(OLD_PARTS.get(part, part) for part in weight.split("."))


def _plain(value: object) -> object:
    return list(value) if isinstance(value, list | tuple) else value
