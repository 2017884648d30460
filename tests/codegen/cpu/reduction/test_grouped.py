"""Short rows that are reduced as many at a time as a vector has lanes, against the evaluator."""

import numpy as np
import pytest
from tests.codegen.cpu.reduction.kernels import TARGETS, check_kernel, random, run, target_of
from tests.codegen.cpu.reduction.test_reduce import VARIADIC, text
from tests.codegen.running import Kernel

from lowtide.codegen.cpu.reduction.folding import folded_rows
from lowtide.codegen.cpu.reduction.form import form_of
from lowtide.codegen.cpu.reduction.grid import grid_of
from lowtide.codegen.cpu.reduction.grouped import LONGEST, GroupedRows, is_grouped
from lowtide.codegen.cpu.reduction.rows import RowsKernel
from lowtide.codegen.cpu.reduction.template import plan_reduction
from lowtide.codegen.kernel import KernelCode, KernelPlan
from lowtide.codegen.value import Value
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import ElementType
from lowtide.ir.thunk import Phase
from lowtide.llvm.function import Function

E = ElementType

DISTANCES = """
HloModule m
sum {{ a = {t}[] parameter(0)  b = {t}[] parameter(1)  ROOT r = {t}[] add(a, b) }}
distances {{
  x = {t}[{n},{k}] parameter(0)
  y = {t}[{m},{k}] parameter(1)
  rows = {t}[{n},{m},{k}] broadcast(x), dimensions={{0,2}}
  columns = {t}[{n},{m},{k}] broadcast(y), dimensions={{1,2}}
  apart = {t}[{n},{m},{k}] subtract(rows, columns)
  squares = {t}[{n},{m},{k}] multiply(apart, apart)
  zero = {t}[] constant(0)
  total = {t}[{n},{m}] reduce(squares, zero), dimensions={{2}}, to_apply=sum
  ROOT root = {t}[{n},{m}] sqrt(total)
}}
ENTRY main {{
  x = {t}[{n},{k}] parameter(0)
  y = {t}[{m},{k}] parameter(1)
  ROOT r = {t}[{n},{m}] fusion(x, y), kind=kInput, calls=distances
}}
"""

COSINES = """
HloModule m
sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
cosines {
  x = f32[53,20] parameter(0)
  y = f32[53,20] parameter(1)
  z = f32[53] parameter(2)
  zero = f32[] constant(0)
  xy = f32[53,20] multiply(x, y)
  xx = f32[53,20] multiply(x, x)
  a = f32[53] reduce(xy, zero), dimensions={1}, to_apply=sum
  b = f32[53] reduce(xx, zero), dimensions={1}, to_apply=sum
  c = f32[53] divide(a, b)
  d = f32[53] add(c, z)
  ROOT both = (f32[53], f32[53]) tuple(d, b)
}
ENTRY main {
  x = f32[53,20] parameter(0)
  y = f32[53,20] parameter(1)
  z = f32[53] parameter(2)
  ROOT r = (f32[53], f32[53]) fusion(x, y, z), kind=kInput, calls=cosines
}
"""


def grid(source, target):
    root = parse_hlo(source).entry.root
    return root, grid_of(form_of(root, target_of(target)), target_of(target))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("type_", ["f32", "f64", "bf16", "f16", "s32", "u8", "s64", "pred", "c64"])
@pytest.mark.parametrize("sizes", [(16, 40), (17, 33), (131, 64), (3, 70, 12), (64, 1), (1000, 5)])
def test_types_and_sizes(type_, sizes, target):
    rng = np.random.default_rng(0)
    kind = "or" if type_ == "pred" else "add"
    source = text(kind, type_, sizes, (len(sizes) - 1,))
    inputs = [random(rng, sizes, E(type_)), random(rng, (), E(type_))]
    if sizes[-1] > 1:
        check_kernel(source, inputs, plan_reduction, target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", ["add", "multiply", "maximum", "minimum"])
@pytest.mark.parametrize("length", [9, 16, 31, 100, 700])
def test_lengths(kind, length, target):
    rng = np.random.default_rng(0)
    x = np.sign(random(rng, (75, length), E.F32)) if kind == "multiply" else None
    x = random(rng, (75, length), E.F32) if x is None else x
    check_kernel(
        text(kind, "f32", (75, length), (1,)),
        [x, np.asarray(2, np.float32)],
        plan_reduction,
        target,
    )


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("sizes", [(40, 16), (21, 50), (5, 17, 64)])
def test_greatest_and_where(sizes, target):
    rng = np.random.default_rng(0)
    names = [",".join(map(str, x)) for x in (sizes, sizes[:-1])]
    source = VARIADIC.format(sizes=names[0], kept=names[1], dimensions=len(sizes) - 1)
    x = rng.integers(-4, 5, sizes).astype(np.float32)
    numbers = np.broadcast_to(np.arange(sizes[-1], dtype=np.int32), sizes).copy()
    inputs = [x, numbers, np.asarray(-np.inf, np.float32), np.asarray(0, np.int32)]
    check_kernel(source, inputs, plan_reduction, target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("type_", ["f32", "f64", "bf16"])
@pytest.mark.parametrize(("n", "m", "k"), [(5, 16, 32), (7, 37, 16), (1, 200, 9), (30, 3, 20)])
def test_distances(type_, n, m, k, target):
    rng = np.random.default_rng(0)
    inputs = [random(rng, (x, k), E(type_)) for x in (n, m)]
    source = DISTANCES.format(t=type_, n=n, m=m, k=k)
    check_kernel(source, inputs, plan_reduction, target)


@pytest.mark.parametrize("target", TARGETS)
def test_rows_that_others_share_lie_along_vectors(target):
    """Columns that were read across rows would be gathered again for each point."""
    _, found = grid(DISTANCES.format(t="f32", n=50, m=30, k=32), target)
    assert not found.is_across
    assert is_grouped(found)


@pytest.mark.parametrize("target", TARGETS)
def test_several_reductions_and_results(target):
    rng = np.random.default_rng(0)
    inputs = [random(rng, x, E.F32) for x in ((53, 20), (53, 20), (53,))]
    check_kernel(COSINES, inputs, plan_reduction, target)


@pytest.mark.parametrize("target", TARGETS)
def test_a_row_has_the_bits_that_it_has_alone(target):
    root, found = grid(DISTANCES.format(t="f32", n=3, m=45, k=50), target)
    assert is_grouped(found)
    results = []
    rng = np.random.default_rng(0)
    inputs = [random(rng, (x, 50), E.F32) for x in (3, 45)]
    for way in (GroupedRows, RowsKernel):

        def emit(way=way):
            kernel = way(found, target_of(target))
            function = kernel.write()
            text = "\n".join(kernel.elements.globals.values())
            return KernelCode((function,), (Phase(function.name, kernel.units, 1e-6),), text)

        results.append(run(Kernel(KernelPlan(emit), target_of(target)), root, inputs, 2))
    assert results[0][0].tobytes() == results[1][0].tobytes()


def test_long_rows_are_reduced_by_themselves():
    _, found = grid(text("add", "f32", (100, LONGEST * 16 + 1), (1,)), "native")
    assert not is_grouped(found)
    _, found = grid(text("add", "f32", (3, 64), (1,)), "native")
    assert not is_grouped(found)


@pytest.mark.parametrize("lanes", [2, 4, 8, 16, 32])
def test_each_row_ends_in_its_lane(lanes):
    """Sums of texts tell which lanes of which rows went where."""
    names = {f"%r{i}": [f"{i}"] * lanes for i in range(lanes)}
    fn = Function("f")

    def shuffle(type_, a, b, order):
        joined = names[a] + names[b]
        name = f"%s{len(names)}"
        names[name] = [joined[x] for x in order]
        return name

    def combine(a, b):
        name = f"%c{len(names)}"
        pairs = zip(names[a[0].name], names[b[0].name], strict=True)
        names[name] = [x if x == y else "mixed" for x, y in pairs]
        return [Value((name,), E.F32, lanes)]

    fn.shuffle = shuffle
    rows = folded_rows(fn, lambda i: [Value((f"%r{i}",), E.F32, lanes)], lanes, combine)
    assert names[rows[0].name] == [str(i) for i in range(lanes)]
