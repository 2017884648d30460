"""Programs as bytes: a mark, a version, a checksum, a header in JSON, then code and constants.

The checksum finds damage, not malice: a program is machine code, to be taken from whom one trusts.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final

import numpy as np

from lowtide.ir.buffer import AllocationKind, BufferSlice
from lowtide.ir.element_type import ElementType
from lowtide.ir.errors import InputError, LowtideError
from lowtide.ir.exchange import Exchange, ExchangeBuffer, ExchangeMove, Whose
from lowtide.ir.shape import TOKEN, Layout, Shape, array_shape
from lowtide.ir.thunk import (
    BundleThunk,
    ConditionalThunk,
    CopyThunk,
    ExchangeThunk,
    HostCall,
    HostCallThunk,
    KernelEntry,
    KernelThunk,
    Phase,
    Thunk,
    WhileThunk,
)
from lowtide.llvm.target import Target
from lowtide.runtime.cpu.arguments import Argument, major_to_minor
from lowtide.runtime.cpu.places import check_places
from lowtide.runtime.cpu.program import (
    Interface,
    Memory,
    NativeProgram,
    ProgramResult,
    Structure,
)

MARK: Final = b"lowtide program\n"
VERSION: Final = 5
"""Raised with each change of what is written here, of thunks, or of what kernels are given."""

ALIGNMENT: Final = 64
"""Code and constants begin at multiples of this, counted from the start."""

_VERSION_BYTES: Final = 4
_LENGTH_BYTES: Final = 8
_SUM_BYTES: Final = 32
_START: Final = len(MARK) + _VERSION_BYTES + _SUM_BYTES
"""Where what the checksum covers begins: the length of the header, the header, the blobs."""


def serialize(program: NativeProgram) -> bytes:
    """Return a program as bytes; equal programs give equal bytes.

    Raises LowtideError for one that calls Python functions, which only this process has.
    """
    if program.python_call:
        raise LowtideError(
            f"{program.name} cannot be stored: %{program.python_call} calls a Python function, "
            "which only this process has"
        )
    texts = [x for _, x in program.part_texts]
    blobs = [*program.objects, *texts, *[values.tobytes() for _, values in program.constants]]
    header = json.dumps(
        {
            "name": program.name,
            "target": _target(program.target),
            "threads": program.threads,
            "devices": [program.replicas, program.partitions],
            "thunks": [_thunk(x) for x in program.thunks],
            "kernels": [_kernel(x) for x in program.kernels],
            "interface": _interface(program.interface),
            "objects": len(program.objects),
            "parts": [number for number, _ in program.part_texts],
            "constants": [index for index, _ in program.constants],
            "sizes": [len(x) for x in blobs],
        },
        separators=(",", ":"),
    ).encode()
    parts = [len(header).to_bytes(_LENGTH_BYTES, "little"), header]
    end = _START + _LENGTH_BYTES + len(header)
    for blob in blobs:
        gap = -end % ALIGNMENT
        parts += [bytes(gap), blob]
        end += gap + len(blob)
    rest = b"".join(parts)
    return b"".join([MARK, VERSION.to_bytes(_VERSION_BYTES, "little"), sha256(rest).digest(), rest])


def deserialize(data: bytes | memoryview) -> NativeProgram:
    """Return the program that bytes stand for; its constants are views of them.

    Raises InputError for bytes that are no program, are of another version, or were damaged.
    """
    view = memoryview(data).cast("B")
    if bytes(view[: len(MARK)]) != MARK:
        raise InputError("these bytes are no program of lowtide: they do not begin as one")
    version = int.from_bytes(view[len(MARK) : len(MARK) + _VERSION_BYTES], "little")
    if version != VERSION:
        raise InputError(
            f"the program is of version {version}, this lowtide reads version {VERSION}; "
            "compile the module again"
        )
    rest = view[_START:]
    if sha256(rest).digest() != bytes(view[_START - _SUM_BYTES : _START]):
        raise InputError(f"the program is damaged: the checksum of its {len(view)} bytes is wrong")
    length = int.from_bytes(rest[:_LENGTH_BYTES], "little")
    try:
        header = json.loads(bytes(rest[_LENGTH_BYTES : _LENGTH_BYTES + length]))
        program = _program(header, view, _START + _LENGTH_BYTES + length)
        check_places(program)
    except _MALFORMED as error:
        raise InputError(f"the program is damaged: its header is wrong ({error})") from None
    return program


_MALFORMED: Final = (
    *(ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError),
    RecursionError,
)
"""What reading a header raises whose checksum is right and which nobody here wrote."""


def _program(header: Any, view: memoryview, end: int) -> NativeProgram:
    blobs = []
    for size in header["sizes"]:
        begin = end + -end % ALIGNMENT
        end = begin + size
        blobs.append(view[begin:end])
    count = header["objects"]
    parts = header["parts"]
    texts = [bytes(x) for x in blobs[count : count + len(parts)]]
    values = [np.frombuffer(x, np.uint8) for x in blobs[count + len(parts) :]]
    triple, cpu, features, vector_bytes = header["target"]
    replicas, partitions = header["devices"]
    return NativeProgram(
        _text(header["name"]),
        Target(_text(triple), _text(cpu), tuple(map(_text, features)), vector_bytes),
        header["threads"],
        _thunks_of(header["thunks"]),
        tuple([_kernel_of(x) for x in header["kernels"]]),
        tuple([bytes(x) for x in blobs[:count]]),
        _interface_of(header["interface"]),
        tuple(zip(header["constants"], values, strict=True)),
        replicas,
        partitions,
        tuple(zip(parts, texts, strict=True)),
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("a name is no text")
    return value


# -- thunks and kernels ------------------------------------------------------------------------


def _slice(place: BufferSlice | None) -> list[int] | None:
    return None if place is None else [place.allocation, place.offset, place.nbytes]


def _thunk(thunk: Thunk) -> list[Any]:
    match thunk:
        case KernelThunk(name, kernel, buffers, results, scratch):
            return ["kernel", name, kernel, [_slice(x) for x in buffers], results, _slice(scratch)]
        case CopyThunk(name, source, target):
            return ["copy", name, _slice(source), _slice(target)]
        case WhileThunk(name, condition, predicate, body, trips):
            parts = [[_thunk(x) for x in part] for part in (condition, body)]
            return ["while", name, parts[0], _slice(predicate), parts[1], trips]
        case ConditionalThunk(name, selector, is_predicate, branches):
            parts = [[_thunk(x) for x in branch] for branch in branches]
            return ["conditional", name, _slice(selector), is_predicate, parts]
        case HostCallThunk(name, call, buffers):
            return ["host", name, _call(call), [_slice(x) for x in buffers]]
        case ExchangeThunk(name, exchange, buffers, scratch):
            places = [_slice(x) for x in buffers]
            return ["exchange", name, _exchange(exchange), places, _slice(scratch)]
        case BundleThunk(name, function, seconds, within):
            return ["bundle", name, function, seconds, [_thunk(x) for x in within]]


def _call(call: HostCall) -> list[Any]:
    leaves = [[_leaf(x) for x in shapes] for shapes in (call.operands, call.results)]
    return [
        *(call.target, call.api_version, call.config),
        *leaves,
        *(call.is_tuple, call.has_side_effect, [list(x) for x in call.aliases]),
    ]


def _call_of(row: Any) -> HostCall:
    target, api_version, config, operands, results, *rest = row
    leaves = [tuple([_leaf_of(x) for x in shapes]) for shapes in (operands, results)]
    names = _text(target), _text(api_version), _text(config)
    is_tuple, has_side_effect, aliases = rest
    pairs = tuple([(operand, result) for operand, result in aliases])
    return HostCall(*names, leaves[0], leaves[1], bool(is_tuple), bool(has_side_effect), pairs)


def _leaf(shape: Shape) -> list[Any] | None:
    return _shape(shape) if shape.is_array else None


def _leaf_of(row: Any) -> Shape:
    return TOKEN if row is None else _shape_of(row)


def _exchange(exchange: Exchange) -> list[Any]:
    shapes = [[_shape(x) for x in shapes] for shapes in (exchange.operands, exchange.results)]
    moves = [
        [x.kernel, [[y.whose.value, y.slot] for y in x.buffers], x.size, x.sent, x.shared]
        for x in exchange.moves
    ]
    return [*shapes, moves, [list(x) for x in exchange.groups], [list(x) for x in exchange.pairs]]


def _exchange_of(row: Any) -> Exchange:
    operands, results, moves, groups, pairs = row
    return Exchange(
        tuple([_shape_of(x) for x in operands]),
        tuple([_shape_of(x) for x in results]),
        tuple([_move_of(*x) for x in moves]),
        tuple([tuple(x) for x in groups]),
        tuple([(source, target) for source, target in pairs]),
    )


def _move_of(kernel: int, buffers: Any, size: int, sent: bool | None, shared: bool) -> ExchangeMove:
    found = tuple([ExchangeBuffer(Whose(whose), slot) for whose, slot in buffers])
    return ExchangeMove(kernel, found, size, sent, shared)


def _thunks_of(rows: Sequence[Any]) -> tuple[Thunk, ...]:
    return tuple([_thunk_of(*row) for row in rows])


def _thunk_of(kind: str, name: str, *rest: Any) -> Thunk:
    if kind == "kernel":
        kernel, buffers, results, scratch = rest
        own = None if scratch is None else BufferSlice(*scratch)
        return KernelThunk(name, kernel, tuple([BufferSlice(*x) for x in buffers]), results, own)
    if kind == "copy":
        return CopyThunk(name, BufferSlice(*rest[0]), BufferSlice(*rest[1]))
    if kind == "while":
        condition, predicate, body, trips = rest
        test, step = _thunks_of(condition), _thunks_of(body)
        count = None if trips is None else int(trips)
        return WhileThunk(name, test, BufferSlice(*predicate), step, count)
    if kind == "host":
        return HostCallThunk(name, _call_of(rest[0]), tuple([BufferSlice(*x) for x in rest[1]]))
    if kind == "exchange":
        places = tuple([BufferSlice(*x) for x in rest[1]])
        own = None if rest[2] is None else BufferSlice(*rest[2])
        return ExchangeThunk(name, _exchange_of(rest[0]), places, own)
    if kind == "bundle":
        function, seconds, within = rest
        return BundleThunk(name, _text(function), float(seconds), _thunks_of(within))
    selector, is_predicate, branches = rest
    parts = tuple([_thunks_of(branch) for branch in branches])
    return ConditionalThunk(name, BufferSlice(*selector), is_predicate, parts)


def _kernel(kernel: KernelEntry) -> list[Any]:
    phases = [[x.function, x.units, x.unit_seconds] for x in kernel.phases]
    return [phases, kernel.shared_bytes, kernel.thread_bytes]


def _kernel_of(row: Any) -> KernelEntry:
    phases, shared_bytes, thread_bytes = row
    return KernelEntry(tuple([Phase(*x) for x in phases]), shared_bytes, thread_bytes)


def _target(target: Target) -> list[Any]:
    return [target.triple, target.cpu, list(target.features), target.vector_bytes]


# -- the interface -----------------------------------------------------------------------------


def _shape(shape: Shape) -> list[Any]:
    order = list(reversed(major_to_minor(shape)))
    return [shape.element_type.value, list(shape.dimensions), order]


def _shape_of(row: Any) -> Shape:
    element_type, dimensions, order = row
    return array_shape(ElementType(element_type), tuple(dimensions), Layout(tuple(order)))


def _structure_of(found: Any) -> Structure:
    return tuple([_structure_of(x) for x in found]) if isinstance(found, list) else found


def _interface(interface: Interface) -> list[Any]:
    return [
        [[x.kind.value, x.nbytes, x.argument, x.result] for x in interface.memories],
        [[x.label, _shape(x.shape), x.allocation] for x in interface.arguments],
        [[_shape(x.shape), _slice(x.place)] for x in interface.results],
        interface.structure,
    ]


def _interface_of(row: Any) -> Interface:
    memories, arguments, results, structure = row
    return Interface(
        tuple([Memory(AllocationKind(kind), *rest) for kind, *rest in memories]),
        tuple([Argument(label, _shape_of(shape), at) for label, shape, at in arguments]),
        tuple([ProgramResult(_shape_of(shape), BufferSlice(*place)) for shape, place in results]),
        _structure_of(structure),
    )
