"""Functions of arrays that NumPy and JAX have alike: a drawn program calls them by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from lowtide.records import dataclass

Arrays = Sequence[Any]


@dataclass(frozen=True, slots=True)
class ArrayFunction:
    """A function of a module like NumPy and so many arrays of one type and, with two, one shape.

    It takes arrays of these types, from so many dimensions on. With `is_smooth` it has a gradient.
    """

    call: Callable[..., Any]
    count: int = 1
    types: tuple[str, ...] = ("float32", "float64", "int32", "int64", "complex64")
    rank: int = 0
    is_smooth: bool = False


REAL: Final = ("float32", "float64", "int32", "int64", "uint8", "float16")
FLOAT: Final = ("float32", "float64")
ANY: Final = (*REAL, "complex64", "bool")

FUNCTIONS: Final[dict[str, ArrayFunction]] = {
    "add": ArrayFunction(lambda xp, x, y: x + y, 2, is_smooth=True),
    "subtract": ArrayFunction(lambda xp, x, y: x - y, 2, is_smooth=True),
    "multiply": ArrayFunction(lambda xp, x, y: x * y, 2, is_smooth=True),
    "maximum": ArrayFunction(lambda xp, x, y: xp.maximum(x, y), 2, REAL),
    "negative": ArrayFunction(lambda xp, x: -x, is_smooth=True),
    "absolute": ArrayFunction(lambda xp, x: abs(x), types=REAL),
    "square": ArrayFunction(lambda xp, x: x * x, is_smooth=True),
    "sin": ArrayFunction(lambda xp, x: xp.sin(x), types=FLOAT, is_smooth=True),
    "tanh": ArrayFunction(lambda xp, x: xp.tanh(x), types=FLOAT, is_smooth=True),
    "exp": ArrayFunction(lambda xp, x: xp.exp(-abs(x)), types=FLOAT),
    "sqrt": ArrayFunction(lambda xp, x: xp.sqrt(abs(x) + 1), types=FLOAT),
    "where": ArrayFunction(lambda xp, x, y: xp.where(x > y, x, -y), 2, FLOAT),
    "clip": ArrayFunction(lambda xp, x: xp.clip(x, 0, 2), types=REAL),
    "real": ArrayFunction(lambda xp, x: xp.real(x), types=("complex64",)),
    "imag": ArrayFunction(lambda xp, x: xp.imag(x), types=("complex64",)),
    "conj": ArrayFunction(lambda xp, x: xp.conj(x), types=("complex64",)),
    "to float32": ArrayFunction(lambda xp, x: x.astype("float32"), types=REAL),
    "to int32": ArrayFunction(lambda xp, x: x.astype("int32"), types=("int64", "uint8", "bool")),
    "to complex": ArrayFunction(lambda xp, x: x.astype("complex64"), types=("float32",)),
    "not": ArrayFunction(lambda xp, x: ~x, types=("bool", "int32", "uint8")),
    "and": ArrayFunction(lambda xp, x, y: x & y, 2, ("bool", "int32")),
    "less": ArrayFunction(lambda xp, x, y: x < y, 2, ("int32", "int64", "uint8")),
    "transpose": ArrayFunction(lambda xp, x: x.T, types=ANY),
    "swap": ArrayFunction(lambda xp, x: xp.swapaxes(x, 0, -1), types=ANY, rank=2),
    "reshape": ArrayFunction(lambda xp, x: x.reshape(-1), types=ANY),
    "reshape back": ArrayFunction(lambda xp, x: x.reshape((1, *x.shape[::-1])), types=ANY, rank=1),
    "flip": ArrayFunction(lambda xp, x: x[::-1], types=ANY, rank=1),
    "first": ArrayFunction(lambda xp, x: x[0], types=ANY, rank=2),
    "tail": ArrayFunction(lambda xp, x: x[1:] if x.shape[0] > 2 else x, types=ANY, rank=1),
    "every second": ArrayFunction(lambda xp, x: x[..., ::2], types=ANY, rank=1),
    "wider": ArrayFunction(lambda xp, x: x[..., None], types=ANY),
    "roll": ArrayFunction(lambda xp, x: xp.roll(x, 1, 0), types=ANY, rank=1),
    "pad": ArrayFunction(lambda xp, x: xp.pad(x, ((1, 2), *((0, 1),) * (x.ndim - 1))), rank=1),
    "join": ArrayFunction(lambda xp, x, y: xp.concatenate([x, y], 0), 2, ANY, 1),
    "stack": ArrayFunction(lambda xp, x, y: xp.stack([x, y], -1), 2, ANY),
    "repeat": ArrayFunction(lambda xp, x: xp.repeat(x, 2, 0), types=ANY, rank=1),
    "tile": ArrayFunction(lambda xp, x: xp.tile(x, 2), types=ANY, rank=1),
    "take": ArrayFunction(
        lambda xp, x: xp.take(x, xp.array([0, -1, 0]), axis=0), types=ANY, rank=1
    ),
    "triangle": ArrayFunction(lambda xp, x: xp.tril(x), rank=2),
    "sum": ArrayFunction(lambda xp, x: x.sum(0, dtype=x.dtype), rank=1, is_smooth=True),
    "sum all": ArrayFunction(lambda xp, x: x.sum(dtype=x.dtype), rank=1, is_smooth=True),
    "mean": ArrayFunction(lambda xp, x: x.mean(-1), types=FLOAT, rank=1, is_smooth=True),
    "largest": ArrayFunction(lambda xp, x: x.max(-1), types=REAL, rank=1),
    "running sum": ArrayFunction(lambda xp, x: xp.cumsum(x, 0, dtype=x.dtype), rank=1),
    "sort": ArrayFunction(lambda xp, x: xp.sort(x, -1), types=REAL, rank=1),
    "differences": ArrayFunction(lambda xp, x: xp.diff(x, axis=-1), types=REAL[:4], rank=1),
    "product": ArrayFunction(
        lambda xp, x, y: x @ xp.swapaxes(y, -1, -2), 2, rank=2, is_smooth=True
    ),
    "outer": ArrayFunction(lambda xp, x: xp.outer(x[..., 0], x[0]), rank=2, is_smooth=True),
}
"""By name. Whether elements are rounded does not change what any of them picks."""
