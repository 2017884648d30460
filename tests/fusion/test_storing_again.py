"""What is computed once more lowers the peak, or it is stored."""

from typing import Any

import pytest
from tests.fusion.test_peak_lowering import LESS, SHAPE, estimate_of

from lowtide import compiler
from lowtide.cost.module_times import run_seconds
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.fusion import peak_lowering
from lowtide.fusion.cluster_graph import ClusterGraph
from lowtide.fusion.legality import joined_by_all
from lowtide.fusion.refusal import FusionRefusal
from lowtide.fusion.storing_again import computed_again, store_again
from lowtide.fusion.target_record import CPU_TARGET
from lowtide.ir import Module

WIDE = "f32[256,1024]"

BEFORE_THE_PEAK = f"""HloModule m

{LESS}
ENTRY main {{
  x = {SHAPE} parameter(0)
  w = {WIDE} parameter(1)
  y = {SHAPE} sort(x), dimensions={{1}}, to_apply=less
  t = {SHAPE} tanh(y)
  n = {SHAPE} negate(t)
  a = {SHAPE} sort(n), dimensions={{1}}, to_apply=less
  b = {SHAPE} subtract(a, t)
  c = {SHAPE} sort(b), dimensions={{1}}, to_apply=less
  e = {WIDE} dot(c, w), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
  ROOT r = {WIDE} sort(e), dimensions={{1}}, to_apply=less
}}
"""


def computed_by_readers() -> tuple[ClusterGraph, ClusterGraph]:
    """Clusters of which t is computed by both that read it, and those of before."""
    before = ClusterGraph(parse_hlo(BEFORE_THE_PEAK).entry, CPU_TARGET)
    graph = before.copy()
    value = graph.computation.instructions["t"]
    joints = joined_by_all(graph.owner[value], graph.reading(value), CPU_TARGET)
    assert not isinstance(joints, FusionRefusal)
    graph.absorb(graph.owner[value], joints)
    return graph, before


def test_a_value_is_stored_again_where_the_peak_has_room() -> None:
    graph, before = computed_by_readers()
    estimate = estimate_of(graph)
    (again,) = computed_again(graph, before)
    value = graph.computation.instructions["t"]
    assert again.value is value
    assert [x.name for x in again.readers] == ["n", "b"]
    assert store_again(graph, estimate, [again], before, estimate.peak_bytes) == 1
    assert value in graph.owner
    assert [x.root.name for x in graph.reading(value)] == ["n", "b"]
    assert not computed_again(graph, before)
    assert value in before.owner
    assert estimate_of(graph).peak_bytes == estimate.peak_bytes


def test_it_is_not_where_too_much_would_live() -> None:
    graph, before = computed_by_readers()
    again = computed_again(graph, before)
    live = int(estimate_of(graph).steps[:-2].max())
    assert store_again(graph, estimate_of(graph), again, before, live) == 0


def test_late_readers_alone_read_again_what_is_stored_for_others() -> None:
    graph = ClusterGraph(parse_hlo(BEFORE_THE_PEAK).entry, CPU_TARGET)
    before, value = graph.copy(), graph.computation.instructions["t"]
    late = [x for x in graph.reading(value) if x.root.name == "b"]
    joints = joined_by_all(graph.owner[value], late, CPU_TARGET)
    assert not isinstance(joints, FusionRefusal)
    graph.absorb(graph.owner[value], joints)
    estimate, again = estimate_of(graph), computed_again(graph, before)
    assert store_again(graph, estimate, again, before, estimate.peak_bytes) == 1
    assert {x.root.name for x in graph.reading(value)} == {"n", "b"}


def lowered(function: Any, *shapes: tuple[int, ...]) -> Module:
    """The module of a function in JAX of float32 arrays."""
    jax = pytest.importorskip("jax")
    arguments = [jax.ShapeDtypeStruct(x, "float32") for x in shapes]
    text = jax.jit(function).lower(*arguments).compiler_ir("hlo").as_hlo_text()
    return parse_hlo(text)


def planned(module: Module) -> tuple[int, float]:
    """The bytes that live at once in a plan, and its seconds by the model."""
    plan = compiler.plan(module)
    return plan.report.ladder.live_bytes, run_seconds(plan.module.entry, CPU_TARGET.machine)


def likelihood(lengths: Any, noise: Any, size: Any, points: Any, seen: Any) -> Any:
    """What a Gaussian process says of what is seen, but for constants."""
    from jax import numpy

    scaled = points / numpy.exp(lengths)
    squares = numpy.sum(scaled * scaled, 1)
    distances = squares[:, None] + squares[None] - 2 * scaled @ scaled.T
    near = numpy.exp(size) * numpy.exp(-0.5 * numpy.maximum(0, distances))
    near = near + numpy.exp(noise) * numpy.eye(len(points))
    return 0.5 * seen @ numpy.linalg.solve(near, seen) + 0.5 * numpy.linalg.slogdet(near)[1]


def test_a_process_of_gauss_computes_nothing_again_for_a_thousandth_of_its_peak(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A matrix computed in four readers leaves the next peak, which is as high but for a row."""
    jax = pytest.importorskip("jax")
    module = lowered(jax.grad(likelihood, (0, 1, 2)), (4,), (), (), (1000, 4), (1000,))
    live, seconds = planned(module)
    monkeypatch.setattr(peak_lowering, "_pays", lambda before, after: True)
    least, longest = planned(module)
    assert live <= least * (1 + 2 / 1024)
    assert seconds < 0.9 * longest


def block(weights: Any, x: Any) -> Any:
    """The sum of squares of an inverted bottleneck with squeeze and excitation."""
    import jax
    from jax import lax, numpy

    def convolved(x: Any, w: Any, groups: int = 1) -> Any:
        names = ("NHWC", "HWIO", "NHWC")
        return lax.conv_general_dilated(
            x, w, (1, 1), "SAME", dimension_numbers=names, feature_group_count=groups
        )

    def normal(x: Any, scale: Any) -> Any:
        mean = x.mean((0, 1, 2))
        centred = (x - mean) * lax.rsqrt((x * x).mean((0, 1, 2)) - mean * mean + 1e-3)
        return centred * scale[0] + scale[1]

    wide, deep, small, large, narrow, *scales = weights
    h = jax.nn.silu(normal(convolved(x, wide), scales[0]))
    h = jax.nn.silu(normal(convolved(h, deep, deep.shape[-1]), scales[1]))
    s = jax.nn.sigmoid(jax.nn.silu(h.mean((1, 2)) @ small) @ large)
    h = normal(convolved(h * s[:, None, None, :], narrow), scales[2])
    return numpy.mean((x + h) ** 2)


def test_what_is_computed_everywhere_pays_beside_what_is_computed_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    jax = pytest.importorskip("jax")
    weights = (1, 1, 24, 144), (3, 3, 1, 144), (144, 6), (6, 144), (1, 1, 144, 24)
    scales = (2, 144), (2, 144), (2, 24)

    def gradient(*arrays: Any) -> Any:
        return jax.value_and_grad(block)(arrays[:-1], arrays[-1])

    module = lowered(gradient, *weights, *scales, (4, 28, 28, 24))
    live, seconds = planned(module)
    monkeypatch.setattr(peak_lowering, "_pays", lambda before, after: True)
    least, longest = planned(module)
    assert live <= least * (1 + 1 / 1024)
    assert seconds < 0.99 * longest
