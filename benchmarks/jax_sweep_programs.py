"""Programs with attributes that patterns of arguments do not reach, for `jax_sweep.py`.

Each is a function with its own arguments, which `program` gives it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jax_sweep_cases import Arguments, Source

Function = Callable[..., Any]

GATHER_MODES: Final = ("fill", "clip", "promise_in_bounds")
SCATTER_MODES: Final = ("drop", "clip", "promise_in_bounds")
UPDATES: Final = ("set", "add", "multiply", "min", "max")


def program(arguments: Callable[[Source], Arguments]) -> Callable[[Function], Function]:
    """Return a decorator by which a function has arguments of its own."""

    def named(function: Function) -> Function:
        function.arguments = arguments  # type: ignore[attr-defined]
        return function

    return named


def of(*shapes: tuple[int, ...]) -> Callable[[Source], Arguments]:
    return lambda s: (tuple(s(*shape) for shape in shapes), {})


# -- convolutions ------------------------------------------------------------------------------


def _conv(x: Any, k: Any, **how: Any) -> Any:
    how = {"window_strides": (1, 1), "padding": "SAME", **how}
    return lax.conv_general_dilated(x, k, dimension_numbers=("NHWC", "HWIO", "NHWC"), **how)


@program(of((2, 6, 5, 4), (3, 2, 2, 6), (2, 3, 1, 8)))
def conv_of_feature_groups(x: Any, k: Any, d: Any) -> Any:
    two = {"feature_group_count": 2}
    return [
        _conv(x, k, **two),
        _conv(x, k, window_strides=(2, 3), padding=((3, -1), (0, 2)), **two),
        _conv(x, k, padding=((1, 1), (0, 2)), lhs_dilation=(2, 3), rhs_dilation=(1, 2), **two),
        _conv(x, d, feature_group_count=4, padding="VALID"),
        _conv(x, d, feature_group_count=4, padding=((0, 0), (1, 0)), lhs_dilation=(1, 2)),
    ]


@program(of((4, 5, 6, 3), (2, 3, 3, 4)))
def conv_of_batch_groups(x: Any, k: Any) -> Any:
    return [
        _conv(x, k, batch_group_count=2),
        _conv(x, k, batch_group_count=4, window_strides=(2, 1), padding="VALID"),
        _conv(
            x,
            k,
            batch_group_count=2,
            padding=((0, 0), (1, 0)),
            lhs_dilation=(2, 1),
            rhs_dilation=(2, 2),
        ),
        _conv(x, k, batch_group_count=2, padding=((-1, 3), (2, -2))),
    ]


@program(of((2, 7, 3), (3, 3, 2)))
def conv_of_one_dimension(x: Any, k: Any) -> Any:
    names = ("NWC", "WIO", "NWC")
    return [
        lax.conv_general_dilated(x, k, (s,), p, (a,), (b,), names)
        for s, p, a, b in [
            (1, "SAME", 1, 1),
            (2, ((0, 0),), 3, 2),
            (3, ((5, -2),), 1, 3),
            (1, ((-3, -3),), 2, 1),
            (1, ((9, 9),), 1, 1),
        ]
    ]


@program(of((1, 3, 4, 5, 2), (2, 2, 3, 2, 3)))
def conv_of_three_dimensions(x: Any, k: Any) -> Any:
    names = ("NDHWC", "DHWIO", "NCDHW")
    return [
        lax.conv_general_dilated(x, k, s, ((1, 0), (2, 1), (-1, 3)), (1, 2, 1), (1, 1, 2), names)
        for s in ((1, 1, 1), (2, 1, 3))
    ]


@program(of((2, 4, 5, 3), (3, 2, 4, 3), (2, 2, 3)))
def conv_transposed_and_local(x: Any, k: Any, y: Any) -> Any:
    turned = lax.conv_transpose(x, k, (2, 3), "SAME", transpose_kernel=True)
    wide = lax.conv_transpose(x, jnp.swapaxes(k, 2, 3), (1, 2), "VALID", rhs_dilation=(2, 1))
    local = lax.conv_general_dilated_local(
        jnp.moveaxis(x, -1, 1), jnp.ones((5, 12, 3, 4), x.dtype), (1, 1), "VALID", (2, 2)
    )
    return [turned, wide, local, lax.conv_general_dilated_patches(x, (2, 2), (1, 2), "SAME")]


# -- windows -----------------------------------------------------------------------------------


@program(of((2, 7, 5)))
def windows_with_padding(x: Any) -> Any:
    found = []
    for padding in ("SAME", "VALID", ((0, 0), (2, 1), (1, 0)), ((1, 2), (0, 3), (0, 0))):
        for sizes, steps in (((1, 3, 2), (1, 2, 1)), ((2, 1, 5), (1, 1, 1))):
            for init, function in ((0, lax.add), (-3, lax.max), (4, lax.min), (1, lax.mul)):
                zero = jnp.asarray(abs(init), x.dtype)
                found.append(lax.reduce_window(x, zero, function, sizes, steps, padding))
    return found


@program(of((2, 7, 5)))
def windows_with_dilation(x: Any) -> Any:
    zero = jnp.zeros((), x.dtype)
    return [
        lax.reduce_window(x, zero, function, (2, 3, 2), (1, 2, 1), padding, base, window)
        for function in (lax.add, lax.max)
        for padding in ("SAME", ((0, 1), (3, 2), (2, 0)))
        for base in ((1, 1, 1), (2, 1, 3))
        for window in ((1, 1, 1), (1, 2, 2))
    ]


@program(of((2, 6, 5), (2, 6, 5)))
def windows_of_pairs(x: Any, y: Any) -> Any:
    def both(a: Any, b: Any) -> Any:
        larger = a[0] >= b[0]
        return jnp.where(larger, a[0], b[0]), jnp.where(larger, a[1], b[1])

    zeros = (jnp.zeros((), x.dtype), jnp.ones((), x.dtype))
    return lax.reduce_window((x, y), zeros, both, (1, 2, 3), (1, 2, 2), "SAME")


@program(of((1, 6, 5, 2)))
def windows_of_pools(x: Any) -> Any:
    from jax._src.lax.windowed_reductions import _reduce_window_logaddexp as logs

    low = jnp.asarray(-np.inf, x.dtype)
    pool = lax.reduce_window(x, low, lax.max, (1, 2, 3, 1), (1, 2, 1, 1), "SAME")
    log = logs(x, (1, 3, 2, 1), (1, 1, 1, 1), ((0, 0), (1, 1), (0, 1), (0, 0)), (1,) * 4, (1,) * 4)
    return [pool, log]


@program(of((3, 8), (4, 2, 5)))
def cumulative(x: Any, y: Any) -> Any:
    functions = (lax.cumsum, lax.cumprod, lax.cummax, lax.cummin, lax.cumlogsumexp)
    found = []
    for function in functions:
        try:
            found += [function(x, 1, reverse=r) for r in (False, True)]
            found += [function(y, axis, reverse=True) for axis in range(3)]
        except TypeError:
            continue
    return found


@program(of((5, 33)))
def scans_of_pairs(x: Any) -> Any:
    def step(a: Any, b: Any) -> Any:
        return a[0] * b[0], a[1] * b[0] + b[1]

    small = x / jnp.asarray(4, x.dtype)
    return [
        lax.associative_scan(step, (small, x), axis=axis, reverse=r)
        for axis in (0, 1)
        for r in (False, True)
    ]


# -- gathers and scatters ----------------------------------------------------------------------


def _places(s: Source, *shape: int) -> np.ndarray:
    return s.index(*shape) * 3 - 2


@program(lambda s: ((s(5, 6, 3), _places(s, 4, 1), _places(s, 2, 3, 2), _places(s, 4)), {}))
def gathers(x: Any, one: Any, two: Any, flat: Any) -> Any:
    rows = lax.GatherDimensionNumbers((1, 2), (0,), (0,))
    windows = lax.GatherDimensionNumbers((2, 3), (2,), (1, 0))
    sorted_rows = jnp.clip(jnp.sort(one, 0), 0, 4)
    found = []
    for mode in GATHER_MODES:
        given = (one, two, flat)
        if mode == "promise_in_bounds":
            given = tuple(jnp.clip(i, 0, 1) for i in given)
        found.append(lax.gather(x, given[0], rows, (1, 2, 3), mode=mode))
        found.append(lax.gather(x, given[1], windows, (2, 3, 1), mode=mode))
        found.append(x.at[given[2]].get(mode=mode))
        found.append(
            jnp.take(x, given[2], axis=1, mode=mode if mode != "promise_in_bounds" else "wrap")
        )
        found.append(
            lax.gather(x, sorted_rows, rows, (1, 4, 2), indices_are_sorted=True, mode=mode)
        )
    found.append(x.at[flat].get(mode="fill", fill_value=7))
    return found


@program(lambda s: ((s(4, 5, 3), s.index(4, 2, 1) * 2 - 1), {}))
def gathers_by_batch(x: Any, at: Any) -> Any:
    numbers = lax.GatherDimensionNumbers((2,), (1,), (1,), (0,), (0,))
    return [lax.gather(x, at, numbers, (1, 1, 3), mode=mode) for mode in ("fill", "clip")]


@program(lambda s: ((s(5, 6), s(4, 6), s(3, 2, 2), s.index(4) * 3 - 2, s.index(3, 2) * 3 - 2), {}))
def scatters(x: Any, rows: Any, windows: Any, flat: Any, pairs: Any) -> Any:
    numbers = lax.ScatterDimensionNumbers((1, 2), (), (0, 1))
    found = []
    for mode in SCATTER_MODES:
        at = jnp.clip(flat, 0, 4) if mode == "promise_in_bounds" else flat
        pair = jnp.clip(pairs, 0, 3) if mode == "promise_in_bounds" else pairs
        functions = (lax.scatter_add, lax.scatter_mul, lax.scatter_min, lax.scatter_max)
        found += [getattr(x.at[at], name)(rows, mode=mode) for name in UPDATES[1:]]
        found += [function(x, pair, windows, numbers, mode=mode) for function in functions]
        found.append(
            lax.scatter_add(x, pair[:1], windows[:1], numbers, mode=mode, unique_indices=True)
        )
        found.append(lax.scatter(x, pair[:1], windows[:1], numbers, mode=mode))
    ordered = jnp.array([0, 2, 3, 4])
    flags = {"indices_are_sorted": True, "unique_indices": True}
    found += [getattr(x.at[ordered], name)(rows, **flags) for name in UPDATES]
    found.append(x.at[ordered].apply(lambda v: v * v))
    return found


@program(lambda s: ((s(6, 4), s(3, 4), s.index(3) * 3 - 3), {}))
def scatters_by_functions(x: Any, y: Any, at: Any) -> Any:
    numbers = lax.ScatterDimensionNumbers((1,), (0,), (0,))
    first = jnp.array([[4], [1], [0]])
    return [
        lax.scatter_sub(x, at[:, None], y, numbers, mode="drop"),
        lax.scatter_apply(
            x, first, lambda v: v + v, numbers, update_shape=(3, 4), unique_indices=True
        ),
        x.at[jnp.array([5, 0, 2])].divide(y + y),
        x.at[::-2, 1:3].set(y[:, :2]),
        x.at[jnp.array([0, 1, 1]), :2].power(2),
    ]


@program(lambda s: ((s(4, 5, 3), s(4, 2, 3), s.index(4, 2, 1) * 2 - 1), {}))
def scatters_by_batch(x: Any, y: Any, at: Any) -> Any:
    numbers = lax.ScatterDimensionNumbers((2,), (1,), (1,), (0,), (0,))
    return [
        f(x, at, y, numbers, mode=mode)
        for f in (lax.scatter_add, lax.scatter_max)
        for mode in ("drop", "clip")
    ]


@program(lambda s: ((s(5, 6, 4), s(2, 3, 4), s.index(3) * 4 - 3), {}))
def slices_beyond_the_ends(x: Any, y: Any, at: Any) -> Any:
    a, b, c = at
    return [
        lax.dynamic_slice(x, (a, b, c), (2, 3, 4)),
        lax.dynamic_update_slice(x, y, (b, c, a)),
        lax.dynamic_index_in_dim(x, a, 1, keepdims=False),
        x[a],
        lax.dynamic_slice_in_dim(x, a - 9, 3, 0),
    ]


# -- sorting -----------------------------------------------------------------------------------


@program(of((4, 9), (4, 9), (4, 9)))
def sorts(x: Any, y: Any, z: Any) -> Any:
    found = []
    for axis in (0, 1):
        for keys in (1, 2, 3):
            found += lax.sort((x, y, z), dimension=axis, num_keys=keys)
    found += lax.sort((jnp.round(x) if jnp.issubdtype(x.dtype, jnp.floating) else x, y), num_keys=1)
    found.append(jnp.argsort(x, axis=0, descending=True))
    found.append(jnp.argsort(x, axis=1, stable=True))
    return [*found, jnp.lexsort((x, y, z)), jnp.sort(x, descending=True)]


@program(of((3, 40), (700,)))
def largest(x: Any, y: Any) -> Any:
    found = []
    for k in (1, 3, 40):
        found += lax.top_k(x, k)
        found += lax.top_k(y, k)
    found += lax.top_k(x, 2, axis=0)
    return found


@program(of((3, 40), (700,)))
def approximately_largest(x: Any, y: Any) -> Any:
    found = []
    for function in (lax.approx_max_k, lax.approx_min_k):
        for target in (0.5, 0.95):
            found += [
                *function(x, 3, recall_target=target),
                *function(x, 2, reduction_dimension=0),
                *function(y, 5, aggregate_to_topk=False, reduction_input_size_override=700),
            ]
    return found


@program(of((3, 40)))
def places_of_the_largest(x: Any) -> Any:
    found = [f(x, a, jnp.int32) for f in (lax.argmax, lax.argmin) for a in (0, 1)]
    found += [f(x, 1, jnp.int8) for f in (lax.argmax, lax.argmin)]
    found.append(jnp.nanargmax(x.at[:, ::3].set(1), 0))
    return [*found, jnp.unique(x, size=7, fill_value=1), jnp.searchsorted(jnp.sort(x[0]), x[1])]


# -- reductions --------------------------------------------------------------------------------


@program(of((3, 4, 5), (3, 4, 5)))
def reductions(x: Any, y: Any) -> Any:
    def first(a: Any, b: Any) -> Any:
        larger = (a[0] > b[0]) | ((a[0] == b[0]) & (a[1] < b[1]))
        return jnp.where(larger, a[0], b[0]), jnp.where(larger, a[1], b[1])

    zeros = jnp.zeros((), x.dtype), jnp.ones((), x.dtype)
    found = [*lax.reduce((x, y), zeros, first, (0, 2)), *lax.reduce((x, y), zeros, first, (1,))]
    for f, zero in ((lax.add, 3), (lax.mul, 1), (lax.max, 2), (lax.min, 2)):
        start = jnp.asarray(zero, x.dtype)
        found += [lax.reduce(x, start, f, axes) for axes in ((0,), (2, 0), (0, 1, 2))]
    return found


@program(of((3, 4, 5)))
def reductions_with_options(x: Any) -> Any:
    where = jnp.arange(60).reshape(3, 4, 5) % 3 > 0
    found = [
        getattr(jnp, name)(x, axis=axis, where=where, initial=1, keepdims=True)
        for name in ("sum", "prod", "max", "min")
        for axis in (0, (1, 2), None)
    ]
    found += [getattr(jnp, n)(x, axis=1, where=where) for n in ("mean", "var", "std", "any", "all")]
    return [*found, jnp.median(x, axis=(0, 2)), jnp.ptp(x, axis=-1), jnp.average(x, 0, x[:, 0, 0])]


@program(lambda s: ((s(9, 3), s.index(9) - 1, s(9)), {}))
def segments(x: Any, at: Any, y: Any) -> Any:
    names = ("sum", "prod", "max", "min")
    functions = [getattr(jax.ops, f"segment_{name}") for name in names]
    found = [f(x, at, 4) for f in functions] + [f(y, jnp.sort(at), 3, True) for f in functions]
    return [*found, *[f(x, at, 4, bucket_size=2) for f in functions], jnp.bincount(at, y, length=4)]


# -- products ----------------------------------------------------------------------------------


@program(of((3, 4, 5, 2), (2, 5, 3, 6), (5, 2, 7)))
def products_of_any_dimensions(x: Any, y: Any, z: Any) -> Any:
    return [
        lax.dot_general(x, y, (((2,), (1,)), ((0, 3), (2, 0)))),
        lax.dot_general(x, y, (((3, 2), (0, 1)), ((0,), (2,)))),
        lax.dot_general(x, z, (((2, 3), (0, 1)), ((), ()))),
        lax.dot_general(x, z, (((), ()), ((2,), (0,)))),
        jnp.einsum("abcd,dcaf->fa", x, y),
        jnp.tensordot(x, jnp.moveaxis(z, 1, 0)[:, :, 0], 1),
    ]


@program(of((4, 6), (6, 5), (6,)))
def products_into_other_types(x: Any, y: Any, v: Any) -> Any:
    wider = jnp.int32 if jnp.issubdtype(x.dtype, jnp.integer) else jnp.float32
    if jnp.issubdtype(x.dtype, jnp.complexfloating) or x.dtype == bool:
        wider = x.dtype
    numbers = (((1,), (0,)), ((), ()))
    return [
        lax.dot_general(x, y, numbers, preferred_element_type=wider),
        lax.dot_general(x, v, numbers, preferred_element_type=wider),
        jnp.matmul(x, y, preferred_element_type=wider),
        jnp.vdot(v, v, preferred_element_type=wider),
    ]


@program(lambda s: ((s(9, 4), s(3, 4, 5), np.int32([2, 0, 7])), {}))
def ragged_products(x: Any, y: Any, sizes: Any) -> Any:
    return [lax.ragged_dot(x, y, sizes), lax.ragged_dot(x, y, sizes - jnp.int32([1, 0, 3]))]


# -- changes of type ---------------------------------------------------------------------------

CASTS: Final = (
    "bool", "int2", "uint2", "int4", "uint4", "int8", "uint8", "int16", "uint16", "int32", "uint32",
    "float16", "bfloat16", "float32", "float8_e4m3fn", "float8_e4m3b11fnuz", "float8_e4m3fnuz",
    "float8_e5m2", "float8_e5m2fnuz", "float8_e3m4", "float8_e4m3", "float8_e8m0fnu",
    "float4_e2m1fn",
)  # fmt: skip


def _numbers_at_ends(s: Source) -> Arguments:
    values = np.array(
        [0.0, -0.0, 0.5, 1.5, 2.5, -0.5, -1.5, 448, 449, 464, 465, 57344, 61440, 65504]
    )
    if jnp.issubdtype(s.dtype, jnp.floating):
        near = np.ldexp(1.0, np.arange(-24, 18))
        values = np.concatenate([values, near, -near, near * 1.0625, near * 1.1875, near * 1.5])
    with np.errstate(all="ignore"):
        return (values.astype(s.dtype) if s.kind == "plain" else s(64),), {}


@program(_numbers_at_ends)
def casts(x: Any) -> Any:
    found = []
    is_float = jnp.issubdtype(x.dtype, jnp.inexact)
    for name in CASTS:
        is_integer = jnp.issubdtype(jnp.dtype(name), jnp.integer)
        given = jnp.where(jnp.abs(x) < 2, x, 0) if is_float and is_integer else x
        if is_float and is_integer:
            given = jnp.abs(given)
            given = jnp.where(given < 1, given, 0) if name == "int2" else given
        found.append(given.astype(name))
        found.append(given.astype(name).astype(jnp.float32))
    return found


@program(of((8, 3), (8, 3)))
def arithmetic(x: Any, y: Any) -> Any:
    found = [x + y, x - y, x * y, x == y, x != y, x < y, x <= y, jnp.maximum(x, y), jnp.sign(x)]
    found += [jnp.where(x > y, x, y), lax.clamp(jnp.minimum(x, y), x, jnp.maximum(x, y))]
    found += [jnp.abs(x), -x, x[::-1], jnp.concatenate([x, y]), x.T, jnp.pad(x, 2), x.sum(0)]
    found += [x.max(1), x.min(), x.prod(1), jnp.sort(x, 0), jnp.argmax(x, 0), jnp.cumsum(x, 0)]
    found += [jnp.dot(x.T, y), jnp.roll(x, 1), jnp.repeat(x, 2, 0), x[jnp.array([7, 0, 3])]]
    found += [x.at[jnp.array([1, 1, 2])].set(y[:3]), lax.top_k(x, 2)[0], x.any(), x.all(0)]
    if jnp.issubdtype(x.dtype, jnp.integer):
        found += [x & y, x | y, x ^ y, ~x, x << 1, x >> 1, lax.population_count(x), lax.clz(x)]
        found += [
            lax.shift_right_logical(x, jnp.ones_like(x)),
            lax.rem(x, y | 1),
            lax.div(x, y | 1),
        ]
    elif jnp.issubdtype(x.dtype, jnp.floating):
        found += [x / y, lax.rem(x, y), jnp.floor(x), jnp.ceil(x), jnp.round(x), jnp.isfinite(x)]
        found += [jnp.exp(x), jnp.tanh(x), jnp.sqrt(jnp.abs(x)), x.mean(0), jnp.nextafter(x, y)]
    return found


@program(of((8, 4)))
def bits(x: Any) -> Any:
    wide = jnp.dtype(x.dtype).itemsize * 8
    if jnp.issubdtype(x.dtype, jnp.complexfloating) or x.dtype == bool:
        return [lax.real(x) if x.dtype != bool else x]
    narrow = "2" in x.dtype.name[-1:] and wide == 8 and "int2" in x.dtype.name
    own = {8: jnp.uint8, 16: jnp.uint16, 32: jnp.uint32, 64: jnp.uint64}[wide]
    own = (
        jnp.uint2
        if narrow
        else jnp.uint4
        if "4" in x.dtype.name[3:5] and wide == 8 and "int4" in x.dtype.name
        else own
    )
    found = [lax.bitcast_convert_type(x, own)]
    if own == jnp.uint4:
        found.append(lax.bitcast_convert_type(x.reshape(8, 2, 2), jnp.uint8))
    if own in (jnp.uint16, jnp.uint32):
        found += [lax.bitcast_convert_type(x, jnp.uint8), lax.bitcast_convert_type(x, jnp.uint4)]
    return [*found, lax.reduce_precision(x, 5, 2) if jnp.issubdtype(x.dtype, jnp.floating) else x]
