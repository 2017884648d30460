"""Programs bound by memory that `gpu.py` measures, at any number of rows and columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

SUM = """add {{
  a = {type}[] parameter(0)
  b = {type}[] parameter(1)
  ROOT r = {type}[] add(a, b)
}}

"""
LARGEST = """largest {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] maximum(a, b)
}

"""


@dataclass(frozen=True)
class Case:
    """A program of one part: its HLO, the least bytes it moves, the operations it does.

    `allowed` is the error relative to the greatest magnitude of a result that is no error.
    """

    part: str
    name: str
    text: str
    nbytes: int
    operations: int = 0
    allowed: float = 2e-5


def module_text(entry: str, before: str = "") -> str:
    """The text of a module of an entry computation, and computations that it names."""
    return f"HloModule m\n\n{before}ENTRY e {{\n{entry}}}\n"


def _multiply_add(rows: int, columns: int) -> Case:
    shape = f"f32[{rows},{columns}]"
    entry = (
        f"  x = {shape} parameter(0)\n  y = {shape} parameter(1)\n"
        f"  p = {shape} multiply(x, y)\n  ROOT r = {shape} add(p, x)\n"
    )
    return Case("bandwidth", "x * y + x, f32", module_text(entry), 3 * 4 * rows * columns)


def _silu(rows: int, columns: int) -> Case:
    shape = f"bf16[{rows},{columns}]"
    entry = (
        f"  x = {shape} parameter(0)\n  s = {shape} logistic(x)\n"
        f"  ROOT r = {shape} multiply(x, s)\n"
    )
    return Case("bandwidth", "silu, bf16", module_text(entry), 2 * 2 * rows * columns, allowed=1e-2)


def _bias(rows: int, columns: int) -> Case:
    shape = f"f32[{rows},{columns}]"
    entry = (
        f"  x = {shape} parameter(0)\n  b = f32[{columns}] parameter(1)\n"
        f"  w = {shape} broadcast(b), dimensions={{1}}\n  a = {shape} add(x, w)\n"
        f"  ROOT r = {shape} tanh(a)\n"
    )
    return Case("bandwidth", "tanh(x + bias), f32", module_text(entry), 2 * 4 * rows * columns)


def _transpose(rows: int, columns: int) -> Case:
    entry = (
        f"  x = f32[{rows},{columns}] parameter(0)\n"
        f"  ROOT r = f32[{columns},{rows}] transpose(x), dimensions={{1,0}}\n"
    )
    return Case(
        "bandwidth", "transpose, f32", module_text(entry), 2 * 4 * rows * columns, allowed=0.0
    )


def _reduced(dimensions: str, result: str, name: str) -> Callable[[int, int], Case]:
    def make(rows: int, columns: int) -> Case:
        sizes = result.format(rows=rows, columns=columns)
        entry = (
            f"  x = f32[{rows},{columns}] parameter(0)\n  z = f32[] constant(0)\n"
            f"  ROOT r = f32[{sizes}] reduce(x, z), dimensions={{{dimensions}}}, to_apply=add\n"
        )
        text = module_text(entry, SUM.format(type="f32"))
        return Case("bandwidth", name, text, 4 * rows * columns, allowed=1e-3)

    return make


def _softmax(rows: int, columns: int) -> Case:
    shape = f"f32[{rows},{columns}]"
    entry = (
        f"  x = {shape} parameter(0)\n  low = f32[] constant(-inf)\n  z = f32[] constant(0)\n"
        f"  m = f32[{rows}] reduce(x, low), dimensions={{1}}, to_apply=largest\n"
        f"  mw = {shape} broadcast(m), dimensions={{0}}\n  d = {shape} subtract(x, mw)\n"
        f"  e = {shape} exponential(d)\n"
        f"  s = f32[{rows}] reduce(e, z), dimensions={{1}}, to_apply=add\n"
        f"  sw = {shape} broadcast(s), dimensions={{0}}\n  ROOT r = {shape} divide(e, sw)\n"
    )
    text = module_text(entry, SUM.format(type="f32") + LARGEST)
    return Case("bandwidth", "softmax of rows, f32", text, 2 * 4 * rows * columns)


def _layer_norm(rows: int, columns: int) -> Case:
    shape = f"f32[{rows},{columns}]"
    entry = (
        f"  x = {shape} parameter(0)\n  g = f32[{columns}] parameter(1)\n"
        f"  z = f32[] constant(0)\n  n = f32[] constant({1 / columns})\n"
        f"  eps = f32[] constant(1e-5)\n  nw = f32[{rows}] broadcast(n), dimensions={{}}\n"
        f"  ew = f32[{rows}] broadcast(eps), dimensions={{}}\n"
        f"  s = f32[{rows}] reduce(x, z), dimensions={{1}}, to_apply=add\n"
        f"  m = f32[{rows}] multiply(s, nw)\n  mw = {shape} broadcast(m), dimensions={{0}}\n"
        f"  d = {shape} subtract(x, mw)\n  q = {shape} multiply(d, d)\n"
        f"  v = f32[{rows}] reduce(q, z), dimensions={{1}}, to_apply=add\n"
        f"  vm = f32[{rows}] multiply(v, nw)\n  ve = f32[{rows}] add(vm, ew)\n"
        f"  i = f32[{rows}] rsqrt(ve)\n  iw = {shape} broadcast(i), dimensions={{0}}\n"
        f"  y = {shape} multiply(d, iw)\n  gw = {shape} broadcast(g), dimensions={{1}}\n"
        f"  ROOT r = {shape} multiply(y, gw)\n"
    )
    text = module_text(entry, SUM.format(type="f32"))
    return Case("bandwidth", "layer norm of rows, f32", text, 2 * 4 * rows * columns)


def _mean_of_squares(rows: int, columns: int) -> Case:
    shape = f"f32[{rows},{columns}]"
    entry = (
        f"  x = {shape} parameter(0)\n  y = {shape} parameter(1)\n  z = f32[] constant(0)\n"
        f"  d = {shape} subtract(x, y)\n  q = {shape} multiply(d, d)\n"
        "  s = f32[] reduce(q, z), dimensions={0,1}, to_apply=add\n"
        f"  n = f32[] constant({1 / (rows * columns)})\n  ROOT r = f32[] multiply(s, n)\n"
    )
    text = module_text(entry, SUM.format(type="f32"))
    return Case("bandwidth", "mean of squares of all, f32", text, 8 * rows * columns, allowed=1e-3)


def _features(rows: int, columns: int) -> tuple[str, int]:
    """The dimensions of pictures with the features last, and how many these are."""
    return f"{rows // 16},4,32,{columns // 8}", columns // 8


def _statistics(rows: int, columns: int) -> Case:
    sizes, features = _features(rows, columns)
    shape, sums = f"f32[{sizes}]", f"f32[{features}]"
    entry = (
        f"  x = {shape} parameter(0)\n  z = f32[] constant(0)\n"
        f"  q = {shape} multiply(x, x)\n"
        f"  s = {sums} reduce(x, z), dimensions={{0,1,2}}, to_apply=add\n"
        f"  t = {sums} reduce(q, z), dimensions={{0,1,2}}, to_apply=add\n"
        f"  ROOT r = ({sums}, {sums}) tuple(s, t)\n"
    )
    text = module_text(entry, SUM.format(type="f32"))
    name = "sums of features and squares, f32"
    return Case("bandwidth", name, text, 4 * rows * columns, allowed=1e-3)


def _bias_gradient(rows: int, columns: int) -> Case:
    entry = (
        f"  x = bf16[{rows},{columns}] parameter(0)\n  z = f32[] constant(0)\n"
        f"  w = f32[{rows},{columns}] convert(x)\n"
        f"  s = f32[{columns}] reduce(w, z), dimensions={{0}}, to_apply=add\n"
        f"  ROOT r = bf16[{columns}] convert(s)\n"
    )
    text = module_text(entry, SUM.format(type="f32"))
    return Case("bandwidth", "bias gradient, bf16", text, 2 * rows * columns, allowed=1e-2)


def _turned_batch(rows: int, columns: int) -> Case:
    batch = 2 if rows < 1024 else 16
    entry = (
        f"  x = f32[{batch},{rows // batch},{columns}] parameter(0)\n"
        f"  ROOT r = f32[{batch},{columns},{rows // batch}] transpose(x), dimensions={{0,2,1}}\n"
    )
    nbytes = 8 * rows * columns
    return Case("bandwidth", "transposes of a batch, f32", module_text(entry), nbytes, allowed=0.0)


def _features_first(rows: int, columns: int) -> Case:
    sizes, features = _features(rows, columns)
    entry = (
        f"  x = bf16[{sizes}] parameter(0)\n"
        f"  ROOT r = bf16[{rows // 16},{features},4,32] transpose(x), dimensions={{0,3,1,2}}\n"
    )
    nbytes = 4 * rows * columns
    return Case("bandwidth", "features first, bf16", module_text(entry), nbytes, allowed=0.0)


def _turned_sum(rows: int, columns: int) -> Case:
    result = f"f32[{columns},{rows}]"
    entry = (
        f"  x = f32[{rows},{columns}] parameter(0)\n  y = {result} parameter(1)\n"
        f"  t = {result} transpose(x), dimensions={{1,0}}\n  ROOT r = {result} add(t, y)\n"
    )
    return Case("bandwidth", "x transposed + y, f32", module_text(entry), 12 * rows * columns)


def _narrow_softmax(rows: int, columns: int) -> Case:
    shape, sums = f"bf16[{rows},{columns}]", f"f32[{rows}]"
    wide = f"f32[{rows},{columns}]"
    entry = (
        f"  x = {shape} parameter(0)\n  low = f32[] constant(-inf)\n  z = f32[] constant(0)\n"
        f"  v = {wide} convert(x)\n"
        f"  m = {sums} reduce(v, low), dimensions={{1}}, to_apply=largest\n"
        f"  mw = {wide} broadcast(m), dimensions={{0}}\n  d = {wide} subtract(v, mw)\n"
        f"  e = {wide} exponential(d)\n"
        f"  s = {sums} reduce(e, z), dimensions={{1}}, to_apply=add\n"
        f"  sw = {wide} broadcast(s), dimensions={{0}}\n  y = {wide} divide(e, sw)\n"
        f"  ROOT r = {shape} convert(y)\n"
    )
    text = module_text(entry, SUM.format(type="f32") + LARGEST)
    return Case("bandwidth", "softmax of rows, bf16", text, 4 * rows * columns, allowed=1e-2)


BANDWIDTH: Final[tuple[Callable[[int, int], Case], ...]] = (
    _multiply_add,
    _silu,
    _bias,
    _transpose,
    _reduced("1", "{rows}", "sum of rows, f32"),
    _reduced("0", "{columns}", "sum of columns, f32"),
    _reduced("0,1", "", "sum of all, f32"),
    _softmax,
    _layer_norm,
    _mean_of_squares,
    _statistics,
    _bias_gradient,
    _turned_batch,
    _features_first,
    _turned_sum,
    _narrow_softmax,
)
