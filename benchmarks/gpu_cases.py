"""Programs that `gpu.py` measures, at a size for a card and at one for the emulator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gpu_bandwidth import BANDWIDTH, LARGEST, SUM, Case, module_text

_LESS = """less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=LT
}

"""

BYTES: Final = {"f32": 4, "bf16": 2, "f16": 2, "s8": 1, "s32": 4, "f64": 8}


def cases(is_toy: bool) -> list[Case]:
    """Return the cases of all parts, of sizes that a card takes some milliseconds for, or tiny."""
    rows, columns = (48, 64) if is_toy else (16384, 2048)
    side = 64 if is_toy else 4096
    values = 300 if is_toy else 1 << 18
    found = [make(rows, columns) for make in BANDWIDTH]
    found += [_product(type_, result, side) for type_, result in _PRODUCTS]
    found += [make(values) for make in _ORDERS]
    return found


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
    return Case("products", f"{type_} to {result}", module_text(entry), nbytes, operations, allowed)


# -- orders, scans and what scatters ---------------------------------------------------------------


def _sort(count: int) -> Case:
    entry = (
        f"  x = f32[{count}] parameter(0)\n"
        f"  ROOT s = f32[{count}] sort(x), dimensions={{0}}, to_apply=less\n"
    )
    return Case("orders", "sort, one row", module_text(entry, _LESS), 8 * count, allowed=0.0)


def _sort_rows(count: int) -> Case:
    rows = 256 if count > 1024 else 3
    shape = f"f32[{rows},{count // rows}]"
    entry = (
        f"  x = {shape} parameter(0)\n  ROOT s = {shape} sort(x), dimensions={{1}}, to_apply=less\n"
    )
    return Case("orders", "sort, many rows", module_text(entry, _LESS), 8 * count, allowed=0.0)


def _running_sum(count: int) -> Case:
    entry = (
        f"  x = f32[{count}] parameter(0)\n  z = f32[] constant(0)\n"
        f"  ROOT s = f32[{count}] reduce-window(x, z), window={{size={count} pad={count - 1}_0}}, "
        "to_apply=add\n"
    )
    text = module_text(entry, SUM.format(type="f32"))
    return Case("orders", "running sum", text, 8 * count, allowed=1e-4)


def _top(count: int) -> Case:
    kept = min(64, count // 4)
    entry = (
        f"  x = f32[{count}] parameter(0)\n"
        f"  ROOT t = (f32[{kept}], s32[{kept}]) topk(x), k={kept}, largest=true\n"
    )
    return Case("orders", f"the largest {kept}", module_text(entry), 4 * count, allowed=0.0)


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
    text = module_text(entry, SUM.format(type="f32"))
    return Case("orders", "scatter that adds", text, 8 * count, allowed=1e-4)


def _fourier(count: int) -> Case:
    length = 256 if count > 1024 else 16
    shape = f"c64[{count // length},{length}]"
    entry = (
        f"  x = {shape} parameter(0)\n"
        f"  ROOT f = {shape} fft(x), fft_type=FFT, fft_length={{{length}}}\n"
    )
    return Case("orders", f"FFT of {length}", module_text(entry), 16 * count, allowed=1e-4)


def _sort_pairs(count: int) -> Case:
    rows = 64 if count > 1024 else 3
    x, y = (f"{type_}[{rows},{count // rows}]" for type_ in ("f32", "s32"))
    less = _LESS.replace("}", "") + "}\n\n"
    less = less.replace("  ROOT", "  c = s32[] parameter(2)\n  d = s32[] parameter(3)\n  ROOT")
    entry = (
        f"  x = {x} parameter(0)\n  y = {y} parameter(1)\n  ROOT s = ({x}, {y}) sort(x, y), "
        "dimensions={1}, is_stable=true, to_apply=less\n"
    )
    return Case("orders", "sort of pairs", module_text(entry, less), 16 * count, allowed=0.0)


def _running_rows(count: int) -> Case:
    rows = 64 if count > 1024 else 3
    size = count // rows
    shape = f"f32[{rows},{size}]"
    entry = (
        f"  x = {shape} parameter(0)\n  z = f32[] constant(0)\n"
        f"  ROOT s = {shape} reduce-window(x, z), window={{size=1x{size} pad=0_0x{size - 1}_0}}, "
        "to_apply=add\n"
    )
    text = module_text(entry, SUM.format(type="f32"))
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
    text = module_text(entry, SUM.format(type="f32"))
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
    return Case("orders", "pooling", module_text(entry, LARGEST), 20 * count, allowed=0.0)


def _pooling_gradient(count: int) -> Case:
    images, pooled, window = _pool(count)
    entry = (
        f"  x = {images} parameter(0)\n  y = {pooled} parameter(1)\n  z = f32[] constant(0)\n"
        f"  ROOT g = {images} select-and-scatter(x, y, z), window={{{window}}}, select=least, "
        "scatter=add\n"
    )
    least = _LESS.replace("less", "least").replace("LT", "GE")
    text = module_text(entry, SUM.format(type="f32") + least)
    return Case("orders", "gradient of pooling", text, 36 * count, allowed=1e-5)


def _random_bits(count: int) -> Case:
    entry = (
        "  s = u64[2] parameter(0)\n"
        f"  ROOT r = (u64[2], u32[{count}]) rng-bit-generator(s), algorithm=rng_three_fry\n"
    )
    return Case("orders", "random bits", module_text(entry), 4 * count, allowed=0.0)


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
