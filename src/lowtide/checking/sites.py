"""The call sites of a program, each with its row of slices in the plan."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from lowtide.checking.elements import CheckedElement, CheckedElements
from lowtide.checking.order import CheckedOrder, callees
from lowtide.checking.violation import PlanMismatchError
from lowtide.ir import Computation, Instruction, Module
from lowtide.ir.buffer import BufferAssignment, BufferSlice, CallSite


@dataclass(eq=False, slots=True)
class CheckedSite:
    """One run of a computation.

    `first_step` is the step of its first instruction; `prefix` the names of the calls that lead
    to it, each with a slash behind it. `inner` has the sites of what an instruction calls.
    """

    number: int
    row: CallSite
    first_step: int
    prefix: str
    inner: dict[Instruction, list[CheckedSite]] = field(default_factory=dict)

    @property
    def computation(self) -> Computation:
        """The computation that runs."""
        return self.row.computation

    def subtree(self) -> Iterator[CheckedSite]:
        """Yield this site and all within it, in the order in which they run."""
        stack = [self]
        while stack:
            site = stack.pop()
            yield site
            stack += reversed([x for sites in site.inner.values() for x in sites])

    def place(self, instruction: Instruction, element: CheckedElement) -> BufferSlice | None:
        """Return the slice that the plan gives to an element; None for none."""
        if element.leaf < 0:
            return self.row.tables.get((instruction, element.index))
        row = self.row.slices.get(instruction)
        if row is None:
            return None
        found = row[element.leaf]
        return None if found is None or found.allocation < 0 else found


def find_sites(module: Module, order: CheckedOrder, assignment: BufferAssignment) -> CheckedSite:
    """Return the site of the entry, with those within it.

    Raises PlanMismatchError where the call sites of the plan are not those of the module.
    """
    rows = _RowsByCaller(assignment)
    entry = rows.take(-1, None, module.entry, "")
    entry_site = CheckedSite(entry, assignment.call_sites[entry], 0, "")
    stack = [entry_site]
    while stack:
        site = stack.pop()
        _check_row(site)
        for caller in order.sequences[site.computation]:
            called = callees(caller)
            if not called:
                continue
            prefix = f"{site.prefix}{caller.name}/"
            site.inner[caller] = []
            for position, callee in enumerate(called):
                number = rows.take(site.number, caller, callee, prefix)
                step = site.first_step + order.start(caller, position)
                inner = CheckedSite(number, assignment.call_sites[number], step, prefix)
                site.inner[caller].append(inner)
            stack += reversed(site.inner[caller])
    return entry_site


class _RowsByCaller:
    def __init__(self, assignment: BufferAssignment) -> None:
        self.numbers: dict[tuple[int, Instruction | None], list[int]] = defaultdict(list)
        self.rows = assignment.call_sites
        for number, row in enumerate(assignment.call_sites):
            self.numbers[row.parent, row.caller].append(number)

    def take(
        self, parent: int, caller: Instruction | None, computation: Computation, prefix: str
    ) -> int:
        numbers = self.numbers[parent, caller]
        for i, number in enumerate(numbers):
            if self.rows[number].computation is computation:
                del numbers[i]
                return number
        raise PlanMismatchError(
            f"the plan has no call site for {computation.name}, which {prefix or 'the program'} "
            "runs: it belongs to another module"
        )


def _check_row(site: CheckedSite) -> None:
    """Raise PlanMismatchError where the row is not one of the computation's instructions."""
    for instruction, places in site.row.slices.items():
        if instruction.parent is not site.computation:
            raise PlanMismatchError(
                f"the plan gives {instruction.name} a place in {site.computation.name}, to which "
                "it does not belong"
            )
        leaves = sum(1 for _ in instruction.shape.leaves()) if instruction.shape.is_tuple else 1
        if len(places) != leaves:
            raise PlanMismatchError(
                f"the plan has {len(places)} slices for {site.prefix}{instruction.name}, whose "
                f"shape {instruction.shape} has {leaves} leaves"
            )


def renamed(
    computations: Mapping[Computation, list[CheckedSite]],
    elements: CheckedElements,
    instruction: Instruction,
) -> bool:
    """Whether an instruction and its operand 0 have one place, or the former none, at all sites."""
    shape = instruction.shape
    source = instruction.operands[0]
    pairs = list(zip(elements.of(shape), elements.of(source.shape), strict=True))
    for site in computations[instruction.parent]:
        for element, operand_element in pairs:
            place = site.place(instruction, element)
            if place is None:
                continue
            given = site.place(source, operand_element)
            if given is None or (given.allocation, given.offset) != (
                place.allocation,
                place.offset,
            ):
                return False
    return True
