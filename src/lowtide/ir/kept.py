"""Results of analyses, kept with a computation until it changes.

There is no other place for them, and no pass declares what it preserves: a result holds for one
version of its computation. It goes when the computation changes, when a pipeline ends
(`forget_kept`), and with the computation.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, TypeVar, cast

if TYPE_CHECKING:
    from lowtide.ir.computation import Computation
    from lowtide.ir.module import Module

T = TypeVar("T")


def kept(computation: Computation, key: Hashable, analysis: Callable[[], T]) -> T:
    """Return `analysis()`, run only where the computation changed since the last time.

    For what is asked for again and again. The result must not be changed. `key` names the analysis
    and all that it depends on besides the computation, such as versions of those that it calls.
    """
    found = computation.kept.get(key)
    if found is None or found[0] != computation.version:
        found = computation.kept[key] = (computation.version, analysis())
    return cast(T, found[1])


def forget_kept(module: Module) -> None:
    """Drop all that is kept with the computations of a module."""
    for computation in module.computations.values():
        computation.kept.clear()
