"""Removal of what nobody reads, as a function and as a pass."""

from __future__ import annotations

from typing import Final

from lowtide.ir import Computation, Module
from lowtide.ir.traversal import callees, post_order
from lowtide.passes.interface import Pass, example
from lowtide.passes.rewriting import is_dead


def remove_dead_code(module: Module) -> int:
    """Remove instructions that nobody reads, and computations that nobody calls.

    Returns how many of both went. What has side effects stays, and so do parameters.
    """
    removed = sum([sweep(x) for x in module.computations.values()])
    called = {module.entry}
    waiting = [module.entry]
    while waiting:
        fresh = [x for x in callees(waiting.pop()) if x not in called]
        called.update(fresh)
        waiting += fresh
    dead = [x for x in module.computations.values() if x not in called]
    for computation in dead:
        del module.computations[computation.name]
    return removed + len(dead)


def has_dead_code(module: Module) -> bool:
    """Whether a module has an instruction that `remove_dead_code` would remove."""
    return any(_has_dead_code(x) for x in module.computations.values())


def _has_dead_code(computation: Computation) -> bool:
    return any(is_dead(x) for x in computation.instructions.values() if not x.users)


def sweep(computation: Computation) -> int:
    """Remove all dead instructions of a computation; return how many."""
    if not _has_dead_code(computation):
        return 0
    dead = 0
    for instruction in reversed(post_order(computation)):
        if is_dead(instruction):
            computation.remove(instruction)
            dead += 1
    return dead


PASSES: Final = (
    Pass(
        "dce",
        remove_dead_code,
        "Removes instructions that nobody reads and computations that nobody calls.",
        *example(
            """
HloModule m

ENTRY main {
  x = f32[4] parameter(0)
- unread = f32[4] negate(x)
  ROOT sum = f32[4] add(x, x)
}
"""
        ),
    ),
)
