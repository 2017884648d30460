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


def _softmax(xp: Any, x: Any) -> Any:
    shares = xp.exp(x - x.max(-1, keepdims=True))
    return shares / shares.sum(-1, keepdims=True)


def _normalized(xp: Any, x: Any) -> Any:
    off = x - x.mean(-1, keepdims=True)
    return off / xp.sqrt((off * off).mean(-1, keepdims=True) + x.dtype.type(0.125))


def _attended(xp: Any, x: Any, y: Any) -> Any:
    """Rows of `y`, each row of `x` a mean of those up to its place that are like it."""
    scores = x @ xp.swapaxes(y, -1, -2) / x.dtype.type(8)
    rows, columns = xp.arange(x.shape[-2])[:, None], xp.arange(y.shape[-2])
    return _softmax(xp, xp.where(rows >= columns, scores, x.dtype.type(-1e9))) @ y


def _turned(xp: Any, x: Any) -> Any:
    """Halves of rows turned by an angle that grows along the rows."""
    half = x.shape[-1] // 2
    angles = xp.arange(x.shape[-2], dtype=x.dtype)[:, None] * x.dtype.type(0.125)
    a, b = x[..., :half], x[..., half : 2 * half]
    parts = [a * xp.cos(angles) - b * xp.sin(angles), b * xp.cos(angles) + a * xp.sin(angles)]
    return xp.concatenate(parts, -1)


def _gelu(xp: Any, x: Any) -> Any:
    inner = x.dtype.type(0.75) * (x + x.dtype.type(0.0625) * x * x * x)
    return x.dtype.type(0.5) * x * (xp.tanh(inner) + x.dtype.type(1))


def _one_hot(xp: Any, x: Any) -> Any:
    return (x[..., None] == xp.arange(9, dtype=x.dtype)).astype("float32")


def _rows_of(xp: Any, x: Any, y: Any) -> Any:
    return xp.take(x, abs(y[..., 0].astype("int64")) % x.shape[0], axis=0)


def _along(xp: Any, x: Any, y: Any) -> Any:
    return xp.take_along_axis(x, abs(y.astype("int64")) % x.shape[-1], axis=-1)


def _spectrum(xp: Any, x: Any) -> Any:
    return xp.abs(xp.fft.rfft(x, axis=-1)).astype(x.dtype)


def _filtered(xp: Any, x: Any) -> Any:
    return xp.fft.ifft(xp.fft.fft(x, axis=0), axis=0).astype(x.dtype)


def _window_sums(xp: Any, x: Any) -> Any:
    return sum([xp.roll(x, shift, -1) for shift in range(1, 5)], x)


def _solved(xp: Any, x: Any) -> Any:
    square = xp.swapaxes(x, -1, -2) @ x
    far = xp.eye(x.shape[-1], dtype=x.dtype) * x.dtype.type(x.shape[-2] + 1)
    return xp.linalg.solve(square + far, xp.swapaxes(x, -1, -2))


def _updated(xp: Any, x: Any, y: Any) -> Any:
    """Rows of `x` with those of `y` added where `y` says, beyond the end nowhere."""
    places = abs(y[..., 0].astype("int64")) % (x.shape[0] + 1)
    if hasattr(x, "at"):
        return x.at[places].add(y, mode="drop")
    made, is_inside = x.copy(), places < x.shape[0]
    xp.add.at(made, places[is_inside], y[is_inside])
    return made


def _top(xp: Any, x: Any) -> Any:
    return xp.sort(x, -1)[..., ::-1][..., :3]


def _counted(xp: Any, x: Any) -> Any:
    numbers = abs(x.reshape(-1).astype("int64")) % 17
    said = {"length": 17} if hasattr(x, "at") else {"minlength": 17}
    return xp.bincount(numbers, **said).astype(x.dtype)


def _convolved(xp: Any, x: Any) -> Any:
    """The first row beside the first three of its own elements, each place the sum of products."""
    row = x.reshape(-1)[:100]
    return xp.convolve(row, row[:3], mode="same")


def _masked_mean(xp: Any, x: Any) -> Any:
    """The mean of squares of what lies above 0 in each row, as a loss has it: masked twice."""
    mask = (x > 0).astype(x.dtype)
    return (xp.where(x > 0, x * x, 0) * mask).sum(-1) / x.dtype.type(x.shape[-1] + 1)


def _likelihoods(xp: Any, x: Any) -> Any:
    """Logarithms of the shares of each row, each at a place of its own."""
    moved = x - x.max(-1, keepdims=True)
    shares = moved - xp.log(xp.exp(moved).sum(-1, keepdims=True))
    rows = shares.reshape((-1, x.shape[-1]))
    places = xp.arange(len(rows)) * 5 % x.shape[-1]
    return xp.take_along_axis(rows, places[:, None], axis=-1)[:, 0]


def _outer(xp: Any, x: Any) -> Any:
    return xp.outer(x[..., 0].reshape(-1)[:_LONGEST], x[0].reshape(-1)[:_LONGEST])


_LONGEST: Final = 600
"""The most elements of a vector whose product with another one is made."""

REAL: Final = ("float32", "float64", "int32", "int64", "uint8", "float16")
FLOAT: Final = ("float32", "float64")
INTEGER: Final = ("int32", "int64", "uint8")
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
    "softmax": ArrayFunction(_softmax, types=FLOAT, rank=1, is_smooth=True),
    "normalized": ArrayFunction(_normalized, types=FLOAT, rank=1, is_smooth=True),
    "attended": ArrayFunction(_attended, 2, FLOAT, 2, is_smooth=True),
    "turned": ArrayFunction(_turned, types=FLOAT, rank=2, is_smooth=True),
    "gelu": ArrayFunction(_gelu, types=FLOAT, is_smooth=True),
    "one hot": ArrayFunction(_one_hot, types=INTEGER),
    "rows of": ArrayFunction(_rows_of, 2, INTEGER, 2),
    "along": ArrayFunction(_along, 2, INTEGER, 1),
    "order": ArrayFunction(lambda xp, x: xp.argsort(x, -1, stable=True), types=INTEGER, rank=1),
    "place": ArrayFunction(lambda xp, x: xp.argmax(x, -1), types=INTEGER, rank=1),
    "found": ArrayFunction(
        lambda xp, x: xp.searchsorted(xp.sort(x.reshape(-1)), x[-1]), types=INTEGER, rank=1
    ),
    "variance": ArrayFunction(lambda xp, x: x.var(-1), types=FLOAT, rank=1, is_smooth=True),
    "spectrum": ArrayFunction(_spectrum, types=FLOAT, rank=1),
    "filtered": ArrayFunction(_filtered, types=("complex64",), rank=1),
    "window sums": ArrayFunction(_window_sums, types=FLOAT, rank=1, is_smooth=True),
    "solved": ArrayFunction(_solved, types=FLOAT, rank=2),
    "updated": ArrayFunction(_updated, 2, INTEGER, 2),
    "top": ArrayFunction(_top, types=REAL, rank=1),
    "counted": ArrayFunction(_counted, types=("int32", "int64")),
    "convolved": ArrayFunction(_convolved, types=FLOAT, rank=1, is_smooth=True),
    "smallest of all": ArrayFunction(lambda xp, x: x.min(), types=REAL),
    "all of": ArrayFunction(lambda xp, x: x.all(0), types=("bool", "int32", "float32"), rank=1),
    "product of": ArrayFunction(lambda xp, x: x.prod(-1, dtype=x.dtype), types=INTEGER, rank=1),
    "quotient": ArrayFunction(lambda xp, x, y: x // (abs(y) % 7 + 1), 2, INTEGER),
    "rest": ArrayFunction(lambda xp, x, y: x % (abs(y) % 7 + 1), 2, INTEGER),
    "moved": ArrayFunction(lambda xp, x: xp.moveaxis(x, 0, -1), types=ANY, rank=3),
    "outer": ArrayFunction(_outer, rank=2, is_smooth=True),
    "masked mean": ArrayFunction(_masked_mean, types=FLOAT, rank=1, is_smooth=True),
    "likelihoods": ArrayFunction(_likelihoods, types=FLOAT, rank=1, is_smooth=True),
    "bits": ArrayFunction(lambda xp, x: x.view("uint8"), types=("int32", "int64"), rank=1),
    "halves": ArrayFunction(lambda xp, x: x.astype("float16"), types=("float32",)),
    "bytes": ArrayFunction(lambda xp, x: x.astype("uint8"), types=("int32", "int64")),
    "powers": ArrayFunction(lambda xp, x: xp.power(abs(x) + 1, 3), types=FLOAT),
    "sign": ArrayFunction(lambda xp, x: xp.sign(x), types=("int32", "int64")),
    "shifted": ArrayFunction(lambda xp, x: (x << 3) ^ (x >> 1), types=("int32", "int64")),
}
"""By name. Whether elements are rounded does not change what any of them picks."""
