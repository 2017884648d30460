"""Results of analyses that are kept with a computation until it changes."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar, cast

from lowtide.ir.computation import Computation
from lowtide.ir.module import Module

T = TypeVar("T")


def kept(computation: Computation, key: Hashable, analysis: Callable[[], T]) -> T:
    """Return `analysis()`, run only where the computation changed since the last time.

    For what several passes ask for, one after the other. The result must not change; `key` has
    all else that it depends on. It is there until the computation changes, or `forget_kept`.
    """
    found = computation.kept.get(key)
    if found is None or found[0] != computation.version:
        found = computation.kept[key] = (computation.version, analysis())
    return cast(T, found[1])


def forget_kept(module: Module) -> None:
    """Drop all that is kept with the computations of a module."""
    for computation in module.computations.values():
        computation.kept.clear()
