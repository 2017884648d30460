"""TFLite models from what is listed of them: tensors, operators, and the tables around them."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Final

import numpy as np

from lowtide.frontend.tflite.model import TYPE_BITS
from lowtide.frontend.tflite.operator_names import OPERATOR_NAMES
from lowtide.micro.prefix import Prefix, Scalar
from lowtide.records import dataclass

_OPTIONS: Final = {
    "CONV_2D": 1,
    "DEPTHWISE_CONV_2D": 2,
    "AVERAGE_POOL_2D": 5,
    "MAX_POOL_2D": 5,
    "FULLY_CONNECTED": 8,
    "SOFTMAX": 9,
    "CONCATENATION": 10,
    "ADD": 11,
    "L2_NORMALIZATION": 12,
    "RESIZE_BILINEAR": 15,
    "RESHAPE": 17,
    "SPACE_TO_DEPTH": 19,
    "MUL": 21,
    "PAD": 22,
    "GATHER": 23,
    "TRANSPOSE": 26,
    "MEAN": 27,
    "REDUCE_MAX": 27,
    "SUM": 27,
    "SUB": 28,
    "DIV": 29,
    "STRIDED_SLICE": 32,
    "RESIZE_NEAREST_NEIGHBOR": 74,
    "LEAKY_RELU": 75,
    "MIRROR_PAD": 77,
    "DEPTH_TO_SPACE": 94,
    "BATCH_MATMUL": 101,
    "CUMSUM": 102,
}
"""By operator the number of its table of options in the schema's union."""


@dataclass(frozen=True, slots=True)
class LiteTensorText:
    """A tensor: NumPy's name of its type, its sizes, its scale and zero point, its values if any.

    A scale of 0 is none.
    """

    type: str
    sizes: tuple[int, ...]
    scale: float = 0.0
    zero: int = 0
    values: Any = None


@dataclass(frozen=True, slots=True)
class DraftOperator:
    """An operator of tensors by number; `options` are numbers by the fields of its table."""

    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Mapping[int, float] = field(default_factory=dict)


def lite_model(
    tensors: Sequence[LiteTensorText],
    operators: Sequence[DraftOperator],
    inputs: Sequence[int],
    outputs: Sequence[int],
) -> bytes:
    """Return the file of a model with one subgraph."""
    codes = list(dict.fromkeys([x.name for x in operators]))
    prefix = Prefix(b"TFL3")
    prefix.table("root", {0: Scalar(3), 1: "codes", 2: "graphs", 4: "buffers"})
    prefix.vector("codes", [f"code{i}" for i in range(len(codes))])
    for i, name in enumerate(codes):
        code = OPERATOR_NAMES.index(name)
        prefix.table(f"code{i}", {0: Scalar(min(code, 127)), 2: Scalar(1), 3: Scalar(code)})
    prefix.vector("graphs", ["g"])
    prefix.table("g", {x: f"g.{x}" for x in range(5)})
    prefix.vector("g.0", [f"t{i}" for i in range(len(tensors))])
    prefix.content("g.1", _numbers(inputs), 4)
    prefix.content("g.2", _numbers(outputs), 4)
    prefix.vector("g.3", [f"o{i}" for i in range(len(operators))])
    prefix.content("g.4", b"main")
    buffers = [b""]
    for i, tensor in enumerate(tensors):
        _add_tensor(prefix, f"t{i}", tensor, buffers)
    for i, operator in enumerate(operators):
        _add_operator(prefix, f"o{i}", operator, codes.index(operator.name))
    _add_buffers(prefix, buffers)
    return prefix.before(b"")


def _numbers(values: Sequence[int]) -> bytes:
    return np.array(values, "<i4").tobytes()


def _add_tensor(prefix: Prefix, at: str, tensor: LiteTensorText, buffers: list[bytes]) -> None:
    code = list(TYPE_BITS).index(tensor.type.upper())
    fields: dict[int, Any] = {0: f"{at}.s", 1: Scalar(code), 2: Scalar(0), 3: f"{at}.n"}
    if tensor.values is not None:
        fields[2] = Scalar(len(buffers))
        buffers.append(np.asarray(tensor.values, tensor.type).tobytes())
    if tensor.scale:
        fields[4] = f"{at}.q"
    prefix.table(at, fields)
    prefix.content(f"{at}.s", _numbers(tensor.sizes), 4)
    prefix.content(f"{at}.n", at.encode())
    if tensor.scale:
        prefix.table(f"{at}.q", {2: f"{at}.scale", 3: f"{at}.zero", 6: Scalar(0)})
        prefix.content(f"{at}.scale", np.array([tensor.scale], "<f4").tobytes(), 4)
        prefix.content(f"{at}.zero", np.array([tensor.zero], "<i8").tobytes(), 8, alignment=8)


def _add_operator(prefix: Prefix, at: str, operator: DraftOperator, code: int) -> None:
    fields: dict[int, Any] = {0: Scalar(code), 1: f"{at}.i", 2: f"{at}.u"}
    union = _OPTIONS.get(operator.name)
    if union is not None:
        fields |= {3: Scalar(union), 4: f"{at}.p"}
    prefix.table(at, fields)
    prefix.content(f"{at}.i", _numbers(operator.inputs), 4)
    prefix.content(f"{at}.u", _numbers(operator.outputs), 4)
    if union is not None:
        prefix.table(f"{at}.p", {x: _number(y) for x, y in operator.options.items()})


def _add_buffers(prefix: Prefix, buffers: Sequence[bytes]) -> None:
    prefix.vector("buffers", [f"buffer{i}" for i in range(len(buffers))])
    for i, content in enumerate(buffers):
        prefix.table(f"buffer{i}", {0: f"data{i}"} if content else {})
        if content:
            prefix.content(f"data{i}", content, alignment=16)


def _number(value: float) -> Scalar:
    """A field of 32 bits; floats by their bits."""
    if isinstance(value, float):
        return Scalar(int(struct.unpack("<I", struct.pack("<f", value))[0]))
    return Scalar(int(value))
