"""The structures by which typed foreign functions are called, as XLA's header lays them out."""

from __future__ import annotations

import ctypes
from ctypes import c_char_p, c_int, c_int64, c_size_t, c_void_p
from typing import Any, Final

from lowtide.ir.element_type import ElementType

_NUMBERS: Final = """
pred=1 s8=2 s16=3 s32=4 s64=5 u8=6 u16=7 u32=8 u64=9 f16=10 f32=11 f64=12 c64=15 bf16=16 token=17
c128=18 f8e5m2=19 f8e4m3fn=20 s4=21 u4=22 f8e4m3b11fnuz=23 f8e5m2fnuz=24 f8e4m3fnuz=25 s2=26 u2=27
f8e4m3=28 f8e3m4=29 s1=30 u1=31 f4e2m1fn=32 f8e8m0fnu=33
"""

DATA_TYPES: Final = {
    ElementType(name): int(number) for name, number in [x.split("=") for x in _NUMBERS.split()]
}
"""The number of each element type."""

ARRAY, DICTIONARY, SCALAR, STRING = 1, 2, 3, 4
"""Kinds of attributes."""

BUFFER: Final = 1
"""The only kind of arguments and results."""

EXECUTE_STAGE: Final = 3

_HEAD: Final = (("struct_size", c_size_t), ("extension_start", c_void_p))


class FfiBuffer(ctypes.Structure):
    """An array: its type, its memory, its sizes."""

    _fields_ = (*_HEAD, ("type", c_int), ("data", c_void_p), ("rank", c_int64), ("sizes", c_void_p))


class FfiList(ctypes.Structure):
    """Arguments or results."""

    _fields_ = (*_HEAD, ("count", c_int64), ("kinds", c_void_p), ("items", c_void_p))


class FfiAttributes(ctypes.Structure):
    """Attributes, sorted by name."""

    _fields_ = (
        *_HEAD,
        ("count", c_int64),
        ("kinds", c_void_p),
        ("names", c_void_p),
        ("items", c_void_p),
    )


class FfiBytes(ctypes.Structure):
    """A string."""

    _fields_ = (("data", c_char_p), ("length", c_size_t))


class FfiScalar(ctypes.Structure):
    """A number."""

    _fields_ = (("type", c_int), ("value", c_void_p))


class FfiArray(ctypes.Structure):
    """An array of numbers among attributes."""

    _fields_ = (("type", c_int), ("count", c_size_t), ("data", c_void_p))


class FfiFrame(ctypes.Structure):
    """A call; its size, as functions check it, leaves out the last field."""

    _fields_ = (
        *_HEAD,
        ("api", c_void_p),
        ("context", c_void_p),
        ("stage", c_int),
        ("operands", FfiList),
        ("results", FfiList),
        ("attributes", FfiAttributes),
        ("future", c_void_p),
    )


FRAME_BYTES: Final[int] = FfiFrame.future.offset


class FfiErrorArguments(ctypes.Structure):
    """Arguments to make an error."""

    _fields_ = (*_HEAD, ("message", c_char_p), ("code", c_int))


class FfiErrorQuestion(ctypes.Structure):
    """Arguments to ask for the message of an error, or to let go of one."""

    _fields_ = (*_HEAD, ("error", c_void_p), ("message", c_char_p))


class FfiMemory(ctypes.Structure):
    """Arguments to get memory for the time of a call."""

    _fields_ = (
        *_HEAD,
        ("context", c_void_p),
        ("size", c_size_t),
        ("alignment", c_size_t),
        ("data", c_void_p),
    )


class FfiFreed(ctypes.Structure):
    """Arguments to give memory back."""

    _fields_ = (*_HEAD, ("context", c_void_p), ("size", c_size_t), ("data", c_void_p))


class FfiTask(ctypes.Structure):
    """Arguments to run a task."""

    _fields_ = (*_HEAD, ("context", c_void_p), ("task", c_void_p), ("data", c_void_p))


class FfiAnswer(ctypes.Structure):
    """Arguments to ask for a number or a pointer of a context."""

    _fields_ = (*_HEAD, ("context", c_void_p), ("answer", c_void_p))


class FfiFutureArguments(ctypes.Structure):
    """Arguments about a result that comes later."""

    _fields_ = (*_HEAD, ("future", c_void_p), ("error", c_void_p))


def sized(kind: Any, **fields: Any) -> Any:
    """Return a structure with its size and some fields set."""
    return kind(struct_size=ctypes.sizeof(kind), **fields)
