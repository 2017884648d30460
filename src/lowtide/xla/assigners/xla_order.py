"""The order in which XLA numbers values and breaks ties."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import heappop, heappush
from typing import Final

from lowtide.analysis.call_graph import executed_callees, while_body, while_condition
from lowtide.ir import Computation, Instruction, Module, Opcode, ShapeIndex
from lowtide.ir.traversal import callees, post_order
from lowtide.xla.analysis.hlo_value import HloValue


def computations_in_post_order(module: Module) -> list[Computation]:
    """Return all computations, callees before callers, otherwise in the order of the module."""
    computations = list(module.computations.values())
    place = {computation: i for i, computation in enumerate(computations)}
    callers: dict[Computation, list[Computation]] = {x: [] for x in computations}
    waiting: dict[Computation, int] = {}
    for computation in computations:
        called = callees(computation)
        waiting[computation] = len(called)
        for callee in called:
            callers[callee].append(computation)
    ready = [i for i, computation in enumerate(computations) if not waiting[computation]]
    order: list[Computation] = []
    while ready:
        computation = computations[heappop(ready)]
        order.append(computation)
        for caller in callers[computation]:
            waiting[caller] -= 1
            if not waiting[caller]:
                heappush(ready, place[caller])
    return order


def computations_as_assigned(module: Module) -> list[Computation]:
    """Return what the entry reaches in the order in which XLA assigns buffers.

    Callers come before callees: it is the reverse of a depth first walk in order of creation.
    """
    order: list[Computation] = []
    seen = {module.entry}
    stack = [(module.entry, iter(callees(module.entry)))]
    while stack:
        computation, remaining = stack[-1]
        callee = next((x for x in remaining if x not in seen), None)
        if callee is None:
            stack.pop()
            order.append(computation)
        else:
            seen.add(callee)
            stack.append((callee, iter(callees(callee))))
    return order[::-1]


def positions_as_assigned(module: Module) -> dict[Instruction, int]:
    """Return the place of each instruction, operands before users; see the order above."""
    return _positions(computations_as_assigned(module))


def _positions(computations: Iterable[Computation]) -> dict[Instruction, int]:
    positions: dict[Instruction, int] = {}
    for computation in computations:
        for instruction in post_order(computation):
            positions[instruction] = len(positions)
    return positions


def numbered_as_in_xla(module: Module, values: Iterable[HloValue]) -> dict[HloValue, int]:
    """Return the places of values in the order of XLA's numbers.

    Phis come last, in the order in which the entry reaches them; those of a loop are the whole
    states of condition and body, what the loop runs, then elements and results.
    """
    positions = _positions(computations_in_post_order(module))
    path = _paths(module, positions)
    turn: dict[Instruction, tuple[_Path, int, int]] = {}
    for instruction, own in path.items():
        if instruction.opcode is Opcode.WHILE:
            turn[while_condition(instruction).parameters[0]] = (own, 0, _NESTED + 1)
            turn[while_body(instruction).parameters[0]] = (own, 1, _NESTED + 2)
        turn.setdefault(instruction, (own, _NESTED + 3, _NESTED + 3))

    def key(value: HloValue) -> tuple[bool, _Path, ShapeIndex]:
        if not value.is_phi or value.instruction not in turn:
            return False, (positions[value.instruction],), value.index
        own, whole, element = turn[value.instruction]
        return True, (*own, element if value.index else whole), value.index

    return {value: i for i, value in enumerate(sorted(values, key=key))}


_Path = tuple[int, ...]

_NESTED: Final = 2
"""The turn of what a loop runs, behind the whole states."""


def _paths(module: Module, positions: Mapping[Instruction, int]) -> dict[Instruction, _Path]:
    """Where the entry reaches each instruction: positions of callers, with turns between."""
    path: dict[Instruction, _Path] = {}
    stack: list[tuple[Computation, _Path]] = [(module.entry, ())]
    seen = {module.entry}
    while stack:
        computation, outer = stack.pop()
        for instruction in computation.instructions.values():
            path[instruction] = (*outer, positions[instruction])
            for _, callee in executed_callees(instruction):
                if callee not in seen:
                    seen.add(callee)
                    stack.append((callee, (*path[instruction], _NESTED)))
    return path
