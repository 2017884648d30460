"""Optimization barriers that keep nothing apart.

A barrier stands for a wish to compute twice: what lies behind it is not merged with what was
computed from the same values before. It may be that nothing is computed twice, such as for values
that a checkpoint was told to save. Then the barrier only hides from fusion where its values come
from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from lowtide.analysis.value_numbers import ValueNumbers
from lowtide.ir import Computation, Instruction, Module, Opcode
from lowtide.passes.editing import element_index, remove_with_operands, substitute
from lowtide.passes.interface import Pass, example
from lowtide.transforms.control_flow.loops import loops_of

_PASSING: Final = frozenset(
    {
        *(Opcode.BITCAST, Opcode.BROADCAST, Opcode.COPY, Opcode.GET_TUPLE_ELEMENT),
        *(Opcode.OPTIMIZATION_BARRIER, Opcode.RESHAPE, Opcode.SLICE, Opcode.TRANSPOSE),
    }
)
"""What moves values only: nobody asks for it to be done twice."""


def remove_needless_barriers(module: Module, *, all: bool = False) -> int:
    """Remove barriers behind which nothing repeats a computation; return how many.

    A barrier is needed if what computes with its elements, perhaps after they are reshaped,
    sliced or the like, would be equal to another instruction without barriers. Then all of its
    elements stay: those that nothing repeats make the rest wait. In the body of a loop it is needed
    also if it passes on what no step changes: each step repeats what is computed from that. With
    `all` no barrier is needed; equal computations on its two sides are then merged by what merges
    them elsewhere.
    """
    unchanged = set() if all else _unchanged(module)
    return sum([_remove(x, unchanged, regardless=all) for x in module.computations.values()])


def _unchanged(module: Module) -> set[Instruction]:
    """The carried elements, as loop bodies read them, that no step changes."""
    found: set[Instruction] = set()
    for loop in loops_of(module):
        inside = loop.all_read_inside()
        for index in loop.invariants():
            found.update(inside.get(index, ()))
    return found


def _remove(
    computation: Computation, unchanged: Collection[Instruction], *, regardless: bool
) -> int:
    barriers = [
        x
        for x in computation.instructions.values()
        if x.opcode is Opcode.OPTIMIZATION_BARRIER and not x.has_control_edges
    ]
    if not barriers:
        return 0
    repeats = set() if regardless else _repeats(computation)
    needless = [
        x
        for x in barriers
        if not any(y in repeats for y in _readers(x))
        and not any(y in unchanged for y in _elements(x))
    ]
    for x in needless:
        _bypass(x)
    return len(needless)


def _elements(barrier: Instruction) -> Sequence[Instruction]:
    """What a barrier passes on."""
    source = barrier.operands[0]
    return source.operands if source.opcode is Opcode.TUPLE else barrier.operands


def _bypass(barrier: Instruction) -> None:
    """Let what reads a barrier, or elements of it, read what it passes on."""
    source = barrier.operands[0]
    substitute(barrier, source)
    for x in list(source.users) if source.opcode is Opcode.TUPLE else []:
        if x.opcode is Opcode.GET_TUPLE_ELEMENT and not x.has_control_edges:
            substitute(x, source.operands[element_index(x)])
            remove_with_operands(x)
    remove_with_operands(barrier)


def _repeats(computation: Computation) -> set[Instruction]:
    """What would be equal to something else if there were no barriers."""
    numbers = ValueNumbers(through_barriers=True).of_instructions(computation, {})
    counts = Counter([number for x, number in numbers.items() if x.opcode not in _PASSING])
    return {x for x, number in numbers.items() if counts[number] > 1}


def _readers(barrier: Instruction) -> Iterator[Instruction]:
    """What computes with a barrier or its elements."""
    waiting = list(barrier.users)
    seen = set(waiting)
    while waiting:
        x = waiting.pop()
        if x.opcode not in _PASSING:
            yield x
            continue
        fresh = [y for y in x.users if y not in seen]
        seen.update(fresh)
        waiting += fresh


PASSES: Final = (
    Pass(
        "needless-barriers",
        remove_needless_barriers,
        "Removes optimization barriers behind which nothing is computed for the second time.",
        *example(
            """
HloModule m

ENTRY main {
  x = f32[4] parameter(0)
  y = f32[4] sine(x)
- pair = (f32[4], f32[4]) tuple(x, y)
- barrier = (f32[4], f32[4]) opt-barrier(pair)
- x.1 = f32[4] get-tuple-element(barrier), index=0
- y.1 = f32[4] get-tuple-element(barrier), index=1
- ROOT z = f32[4] multiply(x.1, y.1)
+ ROOT z = f32[4] multiply(x, y)
}
"""
        ),
        meanings=(("all", "also barriers that keep equal computations apart"),),
    ),
)
