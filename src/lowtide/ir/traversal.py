"""Orders in which to walk instructions and computations. Iterative, hence safe at any depth."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from lowtide.ir.attributes import Constant
from lowtide.ir.kept import kept
from lowtide.ir.opcode import CONTROL_FLOW, Opcode

if TYPE_CHECKING:
    from lowtide.ir.computation import Computation
    from lowtide.ir.instruction import Instruction
    from lowtide.ir.module import Module


def post_order(computation: Computation) -> list[Instruction]:
    """Return all instructions, operands and control predecessors before those that wait for them.

    The walk starts at each instruction without users, in order of creation, and visits control
    predecessors from last to first, then operands from first to last: the order of XLA's text.
    It is kept until the computation changes; the list is the caller's own.
    """
    return kept(computation, post_order, lambda: _post_order(computation)).copy()


def _post_order(computation: Computation) -> list[Instruction]:
    order: list[Instruction] = []
    visiting: set[Instruction] = set()
    done: set[Instruction] = set()
    for start in computation.instructions.values():
        if start.users or start in done:
            continue
        _visit(start, visiting, done, order)
    if len(order) != len(computation.instructions):
        for start in computation.instructions.values():
            if start not in done:
                _visit(start, visiting, done, order)
    return order


def _visit(
    start: Instruction, visiting: set[Instruction], done: set[Instruction], order: list[Instruction]
) -> None:
    stack = [start]
    while stack:
        instruction = stack[-1]
        if instruction in done:
            stack.pop()
            continue
        if instruction not in visiting:
            waiting = _waiting(instruction, done, order)
            if waiting:
                visiting.add(instruction)
                stack += waiting
                continue
        stack.pop()
        done.add(instruction)
        order.append(instruction)


def _waiting(
    instruction: Instruction, done: set[Instruction], order: list[Instruction]
) -> list[Instruction]:
    """What has to be visited before an instruction, the first one last.

    Operands that wait for nothing come into the order at once.
    """
    operands = instruction.operands
    if instruction.control_predecessors:
        waiting = [x for x in reversed(operands) if x not in done]
        return waiting + [x for x in instruction.control_predecessors if x not in done]
    if done.issuperset(operands):
        return []
    for place, x in enumerate(operands):
        if x in done:
            continue
        if x.control_predecessors or not done.issuperset(x.operands):
            return list(operands[place:])[::-1]
        done.add(x)
        order.append(x)
    return []


def sequence(computation: Computation) -> Sequence[Instruction]:
    """Return the instructions in schedule order where there is one, else in post order."""
    schedule = computation.module.schedule
    if schedule is not None and computation in schedule.sequences:
        return schedule.sequences[computation]
    return post_order(computation)


def computation_post_order(
    module: Module, sequences: dict[Computation, Sequence[Instruction]] | None = None
) -> list[Computation]:
    """Return all computations, callees before callers, computations without callers in order.

    Callees are visited in the order in which `sequence` has their callers; `sequences` is filled
    with these orders. A cycle in the call graph, which the verifier rejects, does not stop the
    walk.
    """
    if sequences is None and module.schedule is None:
        computations = module.computations.values()
        return _computations_of(module, {x: _called_in_turn(x) for x in computations})
    if sequences is None:
        sequences = {}
    for computation in module.computations.values():
        sequences[computation] = sequence(computation)
    return _computations_of(module, {x: _callees(y) for x, y in sequences.items()})


def _called_in_turn(computation: Computation) -> Sequence[Computation]:
    """The computations called from here, in the order of the first call in post order."""
    if not callees(computation):
        return ()
    return kept(computation, _called_in_turn, lambda: _callees(post_order(computation)))


def order_as_created(module: Module) -> list[Computation]:
    """Return all computations, callees before callers, as XLA prints a module that it has read.

    Callees are visited in the order in which the instructions that call them were created.
    """
    computations = module.computations.values()
    return _computations_of(module, {x: _callees(x.instructions.values()) for x in computations})


def printed_order(module: Module) -> list[Computation]:
    """Return all computations in the order of the module's text.

    It is the module's `print_order` as long as that is an order of its computations in which none
    stands before one that it calls.
    """
    order = module.print_order
    if set(order) == set(module.computations.values()) and callees_come_first(order):
        return list(order)
    return computation_post_order(module)


def callees_come_first(order: Iterable[Computation]) -> bool:
    """Whether each computation stands behind all that it calls."""
    seen: set[Computation] = set()
    for computation in order:
        for instruction in computation.instructions.values():
            if not seen.issuperset(instruction.called_computations):
                return False
        seen.add(computation)
    return True


def _computations_of(
    module: Module, called_by: Mapping[Computation, Sequence[Computation]]
) -> list[Computation]:
    called = {callee for x in called_by.values() for callee in x}
    order: list[Computation] = []
    done: set[Computation] = set()
    for computation in module.computations.values():
        if computation not in called:
            _visit_computation(computation, called_by, done, order)
    for computation in module.computations.values():
        _visit_computation(computation, called_by, done, order)
    return order


def _visit_computation(
    start: Computation,
    called_by: Mapping[Computation, Sequence[Computation]],
    done: set[Computation],
    order: list[Computation],
) -> None:
    if start in done:
        return
    done.add(start)
    stack = [(start, iter(called_by[start]))]
    while stack:
        computation, remaining = stack[-1]
        for callee in remaining:
            if callee not in done:
                done.add(callee)
                stack.append((callee, iter(called_by[callee])))
                break
        else:
            stack.pop()
            order.append(computation)


def reached(roots: Iterable[Instruction]) -> dict[Instruction, None]:
    """Return the instructions of a computation that some are made from, and these themselves."""
    seen = dict.fromkeys(roots)
    stack = list(seen)
    while stack:
        fresh = [x for x in stack.pop().operands if x not in seen]
        seen.update(dict.fromkeys(fresh))
        stack += fresh
    return seen


def callees(computation: Computation) -> list[Computation]:
    """Return the computations called from here, in order of first call, without repeats.

    A loop calls its body before its condition here, and what one instruction calls several times
    counts where it is called last: the order in which XLA prints them.
    """
    return list(kept(computation, callees, lambda: _callees(computation.instructions.values())))


def all_callees(computation: Computation) -> list[Computation]:
    """Return all that a computation calls, also through others, each once."""
    found: dict[Computation, None] = {}
    waiting = [computation]
    while waiting:
        fresh = [x for x in callees(waiting.pop()) if x not in found]
        found.update(dict.fromkeys(fresh))
        waiting += fresh
    return list(found)


def _callees(instructions: Iterable[Instruction]) -> list[Computation]:
    found: dict[Computation, None] = {}
    for instruction in instructions:
        called = instruction.called_computations
        if not called:
            continue
        if instruction.opcode is Opcode.WHILE:
            called = called[::-1]
        for callee in reversed(dict.fromkeys(reversed(called))):
            found[callee] = None
    return list(found)


def fused_computations(module: Module) -> set[Computation]:
    """Return the computations that are the body of a fusion."""
    return {
        callee
        for computation in module.computations.values()
        for instruction in computation.instructions.values()
        if instruction.opcode is Opcode.FUSION
        for callee in instruction.called_computations
    }


def running_computations(module: Module) -> list[Computation]:
    """Return the computations that run by themselves, callees first."""
    applied = applied_computations(module)
    return [x for x in computation_post_order(module) if x not in applied]


def applied_computations(module: Module) -> set[Computation]:
    """Return the computations that do not run by themselves: kernels, reducers, comparators.

    Those that while, conditional and call run do.
    """
    return {
        callee
        for computation in module.computations.values()
        for instruction in computation.instructions.values()
        if instruction.called_computations and instruction.opcode not in CONTROL_FLOW
        for callee in instruction.called_computations
    }


def values_left_out(module: Module) -> int:
    """Return how many constants of a module had no values in its text, `{...}`."""
    return sum(
        [
            isinstance(x.attributes, Constant) and x.attributes.literal.elided
            for computation in module.computations.values()
            for x in computation.instructions.values()
        ]
    )


def told_left_out(count: int) -> str:
    """Return what results of a module with such constants are worth, in words."""
    constants = "a constant" if count == 1 else f"{count} constants"
    return (
        f"the text leaves out the values of {constants}, {{...}}: counts stand in, and results are "
        "not the program's; a protobuf has them, and text that XLA prints with large constants"
    )
