"""`lowtide.jit`: functions for JAX, compiled and run by lowtide.

What the names below need is imported when they are first used: the plugin needs none of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lowtide.client.jit.jitted import Jitted as Jitted
    from lowtide.client.jit.jitted import jit as jit
    from lowtide.client.jit.stages import Lowered as Lowered

__all__ = ["Jitted", "Lowered", "jit"]

_HOME: Final = {
    "Jitted": "lowtide.client.jit.jitted",
    "Lowered": "lowtide.client.jit.stages",
    "jit": "lowtide.client.jit.jitted",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOME[name]), name)
    return value
