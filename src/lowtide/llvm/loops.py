"""A loop while it is written, and the end of its iterations: counters that LLVM does not see through.

What steps from one iteration to the next is marked as open. Code for x86-64 has it pass through an
empty piece of assembly, so that LLVM's loop strength reduction, which takes a third of the time of
code generation, leaves the loop as written: `strength.py` writes loops that need it no more.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field
from typing import Final, TypeAlias

from lowtide.records import dataclass

Integer: TypeAlias = "str | int"
"""A 64-bit integer: the name of a value, or a number known while compiling."""

OPEN: Final = " ; open"
"""What ends the line of a value that is to be open."""

_OPEN: Final = re.compile(r"\n  (%[\w.]+) = ([^\n]+) ; open(?=\n)")


@dataclass(eq=False, slots=True)
class Loop:
    """One loop while its body is written.

    `index` is the counter, `values` what is carried into an iteration; the body sets `next`, and
    after the loop `results` are the values at its end. What `Function.before(loop)` writes stands
    ahead of the loop. The body of one that repeats sets `again`, an i1.
    """

    index: Integer
    values: list[str]
    next: list[str]
    results: list[str]
    ahead: list[str] = field(default_factory=list)
    entry: str = ""
    again: str = "false"


def phi(type_: str, name: str, first: Integer, entry: str, after: Integer, latch: str) -> str:
    """Return the line of a value that is `first` behind one block and `after` behind another."""
    return f"  {name} = phi {type_} [ {first}, %{entry} ], [ {after}, %{latch} ]"


def phis(loop: Loop, carry: Sequence[tuple[str, str]], latch: str) -> list[str]:
    """What a loop carries, at its head; `latch` is where an iteration ends."""
    return [
        phi(type_, name, first, loop.entry, after, latch)
        for (type_, first), name, after in zip(carry, loop.values, loop.next, strict=True)
    ]


def trips(start: Integer, stop: Integer, step: Integer) -> int | None:
    """The number of iterations, None where it is not known."""
    if isinstance(start, int) and isinstance(stop, int) and isinstance(step, int):
        return len(range(start, stop, step))
    return None


def with_open_counters(text: str) -> str:
    """Return a module in which what is marked as open passes through a piece of assembly.

    That is no instruction for the processor.
    """
    return _OPEN.sub(r'\n  \1.closed = \2\n  \1 = call i64 asm "", "=r,0"(i64 \1.closed)', text)
