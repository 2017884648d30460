"""Asynchronous operations made synchronous: what they do stands where they start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lowtide.ir import Computation, Instruction, Module, Opcode
from lowtide.ir.attributes import CopyStart
from lowtide.passes.call_sites import count_references, drop_unreferenced
from lowtide.passes.editing import make, substitute
from lowtide.passes.embedding import embed, may_copy, may_embed
from lowtide.passes.interface import Pass, example

_DONE: Final[Mapping[Opcode, tuple[Opcode, Opcode]]] = {
    Opcode.ALL_GATHER_START: (Opcode.ALL_GATHER_DONE, Opcode.ALL_GATHER),
    Opcode.ALL_REDUCE_START: (Opcode.ALL_REDUCE_DONE, Opcode.ALL_REDUCE),
    Opcode.COLLECTIVE_PERMUTE_START: (Opcode.COLLECTIVE_PERMUTE_DONE, Opcode.COLLECTIVE_PERMUTE),
    Opcode.COPY_START: (Opcode.COPY_DONE, Opcode.COPY),
}
"""The second half of an operation in two halves, and the operation in one."""


def make_synchronous(module: Module) -> int:
    """Make one operation of each that is started and awaited; return how many.

    An asynchronous call is written out where it starts. Stays: what has control edges, what is
    awaited several times or read in between, prefetches that outlive the program, send and recv.
    """
    left: dict[Computation, None] = {}
    references = count_references(module)
    changes = 0
    for computation in list(module.computations.values()):
        for start in list(computation.instructions.values()):
            if start.opcode is Opcode.ASYNC_START:
                callee = start.called_computations[0]
                changes += _write_out(start, once=references[callee] == 1)
                left[callee] = None
            elif start.opcode in _DONE:
                changes += _join(start)
    if changes:
        drop_unreferenced(module, left)
    return changes


def _write_out(start: Instruction, *, once: bool) -> bool:
    """Replace an async-start, its updates and its done by the instructions that they run."""
    chain = [start]
    while chain[-1].opcode is not Opcode.ASYNC_DONE:
        users = list(chain[-1].users)
        if len(users) != 1 or users[0].opcode not in (Opcode.ASYNC_UPDATE, Opcode.ASYNC_DONE):
            return False
        chain.append(users[0])
    callee = start.called_computations[0]
    if any(x.has_control_edges or x.is_root for x in chain[:-1]) or chain[-1].has_control_edges:
        return False
    if not _may_write_out(callee, start, once=once):
        return False
    if callee.root.shape is not chain[-1].shape:
        return False
    result = embed(callee, start, start.operands, once=once)
    substitute(chain[-1], result)
    for x in reversed(chain):
        x.parent.remove(x)
    return True


def _may_write_out(callee: Computation, start: Instruction, *, once: bool) -> bool:
    """As `may_embed`; the callee may belong to another thread, as its operations may not."""
    if not once and not may_copy(callee):
        return False
    return may_embed(callee, start, start.operands, any_thread=True)


def _join(start: Instruction) -> bool:
    """Replace both halves of an operation by one."""
    second, whole = _DONE[start.opcode]
    if start.has_control_edges or start.is_root or len(start.users) != 1:
        return False
    done = next(iter(start.users))
    if done.opcode is not second or done.has_control_edges:
        return False
    attributes = start.attributes
    if isinstance(attributes, CopyStart):
        if attributes.cross_program_prefetch_index is not None:
            return False
        joined = make(start.parent, whole, done.shape, start.operands, start)
    else:
        joined = start.parent.add(
            whole, done.shape, start.operands, attributes, start.called_computations
        )
        joined.set_metadata(start.raw_metadata)
    joined.set_annotations(start.annotations)
    done.replace_all_uses_with(joined)
    done.parent.remove(done)
    start.parent.remove(start)
    return True


PASSES: Final = (
    Pass(
        "async-to-sync",
        make_synchronous,
        "Makes one operation of each that is started at one place and awaited at another.",
        *example(
            """
HloModule m

-wrapped {
- p = f32[4] parameter(0)
- ROOT e = f32[4] exponential(p)
+ENTRY main {
+ x = f32[4] parameter(0)
+ y = f32[4] negate(x)
+ e = f32[4] exponential(x)
+ ROOT z = f32[4] add(y, e)
}

-ENTRY main {
- x = f32[4] parameter(0)
- start = ((f32[4]), f32[4], s32[]) async-start(x), calls=wrapped
- y = f32[4] negate(x)
- done = f32[4] async-done(start)
- ROOT z = f32[4] add(y, done)
-}
-"""
        ),
    ),
)
