"""A copy of a module without calls, in which each loop and branch has computations of its own.

Bitcasts become moves. What runs asynchronously is written out where it starts, and copies in two
halves become one: how devices wait for each other is decided when their program is planned.
"""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.ir import Computation, Instruction, Module, Opcode
from lowtide.ir.attributes import CustomCall
from lowtide.ir.clone import clone_computation, clone_module
from lowtide.ir.errors import UnsupportedOpError, unsupported
from lowtide.ir.traversal import computation_post_order
from lowtide.ops.bitcasts import bitcast_steps
from lowtide.passes.editing import make, substitute
from lowtide.passes.embedding import embed
from lowtide.spmd.annotations import CONSTRAINT_TARGETS
from lowtide.spmd.effects import MANUAL_BODY, mark_manual


def flattened(module: Module) -> Module:
    """Return a copy of a module with its calls written out, those of manual computations too."""
    copy = clone_module(module)
    copy.schedule = None
    for computation in copy.computations.values():
        if computation.name.startswith(MANUAL_BODY):
            mark_manual(computation)
    for computation in computation_post_order(copy):
        for x in list(computation.instructions.values()):
            if x.opcode in (Opcode.CALL, Opcode.FUSION):
                _write_out(x, [x])
            elif x.opcode is Opcode.ASYNC_START:
                _write_out(x, _ends(x))
            elif x.opcode is Opcode.COPY_START:
                _join(x)
            elif x.opcode is Opcode.BITCAST:
                _write_moves(x)
            elif x.opcode not in (Opcode.WHILE, Opcode.CONDITIONAL):
                _unmark(x)
    _separate(copy)
    return copy


def _write_moves(x: Instruction) -> None:
    made = as_moves(x)
    if made is not x:
        substitute(x, made)
        x.parent.remove(x)


def _unmark(x: Instruction) -> None:
    """Remove constraints from what an operation calls for single elements, as a reduction does."""
    for callee in x.called_computations:
        for y in list(callee.instructions.values()):
            if isinstance(y.attributes, CustomCall) and y.attributes.target in CONSTRAINT_TARGETS:
                y.replace_all_uses_with(y.operands[0])
                callee.remove(y)


def _write_out(x: Instruction, ends: Sequence[Instruction]) -> None:
    """Replace a call, whose result `ends` are, by a copy of what it calls."""
    module = x.parent.module
    callee = clone_computation(x.called_computations[0], module)
    result = embed(callee, x, x.operands, once=True)
    for end in ends:
        end.replace_all_uses_with(result)
    _remove(x)
    module.remove_computation(callee)


def _join(start: Instruction) -> None:
    """Replace both halves of a copy by one."""
    for done in _ends(start):
        copy = make(start.parent, Opcode.COPY, done.shape, start.operands, done)
        copy.set_annotations(done.annotations)
        done.replace_all_uses_with(copy)
    _remove(start)


def _ends(start: Instruction) -> list[Instruction]:
    """What awaits what is started; raises UnsupportedOpError where it is read in between."""
    found: list[Instruction] = []
    for x in start.users:
        if x.opcode is Opcode.ASYNC_UPDATE:
            found += _ends(x)
        elif x.opcode in (Opcode.ASYNC_DONE, Opcode.COPY_DONE):
            found.append(x)
        else:
            raise UnsupportedOpError(f"{x.name} reads {start.name} before it is done")
    return found


def _remove(x: Instruction) -> None:
    """Remove an instruction and what waits for it."""
    for user in list(x.users):
        _remove(user)
    x.parent.remove(x)


def _separate(module: Module) -> None:
    """Give each loop and conditional computations that nothing else calls."""
    seen: set[Computation] = set()
    pending = [module.entry]
    while pending:
        computation = pending.pop()
        for x in list(computation.instructions.values()):
            if x.opcode not in (Opcode.WHILE, Opcode.CONDITIONAL):
                continue
            own = []
            for callee in x.called_computations:
                used = callee in seen or callee in own
                own.append(clone_computation(callee, module) if used else callee)
                seen.add(own[-1])
            x.set_called_computations(tuple(own))
            pending.extend(own)


def as_moves(x: Instruction) -> Instruction:
    """Return what equals a bitcast in every layout: transposes, a reshape, a bitcast-convert.

    Raises UnsupportedOpError for tiled layouts.
    """
    source, target = x.operands[0].shape, x.shape
    if not (source.is_array and target.is_array) or source.is_dynamic or target.is_dynamic:
        return x
    if any(y.layout is not None and y.layout.tiles for y in (source, target)):
        raise unsupported(x, "a bitcast of tiled layouts is not partitioned; remove the tiles")
    value = x.operands[0]
    for step in bitcast_steps(source, target):
        value = make(x.parent, step.opcode, step.shape, (value,), x, step.attributes)
    if value is not x.operands[0]:
        value.set_shape(target)  # The layout tells a bitcast that reads it in which order.
    return value
