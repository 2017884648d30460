"""What is kept across the peak takes fewer bytes, and comes back with each of its bits."""

from __future__ import annotations

import numpy as np
import pytest

from lowtide.analysis.memory_graph import MemoryGraph
from lowtide.builder import Builder, Op
from lowtide.evaluator import evaluate
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import ElementType, Module, Opcode, array_shape
from lowtide.ir.clone import clone_module
from lowtide.scheduling.search import search_order
from lowtide.testing.check_pass import seeded_arguments
from lowtide.testing.check_rule import bits, leaves
from lowtide.transforms.memory.compress.bits import can_pack, pack, unpack
from lowtide.transforms.memory.compress.saved_values import compress_saved_values
from lowtide.transforms.memory.peak_values import Order, Planner, peak_values
from lowtide.verifier import verify

E = ElementType


def assert_same_bits(before: Module, after: Module, arguments: list[np.ndarray]) -> None:
    verify(after)
    expected, got = evaluate(before, arguments), evaluate(after, arguments)
    for a, b in zip(leaves(expected), leaves(got), strict=True):
        assert bits(a) == bits(b)


@pytest.mark.parametrize("sizes", [(8,), (3, 16), (16, 3, 5), (1, 24, 1), (8, 8)])
def test_truth_values_come_back_from_an_eighth_of_the_bytes(sizes: tuple[int, ...]) -> None:
    build = Builder("m")
    value = build.parameter(0, array_shape(E.PRED, sizes))
    packed = pack(value)
    assert 8 * packed.shape.nbytes == value.shape.nbytes
    module = build.build(unpack(packed, value.shape))
    random = np.random.default_rng(0)
    for _ in range(4):
        given = random.integers(0, 2, sizes).astype(bool)
        assert np.array_equal(np.asarray(evaluate(module, [given])), given)


def test_no_dimension_of_eight_cannot_be_packed() -> None:
    shape = array_shape(E.PRED, (4, 6))
    assert not can_pack(shape)
    with pytest.raises(ValueError, match="no dimension"):
        pack(Builder("m").parameter(0, shape))


SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-40]


@pytest.mark.parametrize(
    ("clamp", "direction", "changes"),
    [
        *[("maximum", "GT", True), ("maximum", "LE", True), ("minimum", "LT", True)],
        *[("minimum", "GE", True), ("maximum", "LT", False), ("minimum", "GT", False)],
    ],
)
def test_masks_are_read_from_clamped_values_where_they_say_the_same(
    clamp: str, direction: str, changes: bool
) -> None:
    module = parse_hlo(f"""
HloModule m

ENTRY main {{
  x = f32[4,64] parameter(0)
  k = f32[4,64] parameter(1)
  w = f32[64,64] parameter(2)
  h = f32[4,64] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  mask = pred[4,64] compare(h, k), direction={direction}
  y = f32[4,64] {clamp}(h, k)
  z = f32[4,64] dot(y, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
  d = f32[4,64] select(mask, z, k)
  ROOT e = f32[4,64] subtract(d, y)
}}
""")
    changed = clone_module(module)
    compress_saved_values(changed, least=1)
    compares = [x for x in changed.entry.instructions.values() if x.opcode is Opcode.COMPARE]
    assert any(x.operands[0].name == "y" for x in compares) == changes
    pairs = np.array([(a, b) for a in SPECIAL for b in SPECIAL], np.float32)
    x = np.zeros((4, 64), np.float32)
    x[0] = pairs[:, 0]
    k = np.zeros((4, 64), np.float32)
    k[0] = pairs[:, 1]
    assert_same_bits(module, changed, [x, k, np.eye(64, dtype=np.float32)])


def least_order(graph: MemoryGraph) -> Order:
    return search_order(graph).order


def live_bytes(module: Module) -> int:
    return peak_values(module, PLANNER).nbytes


PLANNER = Planner(live_bytes, least_order)


def network(layers: int, activate: str) -> Module:
    """Layers and their gradients, each of which reads a mask, or what was rounded, of the layer."""
    build = Builder("m")
    weights = [build.parameter(i + 1, array_shape(E.F32, (16, 16))) for i in range(layers)]
    x = build.parameter(0, array_shape(E.F32, (32, 16)))
    kept: list[tuple[Op, Op]] = []
    for weight in weights:
        h = build.matmul(x, weight)
        if activate == "mask":
            kept.append((x, h.gt(0.0)))
            x = build.select(kept[-1][1], h, h * 0.125)
        else:
            kept.append((x, build.convert(build.convert(h, E.BF16), E.F32)))
            x = build.abs(kept[-1][1])
    gradients = []
    for weight, (before, saved) in zip(reversed(weights), reversed(kept), strict=True):
        x = build.select(saved, x, x * 0.125) if activate == "mask" else x * saved
        gradients.append(build.matmul(build.transpose(before, (1, 0)), x))
        x = build.matmul(x, build.transpose(weight, (1, 0)))
    return build.build(build.tuple(gradients))


@pytest.mark.parametrize("activate", ["mask", "bf16"])
def test_what_layers_keep_for_their_gradients_is_kept_in_fewer_bytes(activate: str) -> None:
    module = network(4, activate)
    changed = clone_module(module)
    assert compress_saved_values(changed, PLANNER, least=1)
    barriers = [
        x for x in changed.entry.instructions.values() if x.opcode is Opcode.OPTIMIZATION_BARRIER
    ]
    narrow = {"mask": E.U8, "bf16": E.BF16}[activate]
    assert barriers
    assert {x.shape.element_type for x in barriers} == {narrow}
    assert_same_bits(module, changed, seeded_arguments(module, 0))
