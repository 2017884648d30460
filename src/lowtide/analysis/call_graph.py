"""The computations that run as control flow, their callers, and the length of the program.

Computations applied per element (the bodies of fusions, reducers, comparators) run inside the
kernel of their caller: they own no buffers and are no part of the call graph here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Final

from lowtide.ir import Computation, Instruction, Opcode
from lowtide.ir.opcode import CALLERS


class CallRole(StrEnum):
    """As what a computation runs; the entry computation is called by nobody."""

    ENTRY = "entry"
    CALL = "call"
    CONDITION = "while condition"
    BODY = "while body"
    BRANCH = "branch"
    ASYNC = "async"


def while_body(instruction: Instruction) -> Computation:
    """Return the body of a while."""
    return instruction.called_computations[1]


def while_condition(instruction: Instruction) -> Computation:
    """Return the condition of a while."""
    return instruction.called_computations[0]


def executed_callees(instruction: Instruction) -> tuple[tuple[CallRole, Computation], ...]:
    """Return what an instruction runs as control flow, in the order of the flat schedule."""
    opcode = instruction.opcode
    if opcode not in CALLERS:
        return ()
    if opcode is Opcode.WHILE:
        return (
            (CallRole.CONDITION, while_condition(instruction)),
            (CallRole.BODY, while_body(instruction)),
        )
    role = _ROLES[opcode]
    return tuple([(role, callee) for callee in instruction.called_computations])


_ROLES: Final = {
    Opcode.CALL: CallRole.CALL,
    Opcode.CONDITIONAL: CallRole.BRANCH,
    Opcode.ASYNC_START: CallRole.ASYNC,
}


def executed_computations(root: Computation) -> list[Computation]:
    """Return `root` and all that it runs as control flow, callees before callers."""
    order: list[Computation] = []
    seen = {root}
    stack = [(root, iter(_callees(root)))]
    while stack:
        computation, remaining = stack[-1]
        for callee in remaining:
            if callee not in seen:
                seen.add(callee)
                stack.append((callee, iter(_callees(callee))))
                break
        else:
            stack.pop()
            order.append(computation)
    return order


def _callees(computation: Computation) -> list[Computation]:
    return [callee for _, _, callee in call_sites(computation)]


def call_sites(computation: Computation) -> Iterator[tuple[Instruction, CallRole, Computation]]:
    """Yield each control-flow call made in a computation: the caller, the role, the callee."""
    for instruction in computation.instructions.values():
        if instruction.called_computations:
            for role, callee in executed_callees(instruction):
                yield instruction, role, callee


def flattened_sizes(computations: list[Computation]) -> dict[Computation, int]:
    """Return for each computation how many instructions it runs, callees counted per call site.

    A loop body counts once. `computations` stand callees first.
    """
    return flattened_sums({x: len(x.instructions) for x in computations})


def flattened_sums(own: Mapping[Computation, int]) -> dict[Computation, int]:
    """Return for each computation its own amount and, per call site, those of its callees.

    A loop body counts once. Computations stand callees first.
    """
    sums: dict[Computation, int] = {}
    for computation, amount in own.items():
        sums[computation] = amount + sum([sums[callee] for callee in _callees(computation)])
    return sums
