"""Functions of arrays that NumPy and JAX have alike: a drawn program calls them by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from lowtide.records import dataclass

Arrays = Sequence[Any]


@dataclass(frozen=True, slots=True)
class Function:
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

FUNCTIONS: Final[dict[str, Function]] = {
    "add": Function(lambda xp, x, y: x + y, 2, is_smooth=True),
    "subtract": Function(lambda xp, x, y: x - y, 2, is_smooth=True),
    "multiply": Function(lambda xp, x, y: x * y, 2, is_smooth=True),
    "maximum": Function(lambda xp, x, y: xp.maximum(x, y), 2, REAL),
    "negative": Function(lambda xp, x: -x, is_smooth=True),
    "absolute": Function(lambda xp, x: abs(x), types=REAL),
    "square": Function(lambda xp, x: x * x, is_smooth=True),
    "sin": Function(lambda xp, x: xp.sin(x), types=FLOAT, is_smooth=True),
    "tanh": Function(lambda xp, x: xp.tanh(x), types=FLOAT, is_smooth=True),
    "exp": Function(lambda xp, x: xp.exp(-abs(x)), types=FLOAT),
    "sqrt": Function(lambda xp, x: xp.sqrt(abs(x) + 1), types=FLOAT),
    "where": Function(lambda xp, x, y: xp.where(x > y, x, -y), 2, FLOAT),
    "clip": Function(lambda xp, x: xp.clip(x, 0, 2), types=REAL),
    "real": Function(lambda xp, x: xp.real(x), types=("complex64",)),
    "imag": Function(lambda xp, x: xp.imag(x), types=("complex64",)),
    "conj": Function(lambda xp, x: xp.conj(x), types=("complex64",)),
    "to float32": Function(lambda xp, x: x.astype("float32"), types=REAL),
    "to int32": Function(lambda xp, x: x.astype("int32"), types=("int64", "uint8", "bool")),
    "to complex": Function(lambda xp, x: x.astype("complex64"), types=("float32",)),
    "not": Function(lambda xp, x: ~x, types=("bool", "int32", "uint8")),
    "and": Function(lambda xp, x, y: x & y, 2, ("bool", "int32")),
    "less": Function(lambda xp, x, y: x < y, 2, ("int32", "int64", "uint8")),
    "transpose": Function(lambda xp, x: x.T, types=ANY),
    "swap": Function(lambda xp, x: xp.swapaxes(x, 0, -1), types=ANY, rank=2),
    "reshape": Function(lambda xp, x: x.reshape(-1), types=ANY),
    "reshape back": Function(lambda xp, x: x.reshape((1, *x.shape[::-1])), types=ANY, rank=1),
    "flip": Function(lambda xp, x: x[::-1], types=ANY, rank=1),
    "first": Function(lambda xp, x: x[0], types=ANY, rank=2),
    "tail": Function(lambda xp, x: x[1:] if x.shape[0] > 2 else x, types=ANY, rank=1),
    "every second": Function(lambda xp, x: x[..., ::2], types=ANY, rank=1),
    "wider": Function(lambda xp, x: x[..., None], types=ANY),
    "roll": Function(lambda xp, x: xp.roll(x, 1, 0), types=ANY, rank=1),
    "pad": Function(lambda xp, x: xp.pad(x, ((1, 2), *((0, 1),) * (x.ndim - 1))), rank=1),
    "join": Function(lambda xp, x, y: xp.concatenate([x, y], 0), 2, ANY, 1),
    "stack": Function(lambda xp, x, y: xp.stack([x, y], -1), 2, ANY),
    "repeat": Function(lambda xp, x: xp.repeat(x, 2, 0), types=ANY, rank=1),
    "tile": Function(lambda xp, x: xp.tile(x, 2), types=ANY, rank=1),
    "take": Function(lambda xp, x: xp.take(x, xp.array([0, -1, 0]), axis=0), types=ANY, rank=1),
    "triangle": Function(lambda xp, x: xp.tril(x), rank=2),
    "sum": Function(lambda xp, x: x.sum(0, dtype=x.dtype), rank=1, is_smooth=True),
    "sum all": Function(lambda xp, x: x.sum(dtype=x.dtype), rank=1, is_smooth=True),
    "mean": Function(lambda xp, x: x.mean(-1), types=FLOAT, rank=1, is_smooth=True),
    "largest": Function(lambda xp, x: x.max(-1), types=REAL, rank=1),
    "running sum": Function(lambda xp, x: xp.cumsum(x, 0, dtype=x.dtype), rank=1),
    "sort": Function(lambda xp, x: xp.sort(x, -1), types=REAL, rank=1),
    "differences": Function(lambda xp, x: xp.diff(x, axis=-1), types=REAL[:4], rank=1),
    "product": Function(lambda xp, x, y: x @ y.T, 2, rank=2, is_smooth=True),
    "outer": Function(lambda xp, x: xp.outer(x[..., 0], x[0]), rank=2, is_smooth=True),
}
"""By name. Whether elements are rounded does not change what any of them picks."""
