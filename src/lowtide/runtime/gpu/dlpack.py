"""Arrays of a device in DLPack's form: capsules made and taken apart, by ctypes."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Final, final

import ml_dtypes
import numpy as np

from lowtide.ir.errors import InputError
from lowtide.records import dataclass


class _Device(ctypes.Structure):
    _fields_ = (("kind", ctypes.c_int32), ("number", ctypes.c_int32))


class _Type(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("rank", ctypes.c_int32),
        ("type", _Type),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("steps", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    _fields_ = (
        ("tensor", _Tensor),
        ("context", ctypes.c_void_p),
        ("delete", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
    )


_NAME, _USED = b"dltensor", b"used_dltensor"

_CODES: Final = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_BFLOAT: Final = 4
_BOOLEAN: Final = 6

_python: Final = ctypes.pythonapi
_python.PyCapsule_New.restype = ctypes.py_object
_python.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_python.PyCapsule_IsValid.argtypes = [ctypes.py_object, ctypes.c_char_p]
_python.PyCapsule_GetPointer.restype = ctypes.c_void_p
_python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_python.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]


@dataclass(frozen=True, slots=True)
class SharedTensor:
    """An array as DLPack tells it; `steps` are counted in elements, none for row major."""

    address: int
    device: tuple[int, int]
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    steps: Sequence[int]


_held: Final[dict[int, tuple[Any, ...]]] = {}
"""What has been handed out, by the address of its record, until whoever has it gives it back."""


def _drop(address: int) -> None:
    _held.pop(address, None)


def _drop_unused(capsule: int) -> None:
    """Give back what a capsule holds that nobody has taken."""
    found = ctypes.cast(capsule, ctypes.py_object)
    if _python.PyCapsule_IsValid(found, _NAME):
        _held.pop(_python.PyCapsule_GetPointer(found, _NAME), None)


_CALLED: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_delete, _forget = _CALLED(_drop), _CALLED(_drop_unused)


def capsule_of(shared: SharedTensor, owner: Any) -> Any:
    """Return a capsule of an array, whose owner is kept as long as whoever takes it needs it.

    Raises InputError for a type that DLPack does not have.
    """
    rank = len(shared.shape)
    shape, steps = [(ctypes.c_int64 * max(rank, 1))(*x) for x in (shared.shape, shared.steps)]
    tensor = _Tensor(
        shared.address,
        _Device(*shared.device),
        rank,
        _type_of(shared.dtype),
        ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64)),
        ctypes.cast(steps, ctypes.POINTER(ctypes.c_int64)),
        0,
    )
    managed = _Managed(tensor, None, _delete)
    address = ctypes.addressof(managed)
    _held[address] = managed, shape, steps, owner
    return _python.PyCapsule_New(address, _NAME, ctypes.cast(_forget, ctypes.c_void_p))


def _type_of(dtype: np.dtype[Any]) -> _Type:
    if dtype == ml_dtypes.bfloat16:
        return _Type(_BFLOAT, 16, 1)
    if dtype.kind not in _CODES or dtype.isbuiltin != 1:  # Others call themselves floats, too.
        raise InputError(f"DLPack has no type {dtype}")
    return _Type(_CODES[dtype.kind], 8 * dtype.itemsize, 1)


@final
class Taken:
    """An array that came in a capsule, given back when nobody holds this."""

    def __init__(self, managed: _Managed, address: int) -> None:
        self._managed, self._address = managed, address
        tensor = managed.tensor
        sizes = tuple(tensor.shape[: tensor.rank])
        steps = tuple(tensor.steps[: tensor.rank]) if tensor.steps else ()
        place = (tensor.device.kind, tensor.device.number)
        start = (tensor.data or 0) + tensor.offset
        self.shared = SharedTensor(start, place, _dtype_of(tensor.type), sizes, steps)

    def __del__(self) -> None:
        if self._managed.delete:
            self._managed.delete(self._address)


def taken(capsule: Any) -> Taken:
    """Return what a capsule holds, which is nobody else's then; raises InputError."""
    if not _python.PyCapsule_IsValid(capsule, _NAME):
        raise InputError("a capsule of DLPack that is used already, or of a version not known")
    address = _python.PyCapsule_GetPointer(capsule, _NAME)
    found = Taken(_Managed.from_address(address), address)
    _python.PyCapsule_SetName(capsule, _USED)
    return found


def _dtype_of(type_: _Type) -> np.dtype[Any]:
    if type_.code == _BFLOAT and type_.bits == 16:
        bfloat: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return bfloat
    if type_.code == _BOOLEAN:
        return np.dtype(np.bool_)
    kinds = {code: kind for kind, code in _CODES.items()}
    if type_.code not in kinds or type_.lanes != 1 or type_.bits % 8:
        raise InputError(f"DLPack's type {type_.code} of {type_.bits} bits is not known")
    return np.dtype(f"{kinds[type_.code]}{type_.bits // 8}")
