"""Results as a caller is given them: each in a buffer of its own."""

from __future__ import annotations

from lowtide.analysis.dataflow import ComputationDataflow, ValueKind, dataflow
from lowtide.analysis.donation import asked_donations
from lowtide.ir import Instruction, Module, Opcode
from lowtide.ir.clone import clone_module
from lowtide.ir.shape import tuple_shape


def lasting_arguments(module: Module, flow: ComputationDataflow) -> set[int]:
    """Return the values of the entry's arguments that nothing may overwrite.

    Others are named for outputs, or donated: they may hold any value once they are not needed.
    """
    found = {*flow.parameters}
    for donation in asked_donations(module):
        leaves = zip(
            donation.instruction.shape.leaves(), flow.leaves_of(donation.instruction), strict=True
        )
        depth = len(donation.index)
        found -= {value for (index, _), value in leaves if index[:depth] == donation.index}
    return found


def with_own_results(module: Module) -> Module:
    """Return a module whose results are values of their own; the same one where they are.

    An argument that lasts, a constant and what is returned twice are copied for it: a caller may
    free or overwrite each result by itself. Results inside of nested tuples stay as they are.
    """
    flow = dataflow(module.entry)[module.entry]
    lasting = lasting_arguments(module, flow)
    taken: set[int] = set()
    shared = []
    for number, x in enumerate(_results(module.entry.root)):
        leaves = flow.leaves_of(x)
        held = [v for v in leaves if v in lasting or v in taken or _is_constant(flow, v)]
        if held and x.shape.is_array:
            shared.append(number)
        taken.update(leaves)
    return _copied(module, shared) if shared else module


def _results(root: Instruction) -> tuple[Instruction, ...]:
    return root.operands if root.opcode is Opcode.TUPLE else (root,)


def _is_constant(flow: ComputationDataflow, value: int) -> bool:
    return flow.value_kind[value] is ValueKind.CONSTANT


def _copied(module: Module, numbers: list[int]) -> Module:
    """A copy of a module in which the results of some numbers are copies of what they were."""
    changed = clone_module(module)
    entry, root = changed.entry, changed.entry.root
    results = list(_results(root))
    for number in numbers:
        x = results[number]
        results[number] = entry.add(Opcode.COPY, x.shape, (x,))
        results[number].set_metadata(x.raw_metadata)
    if root.opcode is Opcode.TUPLE:
        shape = tuple_shape([x.shape for x in results])
        entry.root = entry.add(Opcode.TUPLE, shape, tuple(results))
        if not root.has_control_edges:
            entry.remove(root)
    else:
        entry.root = results[0]
    return changed
