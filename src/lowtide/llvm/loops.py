"""A loop while it is written, and counters that LLVM does not see as such.

What steps from one iteration to the next is marked as open. In code for x86-64 it passes through an
empty piece of assembly: LLVM's strength reduction, a fifth of the time of code generation, leaves
such loops as they are written. `strength.py` writes them so that nothing is left to reduce. LLVM
has no attribute that says as much for a function.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Final, TypeAlias

from lowtide.records import dataclass

Integer: TypeAlias = "str | int"
"""A 64-bit integer: the name of a value, or a number known while compiling."""

OPEN: Final = " ; open"
"""What ends the line of a value that is to be open: a comment, which other targets ignore."""


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
    *opened, rest = text.split(f"{OPEN}\n")
    return "".join([*[_passed_on(x) for x in opened], rest])


def _passed_on(text: str) -> str:
    """Text that ends with the line of a value, which passes through a piece of assembly there."""
    start = text.rfind("\n") + 1
    name, _, value = text[start:].partition(" = ")
    passed = f'{name} = call i64 asm "", "=r,0"(i64 {name.lstrip()}.closed)\n'
    return f"{text[:start]}{name}.closed = {value}\n{passed}"
