"""Programs as bytes: a mark, a version, a checksum, a header in JSON, then code and constants.

The checksum finds damage, not malice: a program is machine code, to be taken from whom one trusts.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any, Final

import numpy as np

from lowtide.ir.element_type import ElementType
from lowtide.ir.errors import InputError, LowtideError
from lowtide.ir.shape import TOKEN, Layout, Shape, array_shape
from lowtide.ir.thunk import (
    BundleThunk,
    CollectiveThunk,
    ConditionalThunk,
    CopyThunk,
    HostCallThunk,
    KernelEntry,
    KernelThunk,
    Thunk,
    WhileThunk,
)
from lowtide.llvm.target import Target
from lowtide.records.rows import RowForm, RowForms
from lowtide.runtime.cpu.arguments import major_to_minor
from lowtide.runtime.cpu.places import check_places
from lowtide.runtime.cpu.program import Interface, NativeProgram, Structure

MARK: Final = b"lowtide program\n"
VERSION: Final = 7
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
            "target": _FORMS.of(Target).write(program.target),
            "threads": program.threads,
            "devices": [program.replicas, program.partitions],
            "thunks": _THUNKS.write(program.thunks),
            "kernels": _KERNELS.write(program.kernels),
            "interface": _INTERFACE.write(program.interface),
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
    replicas, partitions = header["devices"]
    return NativeProgram(
        _FORMS.of(str).read(header["name"]),
        _FORMS.of(Target).read(header["target"]),
        header["threads"],
        _THUNKS.read(header["thunks"]),
        _KERNELS.read(header["kernels"]),
        tuple([bytes(x) for x in blobs[:count]]),
        _INTERFACE.read(header["interface"]),
        tuple(zip(header["constants"], values, strict=True)),
        replicas,
        partitions,
        tuple(zip(parts, texts, strict=True)),
    )


# -- rows of the header ------------------------------------------------------------------------


def _shape(shape: Shape) -> list[Any] | None:
    if shape.is_token:
        return None
    order = list(reversed(major_to_minor(shape)))
    return [shape.element_type.value, list(shape.dimensions), order]


def _shape_of(row: Any) -> Shape:
    if row is None:
        return TOKEN
    element_type, dimensions, order = row
    return array_shape(ElementType(element_type), tuple(dimensions), Layout(tuple(order)))


def _structure_of(found: Any) -> Structure:
    return tuple([_structure_of(x) for x in found]) if isinstance(found, list) else found


_FORMS: Final = RowForms(
    {Shape: RowForm(_shape, _shape_of), Structure: RowForm(lambda x: x, _structure_of)},
    {
        KernelThunk: "kernel",
        CopyThunk: "copy",
        WhileThunk: "while",
        ConditionalThunk: "conditional",
        HostCallThunk: "host",
        CollectiveThunk: "collective",
        BundleThunk: "bundle",
    },
)
_THUNKS: Final = _FORMS.of(tuple[Thunk, ...])
_KERNELS: Final = _FORMS.of(tuple[KernelEntry, ...])
_INTERFACE: Final = _FORMS.of(Interface)
