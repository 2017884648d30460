"""Reductions by themselves against the evaluator: reducers, types, and where the dimensions are."""

import itertools

import numpy as np
import pytest
from tests.codegen.cpu.reduction.kernels import TARGETS, check_kernel, random

from lowtide.codegen.cpu.reduction.template import plan_reduction
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import ElementType
from lowtide.llvm.function import module_text
from lowtide.llvm.machine import KernelCompiler
from lowtide.llvm.target import AARCH64, host_target

E = ElementType

KINDS = {
    "add": "add",
    "multiply": "multiply",
    "maximum": "maximum",
    "minimum": "minimum",
    "and": "and",
    "or": "or",
    "xor": "xor",
}
FLOATS = ("f32", "f64", "bf16", "f16", "f8e4m3fn")
INTEGERS = ("s8", "u8", "s16", "s32", "u32", "s64", "u64", "pred")


def text(kind, type_, sizes, dimensions, start="1"):
    kept = [x for d, x in enumerate(sizes) if d not in dimensions]
    array = f"{type_}[{','.join(map(str, sizes))}]"
    return f"""
HloModule m
step {{ a = {type_}[] parameter(0)  b = {type_}[] parameter(1)  ROOT r = {type_}[] {kind}(a, b) }}
ENTRY main {{
  x = {array} parameter(0)
  start = {type_}[] parameter(1)
  ROOT y = {type_}[{",".join(map(str, kept))}] reduce(x, start),
    dimensions={{{",".join(map(str, dimensions))}}}, to_apply=step
}}
"""


def checked(kind, type_, sizes, dimensions, target="native"):
    rng = np.random.default_rng(0)
    element = E(type_)
    x = random(rng, sizes, element)
    if kind == "multiply" and not element.is_integer and type_ != "pred":
        x = (
            np.sign(x.astype(np.float64)).astype(x.dtype)
            if not element.is_complex
            else x / np.abs(x)
        )
    return check_kernel(
        text(kind, type_, sizes, dimensions), [x, random(rng, (), element)], plan_reduction, target
    )


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("kind", "type_"),
    [
        *itertools.product(("add", "multiply", "maximum", "minimum"), FLOATS),
        *itertools.product(("add", "maximum", "and", "or", "xor"), INTEGERS),
        ("add", "c64"),
        ("multiply", "c128"),
    ],
)
def test_types(kind, type_, target):
    if type_ == "pred" and kind in ("add", "xor"):
        kind = "or"
    checked(kind, type_, (3, 150), (1,), target)
    checked(kind, type_, (45, 19), (0,), target)


SIZES = [
    ((1, 7), (1,)),
    ((5, 17, 9), (0, 2)),
    ((5, 17, 9), (1,)),
    ((5, 17, 9), (2, 0)),
    ((3, 1, 40, 2), (1, 2)),
    ((3, 4, 5, 6), (0, 1, 3)),
    ((3, 4, 5, 6), (0, 2)),
    ((3, 4, 5, 6), (3, 2, 1, 0)),
    ((200, 3), (1,)),
    ((200, 3), (0,)),
    ((300, 2, 5), (0, 2)),
    ((9, 13, 700), (0, 1)),
    ((9, 13, 700), (0, 2)),
    ((2, 3, 2, 3, 2, 3, 2, 3), (1, 3, 5, 7)),
    ((1000,), (0,)),
    ((15,), (0,)),
    ((70000,), (0,)),
    ((3, 50001), (1,)),
    ((131073,), (0,)),
    ((30011, 5), (0,)),
    ((2, 30011, 5), (1,)),
    ((130, 7, 300), (0, 1)),
    ((40, 5000), (0,)),
    ((6, 4200), (0,)),
    ((513, 300), (0,)),
]


@pytest.mark.parametrize(("sizes", "dimensions"), SIZES)
@pytest.mark.parametrize("target", TARGETS)
def test_dimensions(sizes, dimensions, target):
    checked("add", "s32", sizes, dimensions, target)
    checked("maximum", "f32", sizes, dimensions, target)


VARIADIC = """
HloModule m
best {{
  a = f32[] parameter(0)  i = s32[] parameter(1)  b = f32[] parameter(2)  j = s32[] parameter(3)
  more = pred[] compare(a, b), direction=GT
  unordered = pred[] compare(a, a), direction=NE
  wins = pred[] or(more, unordered)
  same = pred[] compare(a, b), direction=EQ
  lower = pred[] compare(i, j), direction=LT
  tie = pred[] and(same, lower)
  first = pred[] or(wins, tie)
  v = f32[] select(wins, a, b)
  n = s32[] select(first, i, j)
  ROOT r = (f32[], s32[]) tuple(v, n)
}}
ENTRY main {{
  x = f32[{sizes}] parameter(0)
  i = s32[{sizes}] parameter(1)
  low = f32[] parameter(2)
  zero = s32[] parameter(3)
  ROOT y = (f32[{kept}], s32[{kept}]) reduce(x, i, low, zero),
    dimensions={{{dimensions}}}, to_apply=best
}}
"""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("sizes", "dimension"),
    [((5, 130), 1), ((4, 9), 1), ((3, 1), 0), ((40, 33), 0), ((300000,), 0), ((40000, 3), 0)],
)
def test_a_computation_of_two_values(sizes, dimension, target):
    """The index of the greatest value: no neutral element is known, and there are equal values."""
    rng = np.random.default_rng(1)
    kept = ",".join([str(x) for d, x in enumerate(sizes) if d != dimension])
    module = VARIADIC.format(sizes=",".join(map(str, sizes)), kept=kept, dimensions=dimension)
    x = rng.integers(0, 50, sizes).astype(np.float32)
    x.reshape(-1)[rng.integers(0, x.size)] = np.nan
    i = np.broadcast_to(
        np.arange(sizes[dimension]).reshape(
            [-1 if d == dimension else 1 for d in range(len(sizes))]
        ),
        sizes,
    ).astype(np.int32)
    given = [x, np.ascontiguousarray(i), np.float32(-np.inf), np.int32(1 << 30)]
    check_kernel(module, [np.asarray(v) for v in given], plan_reduction, target)


@pytest.mark.parametrize("sizes", [(7, 100), (100, 7), (40000,), (3,)])
def test_the_initial_value_counts_once(sizes):
    """A sum that is written as something else has no neutral element that is known."""
    dimension = int(np.argmax(sizes))
    module = text("add", "s32", sizes, (dimension,)).replace(
        "ROOT r = s32[] add(a, b)",
        "c = s32[] maximum(a, b)  d = s32[] minimum(a, b)  ROOT r = s32[] add(c, d)",
    )
    x = np.ones(sizes, np.int32)
    check_kernel(module, [x, np.asarray(1000, np.int32)], plan_reduction)


@pytest.mark.parametrize("kind", ["add", "multiply", "maximum", "minimum"])
@pytest.mark.parametrize(("sizes", "dimension"), [((4, 200), 1), ((50, 20), 0), ((100000,), 0)])
def test_nan_and_infinities(kind, sizes, dimension):
    rng = np.random.default_rng(2)
    x = np.sign(rng.standard_normal(sizes)).astype(np.float32)
    x.reshape(-1)[:: x.size // 7] = [np.nan, np.inf, -np.inf, 0, -0.0, 1e-40, np.inf, np.nan][
        : len(x.reshape(-1)[:: x.size // 7])
    ]
    module = text(kind, "f32", sizes, (dimension,))
    check_kernel(module, [x, np.asarray(1, np.float32)], plan_reduction)


@pytest.mark.parametrize("sizes", [(0, 4), (4, 0), (3, 1)])
def test_what_is_left_to_loops(sizes):
    """Nothing to reduce, or nothing to return: loops over the result say all there is."""
    root = parse_hlo(text("add", "f32", sizes, (1,))).entry.root
    assert plan_reduction(root, host_target()) is None


@pytest.mark.parametrize(("sizes", "dimension"), [((9, 300), 1), ((300, 40), 0), ((1 << 18,), 0)])
def test_objects_for_neon(sizes, dimension):
    root = parse_hlo(text("maximum", "bf16", sizes, (dimension,))).entry.root
    plan = plan_reduction(root, AARCH64)
    assert plan is not None
    code = plan.emit()
    assert KernelCompiler(AARCH64).object_code(module_text(code.functions, code.globals))


def test_scratch_is_small():
    for sizes, dimension in [((1 << 24,), 0), ((1 << 12, 1 << 12), 0), ((1 << 20, 16), 0)]:
        root = parse_hlo(text("add", "f32", sizes, (dimension,))).entry.root
        plan = plan_reduction(root, host_target())
        assert plan is not None
        assert plan.shared_bytes + plan.thread_bytes <= 1 << 19
