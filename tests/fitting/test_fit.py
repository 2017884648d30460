"""Programs at other sizes: they compute the same per element, and the largest that fits is one."""

import json
import random
from fractions import Fraction

import numpy as np
import pytest
from tests.support import EXAMPLES

import lowtide
from lowtide.compiler import DEFAULT_PLAN, plan
from lowtide.fitting.dimensions import (
    DimensionError,
    NamedDimension,
    NamedLeaf,
    SpecializedError,
    module_leaves,
)
from lowtide.fitting.fit import fit_module
from lowtide.fitting.peaks import SizedPeaks, bytes_by_step
from lowtide.fitting.resizing import ResizableModule
from lowtide.report.fit import FitProof, PeakPiece


def resizable(module: lowtide.Module, text: str) -> ResizableModule:
    leaves = NamedDimension.parse(text).leaves(module_leaves(module))
    return ResizableModule(module, [(x.key[0], x.key[1], axis) for x, axis in leaves])


def entry(body: str, parameters: str = "x = f32[6,4]{1,0} parameter(0)") -> lowtide.Module:
    return lowtide.parse_hlo(f"HloModule m\n\nENTRY e {{\n  {parameters}\n  {body}\n}}\n")


ADD = "a { p = f32[] parameter(0)\n q = f32[] parameter(1)\n ROOT s = f32[] add(p, q) }\n\n"


@pytest.mark.parametrize(
    ("body", "root"),
    [
        ("ROOT y = f32[24]{0} reshape(x)", (48,)),
        ("ROOT y = f32[2,3,4]{2,1,0} reshape(x)", (4, 3, 4)),
        ("ROOT y = f32[4,6]{1,0} transpose(x), dimensions={1,0}", (4, 12)),
        ("ROOT y = f32[6,4,5]{2,1,0} broadcast(x), dimensions={0,1}", (12, 4, 5)),
        ("ROOT y = f32[12,4]{1,0} concatenate(x, x), dimensions={0}", (24, 4)),
        ("ROOT y = f32[5,4]{1,0} slice(x), slice={[1:6], [0:4]}", (11, 4)),
        ("ROOT y = f32[3,4]{1,0} slice(x), slice={[3:6], [0:4]}", (6, 4)),
        ("z = f32[] constant(0)\n  ROOT y = f32[8,4]{1,0} pad(x, z), padding=1_1x0_0", (14, 4)),
        ("ROOT y = f32[6,6]{1,0} dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
         (12, 12)),
        ("i = f32[6,4]{1,0} iota(), iota_dimension=0\n  ROOT y = f32[6,4]{1,0} add(x, i)", (12, 4)),
        ("c = f32[6,4]{1,0} constant({...})\n  ROOT y = f32[6,4]{1,0} add(x, c)", (12, 4)),
        ("ROOT y = f32[6,4]{1,0} reverse(x), dimensions={0}", (12, 4)),
    ],
    ids=lambda x: x.partition("(")[0].split()[-1] if isinstance(x, str) else None,
)  # fmt: skip
def test_what_an_operation_makes_of_a_larger_operand(body: str, root: tuple[int, ...]) -> None:
    found = resizable(entry(body), "B=x:0").at(12)
    assert found.entry.root.shape.dimensions == root
    assert found.entry.parameters[0].shape.dimensions == (12, 4)


def test_the_step_keeps_parts_whole() -> None:
    assert resizable(entry("ROOT y = f32[2,3,4]{2,1,0} reshape(x)"), "B=x:0").step == 3


def test_a_loop_over_the_dimension_is_refused() -> None:
    text = """HloModule m

body {
  s = (s32[], f32[6,4]{1,0}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[6,4]{1,0} get-tuple-element(s), index=1
  zero = s32[] constant(0)
  one = s32[] constant(1)
  row = f32[1,4]{1,0} dynamic-slice(x, i, zero), dynamic_slice_sizes={1,4}
  twice = f32[1,4]{1,0} add(row, row)
  y = f32[6,4]{1,0} dynamic-update-slice(x, twice, i, zero)
  j = s32[] add(i, one)
  ROOT r = (s32[], f32[6,4]{1,0}) tuple(j, y)
}

cond {
  s = (s32[], f32[6,4]{1,0}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(6)
  ROOT c = pred[] compare(i, n), direction=LT
}

ENTRY e {
  x = f32[6,4]{1,0} parameter(0)
  zero = s32[] constant(0)
  s = (s32[], f32[6,4]{1,0}) tuple(zero, x)
  w = (s32[], f32[6,4]{1,0}) while(s), condition=cond, body=body
  ROOT y = f32[6,4]{1,0} get-tuple-element(w), index=1
}
"""
    module = lowtide.parse_hlo(text)
    with pytest.raises(SpecializedError, match="while %w: the loop runs 6 times"):
        resizable(module, "B=x:0").at(8)
    found = resizable(module, "F=x:1").at(8).entry.root.shape
    assert found.dimensions == (6, 8)


def test_a_cut_elsewhere_is_refused() -> None:
    parameters = "x = f32[60]{0} parameter(0)"
    module = entry("ROOT y = f32[37]{0} slice(x), slice={[0:37]}", parameters)
    with pytest.raises(SpecializedError, match="slice %y: it cuts 60 elements at 37"):
        resizable(module, "B=x").at(61)


@pytest.mark.parametrize("name", ["mlp", "mnist_cnn"])
def test_a_resized_example_computes_the_same_per_element(name: str) -> None:
    module = lowtide.read(EXAMPLES / f"{name}.hlo.xz")
    larger = resizable(module, "B=images").at(3)
    generator = np.random.default_rng(0)
    leaves = [(x.shape.dimensions, x.shape.element_type.value) for x in larger.entry.parameters]
    arguments = [
        generator.integers(0, 3, sizes).astype(np.int32)
        if kind.startswith("s")
        else generator.uniform(-0.1, 0.1, sizes).astype(np.float32)
        for sizes, kind in leaves
    ]
    if name == "mlp":
        whole = lowtide.evaluate(larger, arguments)
        one = resizable(module, "B=images").at(1)
        parts = [
            lowtide.evaluate(one, [*arguments[:-1], arguments[-1][i : i + 1]]) for i in range(3)
        ]
        np.testing.assert_allclose(whole, np.concatenate(parts), rtol=1e-5, atol=1e-6)
    else:
        assert lowtide.evaluate(larger, arguments)


@pytest.mark.slow
def test_the_polynomials_are_the_peaks_of_the_plan_at_random_sizes() -> None:
    module = lowtide.read(EXAMPLES / "mnist_cnn.hlo.xz")
    report = fit_module(module, NamedDimension.parse("B=images"), 10**8)
    frozen = resizable(plan(module).module, "B=images")
    assert report.peak[0].first == 1 and report.peak[-1].last is None
    chooser = random.Random(1)
    for size in [1, 32, *[chooser.randrange(2, 700) for _ in range(10)]]:
        (piece,) = [x for x in report.peak if x.first <= size <= (x.last or size)]
        row = bytes_by_step(frozen.at(size), DEFAULT_PLAN)
        assert piece.at(size) == row.max(), size


def test_pieces_cross_where_they_do() -> None:
    sizes = (10, 20, 30)
    rows = [np.array([100 + 7 * n, 2 * n * n, 50]) for n in sizes]
    peaks = SizedPeaks(sizes, (rows[0], rows[1], rows[2]))
    pieces = peaks.pieces(1)
    assert [(x.first, x.last) for x in pieces] == [(1, 9), (10, None)]
    for n in range(1, 60):
        (piece,) = [x for x in pieces if x.first <= n <= (x.last or n)]
        assert piece.at(n) == peaks.at(n) == max(100 + 7 * n, 2 * n * n, 50)
    assert pieces[1].text("B") == "2 B^2"


def test_the_text_of_a_piece() -> None:
    piece = PeakPiece(1, None, (Fraction(-3), Fraction(1, 2), Fraction(1000)))
    assert piece.text("B") == "- 3 + 1/2 B + 1,000 B^2"
    assert piece.to_json()["coefficients"] == [-3, "1/2", 1000]


# -- what fits -------------------------------------------------------------------------------------


def test_the_largest_that_fits_and_the_next_one() -> None:
    path = EXAMPLES / "mlp.hlo.xz"
    found = lowtide.fit(path, dim="B=images", limit="1MB")
    assert found.largest is not None and found.next is not None
    assert found.next.size == found.largest.size + 1
    assert found.largest.total_bytes <= 10**6 < found.next.total_bytes
    assert found.next.proof is FitProof.BOUND and found.next.bound_bytes > 10**6
    assert found.largest.proof is FitProof.PLAN
    module = resizable(lowtide.read(path), "B=images").at(found.largest.size)
    assert lowtide.explain(module).total_bytes == found.largest.total_bytes
    assert "proved" in str(found) and json.dumps(found.to_json())


def test_nothing_fits_and_everything_fits() -> None:
    path = EXAMPLES / "mlp.hlo.xz"
    none = lowtide.fit(path, dim="B=images", limit="100KB")
    assert none.largest is None and none.next is not None and none.next.size == 1
    assert "no B fits" in str(none)
    module = entry("z = f32[] constant(0)\n  ROOT y = f32[] add(z, z)")
    assert fit_module(module, NamedDimension.parse("B=x"), 2**60).next is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("images", "expected NAME=ARGUMENT:AXIS"),
        ("B=", "B names no argument"),
        ("B=image", "no argument 'image'; did you mean 'images'"),
        ("B=images:2", r"images has no axis 2: its sizes are \(8, 784\)"),
        ("B=images:x", "expected ARGUMENT:AXIS with a number"),
        ("B=images:0,images:1", "of several sizes"),
    ],
)
def test_a_dimension_that_there_is_not(text: str, message: str) -> None:
    with pytest.raises(DimensionError, match=message):
        lowtide.fit(EXAMPLES / "mlp.hlo.xz", dim=text, limit="1MB")


def test_a_dimension_of_one_cannot_be_told() -> None:
    with pytest.raises(DimensionError, match="give the program at a size of 2 or more"):
        NamedDimension.parse("B=x").leaves([NamedLeaf("x", (0, 0), (1, 4))])


def test_the_name_of_an_argument_stands_for_its_arrays() -> None:
    given = [NamedLeaf("b['x']", (0, 0), (8, 4)), NamedLeaf("b['y']", (1, 0), (8,))]
    found = NamedDimension.parse("B=b").leaves(given)
    assert [leaf.name for leaf, _ in found] == ["b['x']", "b['y']"]
    assert NamedDimension.parse("B=b['x',0]:1").axes == (("b['x',0]", 1),)


def test_a_function_is_traced_at_each_size() -> None:
    jax = pytest.importorskip("jax")

    def loss(w, batch):
        return ((batch["x"] @ w) ** 2).sum() / batch["x"].shape[0]

    specs = (
        jax.ShapeDtypeStruct((16, 8), "float32"),
        {"x": jax.ShapeDtypeStruct((4, 16), "float32")},
    )
    found = lowtide.fit(loss, *specs, dim={"B": "batch:0"}, limit="100KB")
    assert found.largest is not None and found.next is not None
    assert found.next.size == found.largest.size + 1
    assert found.peak
    with pytest.raises(SpecializedError, match="cannot be traced at S ="):
        lowtide.fit(loss, *specs, dim={"S": "batch:1"}, limit="100KB")
    with pytest.raises(ValueError, match="one dimension at a time"):
        lowtide.fit(loss, *specs, dim={"S": "batch:1", "B": "batch:0"}, limit="1MB")


def test_an_argument_that_the_program_drops_costs_the_polynomial_only() -> None:
    jax = pytest.importorskip("jax")

    def total(unused, x):
        return (x * 2).sum()

    specs = [jax.ShapeDtypeStruct((8, 64), "float32") for _ in range(2)]
    found = lowtide.fit(total, *specs, dim="B=unused:0,x:0", limit="64KB")
    assert found.largest is not None and found.largest.total_bytes <= 64_000
    assert found.largest.proof is FitProof.PLAN


def test_an_exported_program_is_fitted_by_the_name_of_its_size() -> None:
    jax = pytest.importorskip("jax")
    from jax import export

    def total(w, batch):
        return jax.nn.relu(batch["x"] @ w).sum(0)

    w = jax.ShapeDtypeStruct((16, 8), "float32")
    sizes = export.symbolic_shape("B, S")
    one = export.export(jax.jit(total))(w, {"x": jax.ShapeDtypeStruct((sizes[0], 16), "float32")})
    found = lowtide.fit(one, dim="B", limit="1MB")
    assert found.largest is not None and found.next is not None
    assert found.largest.total_bytes <= 10**6 < found.next.bound_bytes
    spec = {"x": jax.ShapeDtypeStruct((found.largest.size, 16), "float32")}
    assert lowtide.explain(total, w, spec).total_bytes == found.largest.total_bytes
    assert lowtide.explain(one.call, w, spec).total_bytes == found.largest.total_bytes
    with pytest.raises(DimensionError, match=r"no size 'C'; .* symbolic sizes are: B"):
        lowtide.fit(one, dim="C", limit="1MB")
    spec = {"x": jax.ShapeDtypeStruct(sizes, "float32")}
    two = export.export(jax.jit(lambda w, x: x["x"].sum() + w.sum()))(w, spec)
    with pytest.raises(DimensionError, match="other symbolic sizes besides B: S"):
        lowtide.fit(two, dim="B", limit="1MB")
    known = {"x": jax.ShapeDtypeStruct((4, 5), "float32")}
    assert lowtide.fit(two.call, w, known, dim="B=1:0", limit="1MB").largest is not None
