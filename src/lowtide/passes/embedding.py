"""The instructions of a computation written out where it is called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from lowtide.ir import Computation, Instruction, Opcode
from lowtide.ir.attributes import Parameter
from lowtide.ir.clone import clone_computation
from lowtide.ir.lazy_metadata import LazyMetadata, NestedMetadata
from lowtide.ir.metadata import NO_METADATA, Metadata
from lowtide.ir.traversal import post_order
from lowtide.ops.effects import has_side_effect
from lowtide.ops.table import TABLE
from lowtide.passes.editing import element_index

_HAS_STATE: Final = frozenset(
    {Opcode.ASYNC_START, Opcode.CONDITIONAL, Opcode.WHILE, Opcode.RNG_GET_AND_UPDATE_STATE}
)

_TAKES_ANY_LAYOUT: Final = frozenset(
    {
        *(Opcode.BROADCAST, Opcode.CONCATENATE, Opcode.CONVOLUTION, Opcode.DOT),
        *(Opcode.DYNAMIC_SLICE, Opcode.DYNAMIC_UPDATE_SLICE, Opcode.GATHER, Opcode.PAD),
        *(Opcode.REDUCE, Opcode.RESHAPE, Opcode.REVERSE, Opcode.SLICE, Opcode.TRANSPOSE),
    }
    | {opcode for opcode, row in TABLE.items() if row.elementwise}
)
"""Operations on the elements of arrays, wherever these lie."""


def may_embed(
    callee: Computation,
    site: Instruction,
    arguments: Sequence[Instruction],
    *,
    any_thread: bool = False,
) -> bool:
    """Whether a computation can be written out beside `site`, for these arguments.

    It has to run on the same thread there, unless `any_thread`. An argument may have another layout
    than the parameter where all that reads it takes any layout.
    """
    if not any_thread and callee.execution_thread != site.parent.execution_thread:
        return False
    return all(
        may_stand_for(argument, parameter) and not parameter.has_control_edges
        for parameter, argument in zip(callee.parameters, arguments, strict=True)
    )


def may_stand_for(new: Instruction, old: Instruction) -> bool:
    """Whether what reads `old` can read `new`, an equal value of perhaps another layout."""
    if new.shape is old.shape:
        return True
    if not new.shape.is_array or not new.shape.compatible(old.shape) or old.is_root:
        return False
    return all(user.opcode in _TAKES_ANY_LAYOUT for user in old.users)


def may_copy(callee: Computation) -> bool:
    """Whether there may be a second copy of what a computation does.

    Not where it has side effects, such as sending on a channel, nor where it holds loops and
    branches, whose computations two copies would share.
    """
    return not any(
        x.opcode in _HAS_STATE or has_side_effect(x) for x in callee.instructions.values()
    )


def embed(
    callee: Computation, site: Instruction, arguments: Sequence[Instruction], *, once: bool
) -> Instruction:
    """Write the instructions of `callee` out beside `site`; return what computes its result.

    With `once` the computation is about to be removed, so that the copies may call what it calls;
    without it fusions get bodies of their own. Metadata and shardings come along; what has no
    source line gets that of `site`, and a name below that of `site`. Elements are taken from tuples
    at once. The caller has to check `may_embed`, and `may_copy` unless `once`.
    """
    copies: dict[Instruction, Instruction] = {}
    for x in post_order(callee):
        if x.opcode is Opcode.PARAMETER:
            copies[x] = arguments[x.attributes_as(Parameter).number]
            continue
        operands = tuple([copies[y] for y in x.operands])
        if x.opcode is Opcode.GET_TUPLE_ELEMENT and not x.has_control_edges:
            taken = _taken(x, operands[0])
            if taken is not None:
                copies[x] = taken
                continue
        copies[x] = _copy(x, site, operands, once=once)
        for predecessor in x.control_predecessors:
            copies[x].add_control_predecessor(copies[predecessor])
    return copies[callee.root]


def _taken(element: Instruction, source: Instruction) -> Instruction | None:
    """Return the element of a tuple that is made here."""
    if source.opcode is not Opcode.TUPLE:
        return None
    found = source.operands[element_index(element)]
    return found if found.shape is element.shape else None


def _copy(
    x: Instruction, site: Instruction, operands: tuple[Instruction, ...], *, once: bool
) -> Instruction:
    called = x.called_computations
    module = site.parent.module
    if x.opcode is Opcode.FUSION and not once:
        called = tuple([clone_computation(y, module, keep_callees=True) for y in called])
    copy = site.parent.add_like(x, operands, called_computations=called)
    copy.set_metadata(_metadata(x, site))
    return copy


def _metadata(x: Instruction, site: Instruction) -> Metadata | LazyMetadata:
    """The metadata of x, at the place of `site` in the user's program where it has none itself.

    Hardly any of it is ever read: it is put together when somebody does.
    """
    own, outer = x.raw_metadata, site.raw_metadata
    if own.stack_frame_id:
        return own
    if isinstance(own, LazyMetadata):
        has_source = own.says("source_file=")
    elif own == NO_METADATA:
        return outer
    else:
        has_source = bool(own.source_file)
    frame = outer.stack_frame_id
    if frame and has_source:  # Which frame it has depends on whether it is so.
        return _placed(x.metadata, site.metadata)
    return NestedMetadata(own, outer, frame, _placed)


def _placed(own: Metadata, outer: Metadata) -> Metadata:
    """Metadata at the place of those of a call around it."""
    if own.source_file:
        return own
    if own == NO_METADATA:
        return outer
    return replace(
        own,
        op_name=_joined(outer.op_name, own.op_name),
        source_file=outer.source_file,
        source_line=outer.source_line,
        source_end_line=outer.source_end_line,
        source_column=outer.source_column,
        source_end_column=outer.source_end_column,
        stack_frame_id=outer.stack_frame_id,
    )


def _joined(outer: str, inner: str) -> str:
    """The path of a name in the user's program; names in computations may have it already."""
    if not outer or not inner or inner.startswith(outer):
        return inner or outer
    return f"{outer}/{inner}"
