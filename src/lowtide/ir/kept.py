"""Results of analyses, kept with a computation until it changes.

There is no other place for them, and no pass declares what it preserves: a result holds for one
version of its computation. It goes when the computation changes, when a pipeline ends
(`forget_kept`), and with the computation. `counted` tells how often each analysis was run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, TypeVar, cast

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
        counts = _COUNTS.get()
        if counts is not None:
            counts[_name(key)] += 1
        found = computation.kept[key] = (computation.version, analysis())
    return cast(T, found[1])


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """Count within a block how often each analysis is run in full, by what its key begins with.

    An analysis of one computation counts as one.
    """
    counts: Counter[str] = Counter()
    token = _COUNTS.set(counts)
    try:
        yield counts
    finally:
        _COUNTS.reset(token)


_COUNTS: Final[ContextVar[Counter[str] | None]] = ContextVar("_COUNTS", default=None)


def _name(key: Hashable) -> str:
    first = key[0] if isinstance(key, tuple) else key
    return str(getattr(first, "__name__", first))


def forget_kept(module: Module) -> None:
    """Drop all that is kept with the computations of a module."""
    for computation in module.computations.values():
        computation.kept.clear()
