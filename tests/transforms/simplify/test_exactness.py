"""Exact rules keep the last bit of numbers of any size, and so do all of them together.

Where a rule rounds otherwise, small whole numbers and eighths do not show it: these arguments have
random digits, and exponents from near to far.
"""

import numpy as np
import pytest
from tests.transforms.simplify.cases.notation import body, outside
from tests.transforms.simplify.test_rules import CASES, RULES

from lowtide.evaluator import evaluate
from lowtide.ir import Module, Opcode, Shape
from lowtide.ir.clone import clone_module
from lowtide.ir.literal import DTYPES, Array
from lowtide.passes.rewriting import rewrite
from lowtide.testing.check_rule import bits, leaves, module_of, special_arguments

EXACT = [
    (name, before, after)
    for name, before, after in CASES
    if RULES[name].exact and after is not None
]
OPEN = {
    "power-two": "no accuracy is asked of powers, and a product is rounded once",
    "power-half": "no accuracy is asked of powers, and a root is rounded once",
    "power-minus-one": "no accuracy is asked of powers, and a quotient is rounded once",
    "reduce-of-concatenate": "no order is asked of reductions",
}
"""Rules that may change the last bit, since HLO leaves it open."""
CONTRACTIONS = {Opcode.CONVOLUTION, Opcode.DOT, Opcode.RAGGED_DOT}
"""A library adds up their terms in an order that depends on sizes, strides and the processor."""
SPREADS = (1, 3, 20, 60)


def wide_arguments(module: Module, seed: int) -> list[Array]:
    """Return an argument for each leaf: numbers with random digits, every eighth a special one."""
    random = np.random.default_rng(seed)
    special = special_arguments(module, seed)
    shapes = [leaf for p in module.entry.parameters for _, leaf in p.shape.leaves()]
    arrays = [shape for shape in shapes if shape.is_array]
    spread = SPREADS[seed % len(SPREADS)]
    return [_wide(x, shape, random, spread) for x, shape in zip(special, arrays, strict=True)]


def _wide(special: Array, shape: Shape, random: np.random.Generator, spread: int) -> Array:
    kind, dtype = shape.element_type, DTYPES[shape.element_type]
    if kind.is_integer and kind.bits >= 8 and shape.rank:
        # Scalars stay small: they are places in arrays, or counts.
        drawn = random.integers(0, 256, special.size * kind.bits // 8, np.uint8)
        return drawn.view(dtype).reshape(special.shape)
    if not (kind.is_floating or kind.is_complex):
        return special
    exponents = random.integers(-spread, spread + 1, special.shape)
    numbers = random.uniform(-1, 1, special.shape) * 2.0**exponents
    with np.errstate(all="ignore"):
        chosen = np.where(random.random(special.shape) < 1 / 8, special, numbers.astype(dtype))
    return chosen.astype(dtype)


def adds_products(module: Module) -> bool:
    """Return whether a module has sums of floating point whose order is open."""
    computations = module.computations.values()
    found = [x for y in computations for x in y.instructions.values() if x.opcode in CONTRACTIONS]
    return any(x.shape.element_type.is_floating or x.shape.element_type.is_complex for x in found)


def assert_same_sums(a: Array, b: Array, magnitude: Array) -> None:
    """Raise AssertionError unless sums are equal but for the rounding of some terms.

    `magnitude` is the sum of the terms' magnitudes. Where it is finite, so are both sums.
    """
    error = 64 * np.finfo(a.dtype).eps
    is_finite = np.isfinite(magnitude)
    np.testing.assert_array_equal(a[~is_finite], b[~is_finite])
    assert (np.abs(a - b)[is_finite] <= error * magnitude[is_finite]).all(), f"{a} became {b}"


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("wrong", [1 + 2e-5, np.nan, np.inf])
def test_other_sums_are_told_apart(wrong: float) -> None:
    sums = np.array([1.0, np.inf], np.float32)
    assert_same_sums(sums, sums * np.float32(1 + 2**-22), np.array([1.0, np.inf]))
    with pytest.raises(AssertionError):
        assert_same_sums(sums, np.array([wrong, np.inf], np.float32), np.array([1.0, np.inf]))
    with pytest.raises(AssertionError):
        assert_same_sums(sums, np.array([1.0, 1.0], np.float32), np.array([1.0, np.inf]))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("name", "before", "after"), EXACT, ids=[case[0] for case in EXACT])
def test_exact_rules_keep_the_last_bit(name: str, before: str, after: str) -> None:
    module = module_of(body(before), outside(f"{before}; {after}"))
    original = clone_module(module)
    rewrite(module, [RULES[name]])
    for seed in range(12):
        arguments = wide_arguments(original, seed)
        old, new = [leaves(evaluate(x, arguments)) for x in (original, module)]
        if name in OPEN:
            for a, b in zip(old, new, strict=True):
                np.testing.assert_array_max_ulp(a, b, 4)
            continue
        if adds_products(original) or adds_products(module):
            terms = leaves(evaluate(original, [np.abs(x) for x in arguments]))
            for a, b, most in zip(old, new, terms, strict=True):
                assert_same_sums(a, b, most)
            continue
        assert [bits(x) for x in new] == [bits(x) for x in old], f"{arguments}: {old} became {new}"
