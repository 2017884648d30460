"""Products with truth values, which are selections on XLA:CPU."""

from __future__ import annotations

import numpy as np
import pytest

import lowtide
from lowtide.ir import Opcode
from lowtide.transforms.masked_products import select_masked

TEXT = """
HloModule m

ENTRY e {
  x = TYPE[4] parameter(0)
  p = pred[4] parameter(1)
  mask = TYPE[4] convert(p)
  ROOT kept = TYPE[4] multiply(OPERANDS)
}
"""


@pytest.mark.parametrize("operands", ["x, mask", "mask, x"])
@pytest.mark.parametrize("element_type", ["f16", "f32", "f64", "c64", "c128"])
def test_a_product_with_a_truth_value_is_a_selection(element_type: str, operands: str) -> None:
    text = TEXT.replace("TYPE", element_type).replace("OPERANDS", operands)
    module = lowtide.parse_hlo(text)
    assert select_masked(module)
    assert module.entry.root.opcode is Opcode.SELECT
    lowtide.verify(module)


@pytest.mark.parametrize(
    "text",
    [
        TEXT.replace("TYPE", "bf16").replace("OPERANDS", "x, mask"),
        TEXT.replace("TYPE", "f32").replace("pred[4]", "s8[4]").replace("OPERANDS", "x, mask"),
        TEXT.replace("TYPE", "s32").replace("OPERANDS", "x, mask"),
    ],
)
def test_other_products_stay(text: str) -> None:
    module = lowtide.parse_hlo(text)
    assert select_masked(module) == 0
    assert module.entry.root.opcode is Opcode.MULTIPLY


def test_functions_of_jax_leave_out_what_a_mask_excludes() -> None:
    jax = pytest.importorskip("jax")
    x = np.array([np.inf, np.nan, -3, 2], np.float32)

    def kept(x, limit):
        return x * (x > limit), ((x != x) * x).sum() + x[3]

    with np.errstate(invalid="ignore"):
        ours = lowtide.jit(kept)(x, np.float32(1))
        theirs = jax.jit(kept)(x, np.float32(1))
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
    assert np.asarray(lowtide.jit(kept)(x[1:], np.float32(1))[0]).tolist() == [0, 0, 2]


RESHAPED = """
HloModule m

ENTRY e {
  x = f32[2,3] parameter(0)
  p = pred[MASK] parameter(1)
  mask = f32[MASK] convert(p)
  wide = f32[1,6] reshape(x)
  chosen = f32[1,6] reshape(mask)
  ROOT kept = f32[1,6] multiply(chosen, wide)
}
"""


@pytest.mark.parametrize(("sizes", "is_selection"), [("2,3", True), ("6", False)])
def test_masks_are_reshaped_with_what_they_mask(sizes: str, is_selection: bool) -> None:
    module = lowtide.parse_hlo(RESHAPED.replace("MASK", sizes))
    assert bool(select_masked(module)) is is_selection
    lowtide.verify(module)
    x = np.full((2, 3), np.nan, np.float32)
    p = np.zeros([int(n) for n in sizes.split(",")], bool)
    found = lowtide.evaluate(module, [x, p])[0]
    assert np.isnan(found).all() == (not is_selection)


def test_functions_of_jax_may_make_the_mask() -> None:
    jax = pytest.importorskip("jax")

    def loss(x, number):
        return -(jax.nn.log_softmax(x) * jax.nn.one_hot(number, 6)).sum()

    x = np.array([1, -np.inf, 3, 2, 0, 5], np.float32)
    assert float(lowtide.jit(loss)(x, 3)) == pytest.approx(3.1907659, rel=1e-6)
