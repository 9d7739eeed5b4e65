"""`@rebuildable`: a module that remembers the arguments it was made with, so that a checkpoint can hold them.

A checkpoint names a class and its plain arguments; only classes registered here can be made from it, so a foreign file
cannot make anything else.
"""

import functools
import inspect

from torch import nn

REBUILDABLE: dict[str, type[nn.Module]] = {}


def rebuildable(cls: type[nn.Module]) -> type[nn.Module]:
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
    REBUILDABLE[cls.__name__] = cls
    return cls


def describe(module: nn.Module) -> dict:
    """What `rebuild` needs: class, arguments and weights (on the CPU)."""
    state = {name: value.detach().cpu() for name, value in module.state_dict().items()}
    return {"class": type(module).__name__, "arguments": module.arguments, "state": state}


def rebuild(description: dict) -> nn.Module:
    """The module that was described, in evaluation mode; ValueError when class, arguments or weights do not fit."""
    name = description.get("class")
    if name not in REBUILDABLE:
        raise ValueError(f"module class: expected one of {sorted(REBUILDABLE)}, got {name!r}")
    try:
        module = REBUILDABLE[name](**description["arguments"])
        module.load_state_dict(description["state"])
    except (KeyError, TypeError, RuntimeError) as error:
        raise ValueError(f"{name}: arguments or weights do not fit this version ({error})") from None
    return module.eval()


def _plain(value: object) -> object:
    return list(value) if isinstance(value, list | tuple) else value
