"""Random bits and draws: the same numbers as the evaluator's, to the last bit."""

import numpy as np
import pytest
from tests.transforms.expand.test_expanders import expanded, opcodes

from lowtide.evaluator import evaluate
from lowtide.ir.literal import DTYPES
from lowtide.testing.check_rule import leaves

STATES = {
    "rng_three_fry": [[7, 5], [0x9123456789ABCDEF, 2**64 - 3]],
    "rng_philox": [[7, 5], [2**64 - 1, 2**64 - 2], [3, 2**64 - 2, 9], [3, 2**64 - 1, 2**64 - 1]],
}


@pytest.mark.parametrize("algorithm", STATES)
@pytest.mark.parametrize(
    "shape", ["u32[]", "u32[6]", "s32[3,5]", "u64[7]", "u8[3,4,5]", "f32[5,7]", "u16[2,9]"]
)
def test_bits_are_equal(algorithm: str, shape: str) -> None:
    for state in STATES[algorithm]:
        kind = f"u64[{len(state)}]"
        before, after = expanded(
            "expand-rng-bit-generator",
            f"""s = {kind} parameter(0)
            r = ({kind}, {shape}) rng-bit-generator(s), algorithm={algorithm}""",
        )
        assert "rng-bit-generator" not in opcodes(after)
        argument = np.array(state, np.uint64)
        pairs = zip(*[leaves(evaluate(x, [argument])) for x in (before, after)], strict=True)
        for expected, got in pairs:
            assert expected.shape == got.shape
            assert expected.tobytes() == got.tobytes()


@pytest.mark.parametrize(
    ("kind", "distribution", "low", "high"),
    [
        ("f32", "rng_uniform", -1.5, 2.0),
        ("bf16", "rng_uniform", 0.0, 1.0),
        ("f64", "rng_normal", 0.5, 2.0),
        ("f16", "rng_normal", 0.0, 1.0),
        ("s32", "rng_uniform", -3, 4),
        ("s8", "rng_uniform", -128, 127),
        ("u64", "rng_uniform", 0, 2**64 - 1),
        ("s64", "rng_uniform", 5, 5),
        ("pred", "rng_uniform", 0, 1),
    ],
)
def test_draws_are_equal(kind: str, distribution: str, low: float, high: float) -> None:
    before, after = expanded(
        "expand-rng",
        f"""a = {kind}[] parameter(0)
        b = {kind}[] parameter(1)
        x = {kind}[6,7] rng(a, b), distribution={distribution}
        y = {kind}[3] rng(a, b), distribution={distribution}
        r = ({kind}[6,7], {kind}[3]) tuple(x, y)""",
    )
    assert "rng" not in opcodes(after)
    dtype = DTYPES[before.entry.parameters[0].shape.element_type]
    arguments = [np.array(x, object).astype(dtype) for x in (low, high)]
    pairs = zip(*[leaves(evaluate(x, arguments)) for x in (before, after)], strict=True)
    for expected, got in pairs:
        assert len(np.unique(expected)) > 1 or low == high
        assert expected.tobytes() == got.tobytes()
