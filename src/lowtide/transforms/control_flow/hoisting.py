"""Choice of the values to have before a loop or a branch, and making them there.

A walk marks what could be computed outside and whether that is work. Of each chain the last value
that pays is taken. So what only leads to it moves along and is not held.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from lowtide.ir import Computation, Instruction, Opcode
from lowtide.ops.effects import has_side_effect
from lowtide.passes.call_sites import SMALL

_STAYS: Final = frozenset(
    {
        *(Opcode.ADD_DEPENDENCY, Opcode.AFTER_ALL, Opcode.ASYNC_DONE, Opcode.ASYNC_START),
        *(Opcode.ASYNC_UPDATE, Opcode.CALL, Opcode.CONDITIONAL, Opcode.COPY_DONE),
        *(Opcode.COPY_START, Opcode.CUSTOM_CALL, Opcode.DOMAIN, Opcode.FUSION),
        *(Opcode.GET_DIMENSION_SIZE, Opcode.OPTIMIZATION_BARRIER, Opcode.PARAMETER),
        *(Opcode.PARTITION_ID, Opcode.REPLICA_ID, Opcode.RNG, Opcode.RNG_BIT_GENERATOR),
        *(Opcode.RNG_GET_AND_UPDATE_STATE, Opcode.SET_DIMENSION_SIZE, Opcode.WHILE),
    }
)
WORK: Final = frozenset(
    {
        *(Opcode.CHOLESKY, Opcode.CONVOLUTION, Opcode.DOT, Opcode.FFT, Opcode.RAGGED_DOT),
        *(Opcode.REDUCE, Opcode.REDUCE_WINDOW, Opcode.SCALED_DOT, Opcode.SELECT_AND_SCATTER),
        *(Opcode.SORT, Opcode.TOPK, Opcode.TRIANGULAR_SOLVE),
    }
)
"""Work that is worth memory: a fusion does not do it again for next to nothing."""

_COLLECTIVES: Final = frozenset(
    [x for x in Opcode if x.value.startswith(("all-", "collective-", "ragged-all", "reduce-sc"))]
)

Marks = dict[Instruction, bool]
"""What can be computed outside, operands first, and whether any work is part of it."""


def may_move(x: Instruction) -> bool:
    """Whether an instruction could stand elsewhere, if its operands did."""
    if x.opcode in _STAYS or x.opcode in _COLLECTIVES or x.is_root:
        return False
    return not (x.shape.is_dynamic or x.has_control_edges or has_side_effect(x))


def frontier(marks: Marks, is_given: Callable[[Instruction], bool]) -> list[Instruction]:
    """Return the values to have outside: the last ones of each chain for which that pays."""
    wanted: list[Instruction] = []
    covered: set[Instruction] = set()
    for x in reversed(list(marks)):
        if is_given(x) or not x.operands:
            continue
        if all(y in covered for y in x.users):
            covered.add(x)
        elif marks[x] and _pays(x):
            wanted.append(x)
            covered.add(x)
    return wanted[::-1]


def _pays(x: Instruction) -> bool:
    """Whether it is better to hold a value than to do the work for it each time."""
    if not x.shape.is_array or x.opcode is Opcode.BROADCAST:
        return False
    if x.shape.nbytes <= SMALL:
        return True
    before = sum([y.shape.leaf_nbytes for y in dict.fromkeys(x.operands)])
    return x.opcode in WORK and x.shape.nbytes <= before


def copy_out(
    wanted: list[Instruction],
    marks: Marks,
    outside: Computation,
    given: Mapping[Instruction, Instruction],
) -> list[Instruction]:
    """Make values, and what they are made from, in another computation; return them there.

    `given` has what stands there for the values that come from there.
    """
    needed = set(wanted)
    for x in reversed(list(marks)):
        if x in needed and x not in given:
            needed.update(x.operands)
    copies: dict[Instruction, Instruction] = {}
    for x in marks:
        if x not in needed:
            continue
        if x in given:
            copies[x] = given[x]
            continue
        copies[x] = outside.add_like(x, tuple([copies[y] for y in x.operands]))
    return [copies[x] for x in wanted]
