"""Fusions that no single loop computes are written out: their instructions run one by one."""

from __future__ import annotations

from collections.abc import Callable

from lowtide.ir import Computation, Instruction, Module, Opcode
from lowtide.ir.schedule import Schedule
from lowtide.ir.traversal import computation_post_order, fused_computations
from lowtide.ops.in_place import fused_updates, in_place_pairs, source_of
from lowtide.ops.overwriting import reads_other_elements
from lowtide.passes.call_sites import count_references, drop_unreferenced
from lowtide.passes.editing import substitute
from lowtide.passes.embedding import embed


def write_out_fusions(module: Module, is_wanted: Callable[[Instruction], bool]) -> int:
    """Replace fusions by their instructions, in the schedule too; return how many."""
    references = count_references(module)
    sequences = dict(module.schedule.sequences) if module.schedule else {}
    left: dict[Computation, None] = {}
    changes = 0
    for computation in computation_post_order(module):
        for fusion in list(computation.instructions.values()):
            if fusion.opcode is not Opcode.FUSION or not is_wanted(fusion):
                continue
            body = fusion.called_computations[0]
            _write_out(fusion, sequences, once=references[body] == 1)
            references[body] -= 1
            left[body] = None
            changes += 1
    if changes:
        drop_unreferenced(module, left)
        if module.schedule is not None:
            module.schedule = Schedule(sequences)
    return changes


def _write_out(
    fusion: Instruction, sequences: dict[Computation, tuple[Instruction, ...]], *, once: bool
) -> None:
    parent = fusion.parent
    known = len(parent.instructions)
    body = fusion.called_computations[0]
    result = embed(body, fusion, fusion.operands, once=once)
    made = list(parent.instructions.values())[known:]
    if fusion.has_control_edges:
        _pass_on_edges(fusion, made)
    substitute(fusion, result)
    order = sequences.get(parent)
    if order is not None:
        at = order.index(fusion)
        sequences[parent] = (*order[:at], *made, *order[at + 1 :])
    parent.remove(fusion)


def _pass_on_edges(fusion: Instruction, made: list[Instruction]) -> None:
    """All that is written out stays between what the fusion waited for and what waits for it."""
    for x in made:
        for predecessor in fusion.control_predecessors:
            x.add_control_predecessor(predecessor)
        for successor in fusion.control_successors:
            successor.add_control_predecessor(x)


def write_out_nested_fusions(module: Module) -> int:
    """Replace fusions within fusions by their instructions; return how many."""
    fused = fused_computations(module)
    return write_out_fusions(module, lambda x: x.parent in fused)


# -- conflicts -------------------------------------------------------------------------------------


def overwrites_what_it_reads(fusion: Instruction) -> bool:
    """Whether a result of a fusion would overwrite an operand of which other elements are read.

    Where the module declares no such pair, the result has a place of its own. The loop then stores
    all of it, so that it is better to update the operand in a step by itself.
    """
    body = fusion.called_computations[0]
    if any(x.pair[0][1] or x.has_conflict for x in fused_updates(fusion)):
        return True
    known = {x.pair for x in fused_updates(fusion)}
    for (number, index), output in in_place_pairs(fusion):
        if ((number, index), output) in known:
            continue
        first, _ = source_of(body.root, output)
        results = [source_of(body.root, x)[0] for x, _ in fusion.shape.leaves()]
        if index or reads_other_elements([first, *results], body.parameters[number]):
            return True
    return False
