"""DLPack: arrays of the platform shared with NumPy, PyTorch and others, both ways.

JAX takes arrays of others over by itself once it knows on which platform arrays of processors are
to be. What it hands out it makes in C++, which knows no platform but its own; so there the capsule
is NumPy's, in which the type is set where NumPy has no name for it. An array on a card is handed
out as what lies there.
"""

from __future__ import annotations

import ctypes
from ctypes import c_char_p, c_int32, c_int64, c_uint8, c_uint16, c_void_p
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lowtide.ir.errors import InputError
from lowtide.pjrt import PLATFORM
from lowtide.pjrt.devices import card

if TYPE_CHECKING:
    from lowtide.pjrt.card import Card

_PROCESSOR: Final = 1
"""The kind of device in DLPack: ordinary memory."""

_CODES: Final = {
    "bfloat16": 4,
    "float8_e3m4": 7,
    "float8_e4m3": 8,
    "float8_e4m3b11fnuz": 9,
    "float8_e4m3fn": 10,
    "float8_e4m3fnuz": 11,
    "float8_e5m2": 12,
    "float8_e5m2fnuz": 13,
    "float8_e8m0fnu": 14,
}
"""Codes of types that NumPy has not, by their names in ml_dtypes."""

_UNSIGNED: Final[dict[int, Any]] = {1: np.uint8, 2: np.uint16}
"""By bytes of an element the type in which such arrays go through NumPy."""


class _Tensor(ctypes.Structure):
    """The first part of what a capsule holds."""

    _fields_ = (
        ("data", c_void_p),
        ("device_kind", c_int32),
        ("device_number", c_int32),
        ("rank", c_int32),
        ("type_code", c_uint8),
        ("type_bits", c_uint8),
        ("type_lanes", c_uint16),
        ("sizes", ctypes.POINTER(c_int64)),
    )


class _Shared:
    """The memory of an array, which NumPy may hand on as one that is written to."""

    def __init__(self, array: Any) -> None:
        interface = array.__array_interface__
        address, _ = interface["data"]
        self.__array_interface__ = {**interface, "data": (address, False)}
        self._array = array


def capsule_of(array: Any) -> Any:
    """Return an array of JAX as a DLPack capsule over the same memory.

    Raises BufferError for a type that DLPack has no code for.
    """
    place = card()
    if place is not None and array.nbytes:
        return _of_card(place, array)
    values = np.asarray(array)
    name = values.dtype.name
    code = _CODES.get(name)
    if code is None and values.dtype.kind not in "biufc":
        raise BufferError(f"DLPack has no arrays of type {name}")
    if code is not None:
        values = values.view(_UNSIGNED[values.dtype.itemsize])
    capsule = np.asarray(_Shared(values)).__dlpack__()
    if code is not None:
        find = ctypes.pythonapi.PyCapsule_GetPointer
        find.restype, find.argtypes = c_void_p, [ctypes.py_object, c_char_p]
        _Tensor.from_address(find(capsule, b"dltensor")).type_code = code
    return capsule


def _of_card(place: Card, array: Any) -> Any:
    """A capsule of an array on a card, over its memory there, which nobody overwrites."""
    try:
        return place.array_at(array.unsafe_buffer_pointer()).__dlpack__()
    except InputError as error:
        raise BufferError(str(error)) from None


def _copy_of(array: Any) -> Any:
    """An array of JAX in memory of its own, of the same type, where numbers have 32 bits too."""
    from jax._src import lax

    library: Any = lax.lax
    return library._array_copy(array)


def register_dlpack(*, is_default: bool) -> None:
    """Have JAX hand out arrays of the platform, and put there what it takes over by default."""
    from jax._src import array as arrays
    from jax._src import dlpack
    from jaxlib import _jax

    known: Any = dlpack
    kinds = known.DLDeviceType
    if is_default:
        known._DL_DEVICE_TO_PLATFORM[kinds.kDLCPU] = PLATFORM
    library: Any = _jax
    kind: Any = arrays.ArrayImpl
    export, place = library.buffer_to_dlpack_managed_tensor, kind.__dlpack_device__
    take = library.dlpack_managed_tensor_to_buffer

    def handed_out(array: Any, stream: Any = None) -> Any:
        if array.platform() == PLATFORM:
            return capsule_of(array)
        return export(array, stream=stream)

    def taken(capsule: Any, device: Any, stream: Any, copy: bool | None, *rest: Any) -> Any:
        if not copy or device.client.platform != PLATFORM:
            return take(capsule, device, stream, copy, *rest)
        # JAX copies by a way of its own platforms. The owner may write once this is back.
        return _copy_of(take(capsule, device, stream, None, *rest)).block_until_ready()

    def placed(array: Any) -> Any:
        if array.platform() == PLATFORM and len(array.sharding.device_set) == 1:
            there = card()
            kind, number = (_PROCESSOR, 0) if there is None else there.driver.dlpack_device
            return kinds(kind), number
        return place(array)

    library.buffer_to_dlpack_managed_tensor = handed_out
    library.dlpack_managed_tensor_to_buffer = taken
    kind.__dlpack_device__ = placed
