"""The values of a row that are kept for later runs along it, and not computed again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from lowtide.codegen.cpu.cost import vector_cycles
from lowtide.codegen.cpu.reduction.form import ReductionForm
from lowtide.codegen.elements.operands import members
from lowtide.ir import Instruction, Opcode
from lowtide.ops.table import TABLE
from lowtide.records import dataclass

_DEAR: Final = 8.0
"""Cycles of a vector from which on a value is kept: a store and a load are less."""

_MOVING: Final[Mapping[Opcode, float]] = {
    Opcode.CONCATENATE: 8.0,
    Opcode.GATHER: 10.0,
    Opcode.PAD: 8.0,
    Opcode.REVERSE: 4.0,
    Opcode.TRANSPOSE: 10.0,
}
"""Cycles of operations that read elsewhere than one after the other."""

MOST_KEPT: Final = 2
"""Values that are kept at once: each takes as much of the cache as a row."""


@dataclass(frozen=True, eq=False, slots=True)
class Kept:
    """A value that is stored in run `made` along a row, and read in later ones."""

    value: Instruction
    made: int


def kept_values(form: ReductionForm) -> tuple[Kept, ...]:
    """Return the values that are worth keeping from one run along a row for the next ones."""
    runs = form.last_pass + 1
    if runs == 1:
        return ()
    targets = [_targets(form, number) for number in range(runs)]
    elsewhere = _read_elsewhere(form)
    costs: dict[Instruction, float] = {}
    found: dict[Instruction, int] = {}
    before: dict[Instruction, int] = {}
    for number in range(runs):
        seen = _computed(form, targets[number], found)
        for x in seen:
            may_be = x in before and len(found) < MOST_KEPT and x not in elsewhere
            if may_be and _cost(form, x, costs) >= _DEAR and not _under(x, found, seen):
                found[x] = before[x]
        for x in _computed(form, targets[number], found):
            before.setdefault(x, number)
    return tuple([Kept(x, made) for x, made in found.items()])


def _targets(form: ReductionForm, number: int) -> list[Instruction]:
    """What run `number` along a row computes at each point."""
    found = [
        operand
        for hero in form.heroes
        if form.pass_of(hero) == number
        for operand in hero.operands[: len(hero.operands) // 2]
    ]
    if number == form.last_pass:
        found += [x.source for x in form.results if x.is_full]
    return found


def _computed(
    form: ReductionForm, targets: Iterable[Instruction], kept: Mapping[Instruction, int]
) -> list[Instruction]:
    """The values that are computed at a point in its own place, from the targets back."""
    seen: dict[Instruction, None] = {}
    stack = list(targets)
    while stack:
        x = stack.pop()
        if x in seen or x in kept or x.opcode is Opcode.PARAMETER:
            continue
        if not x.shape.is_array or x.shape.dimensions != form.space:
            continue
        seen[x] = None
        if TABLE[x.opcode].elementwise:
            stack += x.operands
    return list(seen)


def _under(x: Instruction, kept: Mapping[Instruction, int], seen: Iterable[Instruction]) -> bool:
    """Whether something above it that is computed here is kept as well."""
    among = set(seen)
    return any(user in kept and user in among for user in x.users)


def _read_elsewhere(form: ReductionForm) -> set[Instruction]:
    """Values that, themselves or through elementwise operations, are read not in their place."""
    stack: list[Instruction] = []
    for x in members(form.instruction):
        if x.opcode not in (Opcode.TUPLE, Opcode.REDUCE) and not TABLE[x.opcode].elementwise:
            stack += x.operands
    found: set[Instruction] = set()
    while stack:
        x = stack.pop()
        if x not in found:
            found.add(x)
            if TABLE[x.opcode].elementwise:
                stack += x.operands
    return found


def _cost(form: ReductionForm, x: Instruction, costs: dict[Instruction, float]) -> float:
    """Cycles that a vector of a value takes with all that is computed for it alone."""
    found = costs.get(x)
    if found is not None:
        return found
    total = 0.0
    seen = {x: None}
    stack = [x]
    while stack:
        y = stack.pop()
        total += _MOVING.get(y.opcode, 0.0) + vector_cycles([y])
        if not TABLE[y.opcode].elementwise:
            continue
        fresh = [
            z
            for z in y.operands
            if z not in seen
            and z.opcode not in (Opcode.PARAMETER, Opcode.REDUCE)
            and z.shape.dimensions == form.space
        ]
        seen |= dict.fromkeys(fresh)
        stack += fresh
    costs[x] = total
    return total
