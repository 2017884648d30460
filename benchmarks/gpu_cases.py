"""Programs that `gpu.py` measures, at a size for a card and at one for the emulator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_SUM = """add {{
  a = {type}[] parameter(0)
  b = {type}[] parameter(1)
  ROOT r = {type}[] add(a, b)
}}

"""
_LARGEST = """largest {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] maximum(a, b)
}

"""
_LESS = """less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=LT
}

"""

BYTES: Final = {"f32": 4, "bf16": 2, "f16": 2, "s8": 1, "s32": 4, "f64": 8}


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


def cases(is_toy: bool) -> list[Case]:
    """Return the cases of all parts, of sizes that a card takes some milliseconds for, or tiny."""
    rows, columns = (48, 64) if is_toy else (16384, 2048)
    side = 64 if is_toy else 4096
    values = 300 if is_toy else 1 << 18
    found = [make(rows, columns) for make in _BANDWIDTH]
    found += [_product(type_, result, side) for type_, result in _PRODUCTS]
    found += [make(values) for make in _ORDERS]
    return found


def _module(entry: str, before: str = "") -> str:
    return f"HloModule m\n\n{before}ENTRY e {{\n{entry}}}\n"


# -- bandwidth -------------------------------------------------------------------------------------


def _multiply_add(rows: int, columns: int) -> Case:
    shape = f"f32[{rows},{columns}]"
    entry = (
        f"  x = {shape} parameter(0)\n  y = {shape} parameter(1)\n"
        f"  p = {shape} multiply(x, y)\n  ROOT r = {shape} add(p, x)\n"
    )
    return Case("bandwidth", "x * y + x, f32", _module(entry), 3 * 4 * rows * columns)


def _silu(rows: int, columns: int) -> Case:
    shape = f"bf16[{rows},{columns}]"
    entry = (
        f"  x = {shape} parameter(0)\n  s = {shape} logistic(x)\n"
        f"  ROOT r = {shape} multiply(x, s)\n"
    )
    return Case("bandwidth", "silu, bf16", _module(entry), 2 * 2 * rows * columns, allowed=1e-2)


def _bias(rows: int, columns: int) -> Case:
    shape = f"f32[{rows},{columns}]"
    entry = (
        f"  x = {shape} parameter(0)\n  b = f32[{columns}] parameter(1)\n"
        f"  w = {shape} broadcast(b), dimensions={{1}}\n  a = {shape} add(x, w)\n"
        f"  ROOT r = {shape} tanh(a)\n"
    )
    return Case("bandwidth", "tanh(x + bias), f32", _module(entry), 2 * 4 * rows * columns)


def _transpose(rows: int, columns: int) -> Case:
    entry = (
        f"  x = f32[{rows},{columns}] parameter(0)\n"
        f"  ROOT r = f32[{columns},{rows}] transpose(x), dimensions={{1,0}}\n"
    )
    return Case("bandwidth", "transpose, f32", _module(entry), 2 * 4 * rows * columns, allowed=0.0)


def _reduced(dimensions: str, result: str, name: str) -> Callable[[int, int], Case]:
    def make(rows: int, columns: int) -> Case:
        sizes = result.format(rows=rows, columns=columns)
        entry = (
            f"  x = f32[{rows},{columns}] parameter(0)\n  z = f32[] constant(0)\n"
            f"  ROOT r = f32[{sizes}] reduce(x, z), dimensions={{{dimensions}}}, to_apply=add\n"
        )
        text = _module(entry, _SUM.format(type="f32"))
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
    text = _module(entry, _SUM.format(type="f32") + _LARGEST)
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
    text = _module(entry, _SUM.format(type="f32"))
    return Case("bandwidth", "layer norm of rows, f32", text, 2 * 4 * rows * columns)


_BANDWIDTH: Final[tuple[Callable[[int, int], Case], ...]] = (
    _multiply_add,
    _silu,
    _bias,
    _transpose,
    _reduced("1", "{rows}", "sum of rows, f32"),
    _reduced("0", "{columns}", "sum of columns, f32"),
    _reduced("0,1", "", "sum of all, f32"),
    _softmax,
    _layer_norm,
)

# -- products --------------------------------------------------------------------------------------

_PRODUCTS: Final = (("f32", "f32"), ("f64", "f64"), ("bf16", "bf16"), ("f16", "f16"), ("s8", "s32"))
"""Types of the operands and of the result."""


def _product(type_: str, result: str, side: int) -> Case:
    entry = (
        f"  x = {type_}[{side},{side}] parameter(0)\n  y = {type_}[{side},{side}] parameter(1)\n"
        f"  ROOT r = {result}[{side},{side}] dot(x, y), lhs_contracting_dims={{1}}, "
        "rhs_contracting_dims={0}\n"
    )
    nbytes = side * side * (2 * BYTES[type_] + BYTES[result])
    allowed = {"f32": 1e-4, "f64": 1e-10, "s8": 0.0}.get(type_, 2e-2)
    operations = 2 * side**3
    return Case("products", f"{type_} to {result}", _module(entry), nbytes, operations, allowed)


# -- orders, scans and what scatters ---------------------------------------------------------------


def _sort(count: int) -> Case:
    entry = (
        f"  x = f32[{count}] parameter(0)\n"
        f"  ROOT s = f32[{count}] sort(x), dimensions={{0}}, to_apply=less\n"
    )
    return Case("orders", "sort, one row", _module(entry, _LESS), 8 * count, allowed=0.0)


def _sort_rows(count: int) -> Case:
    rows = 256 if count > 1024 else 3
    shape = f"f32[{rows},{count // rows}]"
    entry = (
        f"  x = {shape} parameter(0)\n  ROOT s = {shape} sort(x), dimensions={{1}}, to_apply=less\n"
    )
    return Case("orders", "sort, many rows", _module(entry, _LESS), 8 * count, allowed=0.0)


def _running_sum(count: int) -> Case:
    entry = (
        f"  x = f32[{count}] parameter(0)\n  z = f32[] constant(0)\n"
        f"  ROOT s = f32[{count}] reduce-window(x, z), window={{size={count} pad={count - 1}_0}}, "
        "to_apply=add\n"
    )
    text = _module(entry, _SUM.format(type="f32"))
    return Case("orders", "running sum", text, 8 * count, allowed=1e-4)


def _top(count: int) -> Case:
    kept = min(64, count // 4)
    entry = (
        f"  x = f32[{count}] parameter(0)\n"
        f"  ROOT t = (f32[{kept}], s32[{kept}]) topk(x), k={kept}, largest=true\n"
    )
    return Case("orders", f"the largest {kept}", _module(entry), 4 * count, allowed=0.0)


def _scatter(count: int) -> Case:
    places = max(count // 8, 1)
    entry = (
        f"  x = f32[{places}] parameter(0)\n  k = s32[{count}] parameter(1)\n"
        f"  n = s32[] constant({places})\n  nw = s32[{count}] broadcast(n), dimensions={{}}\n"
        f"  o = s32[{count}] iota(), iota_dimension=0\n  f = s32[] constant(40503)\n"
        f"  fw = s32[{count}] broadcast(f), dimensions={{}}\n  h = s32[{count}] multiply(o, fw)\n"
        f"  hk = s32[{count}] add(h, k)\n  u = u32[{count}] bitcast-convert(hk)\n"
        f"  nu = u32[{count}] bitcast-convert(nw)\n  i = u32[{count}] remainder(u, nu)\n"
        f"  is = s32[{count}] bitcast-convert(i)\n  y = f32[{count}] parameter(2)\n"
        f"  ROOT s = f32[{places}] scatter(x, is, y), update_window_dims={{}}, "
        "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, "
        "to_apply=add\n"
    )
    text = _module(entry, _SUM.format(type="f32"))
    return Case("orders", "scatter that adds", text, 8 * count, allowed=1e-4)


def _fourier(count: int) -> Case:
    length = 256 if count > 1024 else 16
    shape = f"c64[{count // length},{length}]"
    entry = (
        f"  x = {shape} parameter(0)\n"
        f"  ROOT f = {shape} fft(x), fft_type=FFT, fft_length={{{length}}}\n"
    )
    return Case("orders", f"FFT of {length}", _module(entry), 16 * count, allowed=1e-4)


def _sort_pairs(count: int) -> Case:
    rows = 64 if count > 1024 else 3
    x, y = (f"{type_}[{rows},{count // rows}]" for type_ in ("f32", "s32"))
    less = _LESS.replace("}", "") + "}\n\n"
    less = less.replace("  ROOT", "  c = s32[] parameter(2)\n  d = s32[] parameter(3)\n  ROOT")
    entry = (
        f"  x = {x} parameter(0)\n  y = {y} parameter(1)\n  ROOT s = ({x}, {y}) sort(x, y), "
        "dimensions={1}, is_stable=true, to_apply=less\n"
    )
    return Case("orders", "sort of pairs", _module(entry, less), 16 * count, allowed=0.0)


def _running_rows(count: int) -> Case:
    rows = 64 if count > 1024 else 3
    size = count // rows
    shape = f"f32[{rows},{size}]"
    entry = (
        f"  x = {shape} parameter(0)\n  z = f32[] constant(0)\n"
        f"  ROOT s = {shape} reduce-window(x, z), window={{size=1x{size} pad=0_0x{size - 1}_0}}, "
        "to_apply=add\n"
    )
    text = _module(entry, _SUM.format(type="f32"))
    return Case("orders", "running sums of rows", text, 8 * count, allowed=1e-4)


def _embedding_gradient(count: int) -> Case:
    width = 128 if count > 1024 else 4
    tokens, words = 4 * count // width, count // width
    x, y = f"f32[{words},{width}]", f"f32[{tokens},{width}]"
    entry = (
        f"  z = f32[] constant(0)\n  x = {x} broadcast(z), dimensions={{}}\n"
        f"  k = s32[{tokens}] parameter(0)\n  o = s32[{tokens}] iota(), iota_dimension=0\n"
        f"  f = s32[] constant(40503)\n  fw = s32[{tokens}] broadcast(f), dimensions={{}}\n"
        f"  h = s32[{tokens}] multiply(o, fw)\n  hk = s32[{tokens}] add(h, k)\n"
        f"  u = u32[{tokens}] bitcast-convert(hk)\n  n = u32[] constant({words})\n"
        f"  nw = u32[{tokens}] broadcast(n), dimensions={{}}\n"
        f"  i = u32[{tokens}] remainder(u, nw)\n  is = s32[{tokens}] bitcast-convert(i)\n"
        f"  y = {y} parameter(1)\n"
        f"  ROOT s = {x} scatter(x, is, y), update_window_dims={{1}}, inserted_window_dims={{0}}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add\n"
    )
    text = _module(entry, _SUM.format(type="f32"))
    return Case("orders", "gradient of an embedding", text, 20 * count, allowed=1e-4)


def _pool(count: int) -> tuple[str, str, str]:
    """Shapes of images and of what is pooled of them, and the window."""
    images = max(count * 4 // (56 * 56 * 64), 1) if count > 1024 else 1
    side, channels = (56, 64) if count > 1024 else (8, 3)
    half = side // 2
    window = "size=1x3x3x1 stride=1x2x2x1 pad=0_0x0_1x0_1x0_0"
    return (
        f"f32[{images},{side},{side},{channels}]",
        f"f32[{images},{half},{half},{channels}]",
        window,
    )


def _pooling(count: int) -> Case:
    images, pooled, window = _pool(count)
    entry = (
        f"  x = {images} parameter(0)\n  low = f32[] constant(-inf)\n"
        f"  ROOT p = {pooled} reduce-window(x, low), window={{{window}}}, to_apply=largest\n"
    )
    return Case("orders", "pooling", _module(entry, _LARGEST), 20 * count, allowed=0.0)


def _pooling_gradient(count: int) -> Case:
    images, pooled, window = _pool(count)
    entry = (
        f"  x = {images} parameter(0)\n  y = {pooled} parameter(1)\n  z = f32[] constant(0)\n"
        f"  ROOT g = {images} select-and-scatter(x, y, z), window={{{window}}}, select=least, "
        "scatter=add\n"
    )
    least = _LESS.replace("less", "least").replace("LT", "GE")
    text = _module(entry, _SUM.format(type="f32") + least)
    return Case("orders", "gradient of pooling", text, 36 * count, allowed=1e-5)


def _random_bits(count: int) -> Case:
    entry = (
        "  s = u64[2] parameter(0)\n"
        f"  ROOT r = (u64[2], u32[{count}]) rng-bit-generator(s), algorithm=rng_three_fry\n"
    )
    return Case("orders", "random bits", _module(entry), 4 * count, allowed=0.0)


_ORDERS: Final[tuple[Callable[[int], Case], ...]] = (
    _sort,
    _sort_rows,
    _sort_pairs,
    _running_sum,
    _running_rows,
    _top,
    _scatter,
    _embedding_gradient,
    _pooling,
    _pooling_gradient,
    _fourier,
    _random_bits,
)

# -- programs where there are none of JAX ----------------------------------------------------------

SMALL_PROGRAMS: Final = {
    "perceptron": """HloModule perceptron

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}

ENTRY e {
  x = f32[8,24] parameter(0)
  w = f32[24,32] parameter(1)
  v = f32[32,4] parameter(2)
  z = f32[] constant(0)
  h = f32[8,32] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  zw = f32[8,32] broadcast(z), dimensions={}
  a = f32[8,32] maximum(h, zw)
  y = f32[8,4] dot(a, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  e = f32[8,4] exponential(y)
  s = f32[8] reduce(e, z), dimensions={1}, to_apply=add
  sw = f32[8,4] broadcast(s), dimensions={0}
  ROOT r = f32[8,4] divide(e, sw)
}
""",
    "loop": """HloModule loop

body {
  s = (s32[], f32[16,16]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[16,16] get-tuple-element(s), index=1
  one = s32[] constant(1)
  n = s32[] add(i, one)
  y = f32[16,16] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = f32[16,16] tanh(y)
  ROOT r = (s32[], f32[16,16]) tuple(n, t)
}

condition {
  s = (s32[], f32[16,16]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  limit = s32[] constant(5)
  ROOT less = pred[] compare(i, limit), direction=LT
}

ENTRY e {
  x = f32[16,16] parameter(0)
  zero = s32[] constant(0)
  start = (s32[], f32[16,16]) tuple(zero, x)
  w = (s32[], f32[16,16]) while(start), condition=condition, body=body
  ROOT z = f32[16,16] get-tuple-element(w), index=1
}
""",
}
"""Programs by name for the emulator, and where JAX or the file of its programs is not there."""
