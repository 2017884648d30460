"""The values of a row that are kept for later runs along it, and not computed again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from lowtide.codegen.cpu.cost import conversion, vector_cycles
from lowtide.codegen.cpu.reduction.form import ReductionForm
from lowtide.codegen.elements.operands import members
from lowtide.ir import ElementType, Instruction, Opcode
from lowtide.ops.table import TABLE
from lowtide.records import dataclass

_DEAR: Final = 6.0
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
    """A value that is stored in run `made` along a row, and read in later ones.

    Values of one type and one `slot` have the same place in turn.
    """

    value: Instruction
    made: int
    slot: int


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
        later = [y for x in targets[number:] for y in x]
        again = [x for x in _computed(form, targets[number], found) if x in before]
        for x in again:
            # What is below a value that is kept is not computed any more, what is above it cheaper.
            if x in elsewhere or _cost(form, x, found, costs) < _DEAR:
                continue
            is_needed = x in _computed(form, targets[number], found)
            if is_needed and len(_read(form, later, found)) < MOST_KEPT:
                found[x] = before[x]
                costs.clear()
        for x in _computed(form, targets[number], found):
            before.setdefault(x, number)
    read = [
        _read(form, wanted, {x: made for x, made in found.items() if made < number})
        for number, wanted in enumerate(targets)
    ]
    return _placed(found, read)


def _placed(found: Mapping[Instruction, int], read: Sequence[set[Instruction]]) -> tuple[Kept, ...]:
    """Give values that are kept at the same time different slots; `read` has those of each run."""
    ends: dict[ElementType, list[int]] = {}
    kept = []
    for x, made in sorted(found.items(), key=lambda pair: pair[1]):
        slots = ends.setdefault(x.shape.element_type, [])
        last = max([made, *[number for number, values in enumerate(read) if x in values]])
        free = [slot for slot, end in enumerate(slots) if end < made]
        slot = free[0] if free else len(slots)
        slots[slot : slot + 1] = [last]
        kept.append(Kept(x, made, slot))
    return tuple(kept)


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
    return [x for x in _reached(form, targets, kept) if x not in kept]


def _read(
    form: ReductionForm, targets: Iterable[Instruction], kept: Mapping[Instruction, int]
) -> set[Instruction]:
    """The kept values that targets are computed from."""
    return {x for x in _reached(form, targets, kept) if x in kept}


def _reached(
    form: ReductionForm, targets: Iterable[Instruction], kept: Mapping[Instruction, int]
) -> dict[Instruction, None]:
    """What is computed or read at a point in its own place, from the targets back."""
    seen: dict[Instruction, None] = {}
    stack = list(targets)
    while stack:
        x = stack.pop()
        if x in seen or x.opcode is Opcode.PARAMETER:
            continue
        if not x.shape.is_array or x.shape.dimensions != form.space:
            continue
        seen[x] = None
        if TABLE[x.opcode].elementwise and x not in kept:
            stack += x.operands
    return seen


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


def _cost(
    form: ReductionForm,
    x: Instruction,
    kept: Mapping[Instruction, int],
    costs: dict[Instruction, float],
) -> float:
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
        total += conversion(y.shape.element_type, is_rounding=True)
        fresh = [
            z
            for z in y.operands
            if z not in seen
            and z not in kept
            and z.opcode not in (Opcode.PARAMETER, Opcode.REDUCE)
            and z.shape.dimensions == form.space
        ]
        seen |= dict.fromkeys(fresh)
        stack += fresh
    costs[x] = total
    return total
