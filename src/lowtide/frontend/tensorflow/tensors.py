"""Arrays of TensorFlow's tensors."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from lowtide.frontend.graphs.graph import GraphError
from lowtide.frontend.tensorflow.dtypes import type_of
from lowtide.ir.element_type import ElementType
from lowtide.ir.literal import DTYPES, Array
from lowtide.ir.shape import can_be_array

_LARGEST_BYTES: Final = 1 << 31
"""What a message can hold at most; a tensor of one repeated value is not to exceed it either."""

_E = ElementType
_FIELDS: Final = {
    _E.F32: "float_val",
    _E.F64: "double_val",
    _E.PRED: "bool_val",
    _E.S4: "int_val",
    _E.S8: "int_val",
    _E.S16: "int_val",
    _E.S32: "int_val",
    _E.U4: "int_val",
    _E.U8: "int_val",
    _E.U16: "int_val",
    _E.S64: "int64_val",
    _E.U32: "uint32_val",
    _E.U64: "uint64_val",
    _E.F16: "half_val",
    _E.BF16: "half_val",
    _E.C64: "scomplex_val",
    _E.C128: "dcomplex_val",
    _E.F8E5M2: "float8_val",
    _E.F8E4M3FN: "float8_val",
}
"""Where the values of a type stand that are not given as bytes."""


def sizes_of(shape: Any) -> tuple[int, ...] | None:
    """Return the sizes in a TensorShapeProto, -1 for an unknown one; None for no rank."""
    return None if shape.unknown_rank else tuple([dim.size for dim in shape.dim])


def array_of(tensor: Any, node: str) -> Array:
    """Return the value of a TensorProto; text is an array of objects, each of them bytes.

    The last of too few values counts for the rest. Raises GraphError, with the node, for a type
    that there is not and for data that do not fit.
    """
    kind = type_of(tensor.dtype)
    sizes = sizes_of(tensor.tensor_shape)
    if sizes is None or min(sizes, default=0) < 0:
        raise GraphError(f"node {node!r}: a tensor has the unknown sizes {sizes}")
    if kind != "string" and (not isinstance(kind, ElementType) or kind not in _FIELDS):
        raise GraphError(f"node {node!r}: a tensor is of type {kind}, which no array is")
    dtype = DTYPES[kind] if isinstance(kind, ElementType) else np.dtype(object)
    if not can_be_array(sizes, dtype.itemsize):
        raise GraphError(f"node {node!r}: no array has the sizes {list(sizes)}")
    if math.prod(sizes) * dtype.itemsize > _LARGEST_BYTES:
        raise GraphError(f"node {node!r}: a tensor of sizes {list(sizes)} is over 2 GiB")
    if not isinstance(kind, ElementType):
        return _filled(np.array([*tensor.string_val, b""][: math.prod(sizes)], object), sizes, node)
    if tensor.tensor_content:
        return _from_bytes(tensor.tensor_content, dtype, sizes, node)
    return _filled(_listed(tensor, kind), sizes, node)


def _from_bytes(data: bytes, dtype: np.dtype[Any], sizes: tuple[int, ...], node: str) -> Array:
    needed = math.prod(sizes) * dtype.itemsize
    if len(data) != needed:
        message = (
            f"node {node!r}: a tensor of sizes {list(sizes)} has {len(data)} bytes, {needed} needed"
        )
        raise GraphError(message)
    return np.frombuffer(data, dtype).reshape(sizes)


def _listed(tensor: Any, kind: ElementType) -> Array:
    dtype, values = DTYPES[kind], getattr(tensor, _FIELDS[kind])
    if kind.is_complex:
        return np.array(values, dtype.type(0).real.dtype).view(dtype)
    if isinstance(values, bytes):
        return np.frombuffer(values, dtype)
    if _FIELDS[kind] == "half_val":
        return np.array(values, np.int64).astype(np.uint16).view(dtype)
    return np.array(values, np.int64 if _FIELDS[kind] == "int_val" else dtype).astype(dtype)


def _filled(values: Array, sizes: tuple[int, ...], node: str) -> Array:
    count = math.prod(sizes)
    if len(values) > count:
        message = f"node {node!r}: a tensor of sizes {list(sizes)} has {len(values)} values"
        raise GraphError(message)
    result = np.zeros(count, values.dtype)
    result[: len(values)] = values
    if len(values):
        result[len(values) :] = values[-1]
    return result.reshape(sizes)
