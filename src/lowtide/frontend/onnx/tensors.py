"""Arrays of ONNX's tensors: inside of the model, or in files beside it, which are mapped."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lowtide.frontend.graphs.dtypes import ONNX
from lowtide.frontend.graphs.graph import GraphError
from lowtide.frontend.onnx.messages import EXTERNAL, STRING, package_onnx
from lowtide.frontend.onnx.wire import LENGTH_KEY, OFFSET_KEY
from lowtide.ir.element_type import ElementType
from lowtide.ir.literal import DTYPES, Array
from lowtide.records import dataclass

if TYPE_CHECKING:
    from onnx import SparseTensorProto, TensorProto


@dataclass(eq=False, slots=True)
class TensorSource:
    """Where tensors lie whose data is no part of their messages.

    `folder` is that of the model's file, None where it has none; `data` are the bytes of the model,
    from which long data was left out. `other_files` get the names of files in the folder that
    tensors lie in.
    """

    folder: Path | None = None
    data: Any = None
    other_files: set[str] = field(default_factory=set)


_OFFSETS: Final = ("offset", "length")

_LARGEST_DENSE: Final = 2**28
"""How many elements a sparse tensor may have, of which the file holds only some."""


def array_of(tensor: TensorProto, source: TensorSource) -> Array:
    """Return the value of a tensor; strings are an array of objects.

    External data is mapped from its file, which has to lie in `folder`, the model's own. Raises
    GraphError, with the tensor's name, for a type that there is not and for data that does not fit.
    """
    fields = {entry.key: entry.value for entry in tensor.external_data}
    raw = tensor.raw_data if tensor.HasField("raw_data") else None
    if OFFSET_KEY in fields and source.data is not None:
        raw = _left_out(tensor, source, fields)
    elif tensor.data_location == EXTERNAL:
        found = _mapped(tensor, source, fields)
        source.other_files.add(fields["location"])
        return found
    if tensor.data_type not in ONNX and tensor.data_type != STRING:
        raise GraphError(f"tensor {tensor.name!r} has the unknown element type {tensor.data_type}")
    if any(size < 0 for size in tensor.dims):
        raise GraphError(f"tensor {tensor.name!r} has the sizes {list(tensor.dims)}")
    try:
        if tensor.data_type == STRING:
            return _strings(tensor)
        return _numbers(tensor, raw)
    except (ValueError, TypeError, OverflowError, MemoryError) as error:
        message = f"tensor {tensor.name!r} of sizes {list(tensor.dims)} cannot be read: {error}"
        raise GraphError(message) from error


@dataclass(frozen=True, slots=True)
class RawPlace:
    """Where the elements of a tensor begin that lie there as arrays have them.

    That is in a file of the model's folder, "" for the model itself.
    """

    file: str
    begin: int


def raw_place(tensor: TensorProto, value: Array) -> RawPlace | None:
    """Return where the elements of a value lie that `array_of` has read; None for elsewhere."""
    fields = {entry.key: entry.value for entry in tensor.external_data}
    if tensor.data_type not in ONNX or ONNX[tensor.data_type].bits < _BYTE:
        return None
    if OFFSET_KEY in fields:
        is_plain = value.nbytes == int(fields[LENGTH_KEY])
        return RawPlace("", int(fields[OFFSET_KEY])) if is_plain else None
    if tensor.data_location != EXTERNAL:
        return None
    return RawPlace(fields["location"], int(fields.get("offset", 0)))


_TYPED: Final = {
    ElementType.F32: ("float_data", np.float32),
    ElementType.F64: ("double_data", np.float64),
    ElementType.C64: ("float_data", np.float32),
    ElementType.C128: ("double_data", np.float64),
    ElementType.S64: ("int64_data", np.int64),
    ElementType.U64: ("uint64_data", np.uint64),
    ElementType.U32: ("uint64_data", np.uint64),
}
"""The fields that have numbers of a type, and what these are there. Others are in `int32_data`."""


def _numbers(tensor: TensorProto, raw: bytes | None) -> Array:
    """The value of a tensor of numbers, whose bytes are `raw` if it has such."""
    type_ = ONNX[tensor.data_type]
    sizes = tuple(tensor.dims)
    if type_.bits >= _BYTE and not tensor.HasField("segment"):
        expected = math.prod(sizes) * DTYPES[type_].itemsize
        if raw is not None and len(raw) != expected:
            raise ValueError(f"it has {len(raw):,} bytes, {expected:,} are expected of {type_}")
        found = _in_fields(tensor, type_) if raw is None else _of_little_end(raw, DTYPES[type_])
        return found.reshape(sizes)
    onnx = package_onnx()
    whole = onnx.TensorProto.FromString(tensor.SerializeToString())
    if raw is not None:
        whole.raw_data = raw
        whole.ClearField("external_data")
        whole.ClearField("data_location")
    return np.asarray(onnx.numpy_helper.to_array(whole))


def _in_fields(tensor: TensorProto, type_: ElementType) -> Array:
    """The numbers that a tensor has one by one: narrow ones as the low bits of integers."""
    dtype = DTYPES[type_]
    field_name, stored = _TYPED.get(type_, ("int32_data", np.int32))
    numbers = np.array(getattr(tensor, field_name), stored)
    if type_.is_complex:
        return numbers.view(dtype)
    if type_ in _TYPED:
        return numbers.astype(dtype, copy=False)
    return numbers.astype(f"u{dtype.itemsize}").view(dtype)


def _of_little_end(raw: bytes, dtype: np.dtype[Any]) -> Array:
    """The numbers of bytes; their type is `dtype` itself, which native code asks for."""
    if sys.byteorder == "little":
        return np.frombuffer(raw, dtype)
    return np.frombuffer(raw, dtype.newbyteorder("<")).astype(dtype)


_BYTE: Final = 8
"""Bits of an element from which on bytes have elements as arrays have them."""


def _strings(tensor: TensorProto) -> Array:
    values = np.empty(len(tensor.string_data), object)
    values[:] = [x.decode() for x in tensor.string_data]
    return values.reshape(tuple(tensor.dims))


def dense(sparse: SparseTensorProto, source: TensorSource) -> Array:
    """Return the value of a sparse tensor, its indices given as numbers or as vectors."""
    values, indices = array_of(sparse.values, source), array_of(sparse.indices, source)
    sizes = tuple(sparse.dims)
    if min(sizes, default=0) < 0 or math.prod(sizes) > _LARGEST_DENSE:
        raise GraphError(
            f"sparse tensor {sparse.values.name!r} of sizes {list(sizes)} cannot be read: "
            f"lowtide makes it dense, of {_LARGEST_DENSE:,} elements or fewer"
        )
    is_whole = indices.dtype.kind in "iu" and values.ndim == 1
    if not is_whole or indices.shape not in ((len(values),), (len(values), len(sizes))):
        raise GraphError(
            f"sparse tensor {sparse.values.name!r} has values of sizes {list(values.shape)} and "
            f"indices of {indices.dtype} and sizes {list(indices.shape)}: expected n values, and "
            f"whole numbers of sizes [n] or [n, {len(sizes)}]"
        )
    where = indices if indices.ndim == 1 else indices @ _strides(sizes)
    count = math.prod(sizes)
    if len(where) and not 0 <= where.min() <= where.max() < count:
        raise GraphError(f"sparse tensor {sparse.values.name!r} has indices that do not fit")
    result = np.zeros(count, values.dtype)
    result[where] = values
    return result.reshape(sizes)


def _strides(sizes: tuple[int, ...]) -> Array:
    return np.array([math.prod(sizes[i + 1 :]) for i in range(len(sizes))], np.int64)


def _left_out(tensor: TensorProto, source: TensorSource, fields: Mapping[str, str]) -> bytes:
    """The data that was left out of a tensor."""
    try:
        start, length = [int(fields[key]) for key in (OFFSET_KEY, LENGTH_KEY)]
    except (KeyError, ValueError) as error:
        raise GraphError(f"tensor {tensor.name!r} does not say where its data lies") from error
    if not 0 <= start <= start + length <= len(source.data):
        raise GraphError(f"the data of tensor {tensor.name!r} lies outside of the model")
    return bytes(source.data[start : start + length])


def _mapped(tensor: TensorProto, source: TensorSource, fields: Mapping[str, str]) -> Array:
    path = _confined(tensor, fields.get("location", ""), source.folder)
    if tensor.data_type not in ONNX:
        raise GraphError(f"external tensor {tensor.name!r} has the type {tensor.data_type}")
    element_type = ONNX[tensor.data_type]
    sizes = tuple(tensor.dims)
    needed = (math.prod(sizes) * element_type.bits + 7) // 8
    try:
        offset, length = [
            int(fields.get(key, default))
            for key, default in zip(_OFFSETS, (0, needed), strict=True)
        ]
        if offset < 0 or length != needed or min(sizes, default=0) < 0:
            raise ValueError(f"{length} bytes at {offset} are given, {needed} needed")
        stored: Any = np.uint8 if element_type.bits < 8 else DTYPES[element_type]
        count = needed if element_type.bits < 8 else math.prod(sizes)
        if not count:
            return np.zeros(sizes, DTYPES[element_type])
        values = np.memmap(path, stored, "r", offset, (count,))
    except (ValueError, OSError, OverflowError) as error:
        raise GraphError(
            f"external tensor {tensor.name!r} cannot be read from {path.name!r}: {error}"
        ) from error
    if element_type.bits < 8:
        return (
            _unpacked(values, element_type.bits, math.prod(sizes))
            .astype(DTYPES[element_type])
            .reshape(sizes)
        )
    return np.asarray(values).reshape(sizes)


def _unpacked(packed: Array, bits: int, count: int) -> Array:
    """Elements of 2 or 4 bits, the first one in the lowest bits of its byte."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    return ((packed[:, None] >> shifts) & ((1 << bits) - 1)).reshape(-1)[:count]


def _confined(tensor: TensorProto, location: str, folder: Path | None) -> Path:
    if folder is None:
        raise GraphError(
            f"tensor {tensor.name!r} lies in the file {location!r}; give the model by its path"
        )
    root = folder.resolve()
    try:
        path = (root / location).resolve()
    except (ValueError, OSError, RuntimeError):  # NUL, a name too long, links in a circle
        raise GraphError(
            f"external tensor {tensor.name!r} names {location!r}, which can be no file"
        ) from None
    if not location or not path.is_relative_to(root) or path == root:
        raise GraphError(
            f"external tensor {tensor.name!r} names {location!r}, which is outside of the folder "
            "of the model"
        )
    if not _is_plain(path):
        raise GraphError(
            f"external tensor {tensor.name!r} cannot be read from {path.name!r}: there is no plain "
            f"file of this name in {path.parent}, where the model has its data"
        )
    return path


def _is_plain(path: Path) -> bool:
    """Whether it is a file that ends: to open a pipe waits for who writes to it."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False
