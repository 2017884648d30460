import numpy as np
import pytest
from tests.evaluator.against_xla import run_text, run_xla

from lowtide.ir import UnsupportedOpError

KEY = 0x0123456789ABCDEF
LAST = 2**64 - 1

VECTORS = [
    (
        "rng_three_fry",
        [5],
        "u32[8]",
        "b09d029e 7d84f441 6ca3e732 a43b6b39 c8124617 2077496e b530f815 edce8403",
        [9],
    ),
    ("rng_three_fry", [5], "u32[3,4]", "b09d029e 7d84f441 6ca3e732 a43b6b39", [0xB]),
    (
        "rng_three_fry",
        [0xFFFFFFFE],
        "u32[5]",
        "d6f05f18 8ff237ca 0af0500d ae583773 ba3918c0",
        [0x100000001],
    ),
    (
        "rng_three_fry",
        [5],
        "u32[3,3]",
        "b09d029e 6ca3e732 c8124617 7d84f441 a43b6b39 2077496e b530f815 95fbb24b",
        [0xB],
    ),
    (
        "rng_three_fry",
        [5],
        "u64[4]",
        "7d84f441b09d029e a43b6b396ca3e732 2077496ec8124617 edce8403b530f815",
        [9],
    ),
    ("rng_three_fry", [5], "u16[8]", "029e f441 e732 6b39 4617 496e f815 8403", [9]),
    ("rng_three_fry", [5], "u8[8]", "9e 41 32 39 17 6e 15 03", [9]),
    ("rng_three_fry", [5], "u32[]", "b09d029e", [6]),
    (
        "rng_philox",
        [5, 7],
        "u32[8]",
        "414da380 b7702af1 cd642c43 43dc5e58 0dbe9975 d6b757ad b70049d8 4540219a",
        [7, 7],
    ),
    ("rng_philox", [5, 7], "u16[8]", "a380 2af1 2c43 5e58 9975 57ad 49d8 219a", [7, 7]),
    ("rng_philox", [5, 7], "u8[5]", "80 f1 43 58 75", [7, 7]),
    (
        "rng_philox",
        [LAST, 7],
        "u32[6]",
        "d8f2cea1 effe4af4 c8f46167 b27e7792 90740ddf 05bcc659",
        [1, 8],
    ),
    (
        "rng_philox",
        [LAST, 7],
        "u64[5]",
        "effe4af4d8f2cea1 b27e7792c8f46167 05bcc65990740ddf 1f676bc25409f86c 16c243107d59c5e3",
        [2, 8],
    ),
    (
        "rng_philox",
        [5],
        "u32[8]",
        "db2c142d 327740ee 7f0fe360 a0c46ff0 c56b7b3e 8bc48ab8 200cbac2 c3e88768",
        [7],
    ),
    ("rng_philox", [LAST], "u32[6]", "41eb59f3 307385e0 5b8b3389 a262f67c 7006d264 d71fd4de", [1]),
    ("rng_default", [5, 7], "u32[5]", "414da380 b7702af1 cd642c43 43dc5e58 0dbe9975", [7, 7]),
    ("rng_philox", [5, 7], "u32[0]", "", [5, 7]),
]


def bits_text(algorithm, length, shape, state_type="u64"):
    state = f"{state_type}[{length}]"
    return f"""HloModule m
ENTRY e {{
  s = {state} parameter(0)
  ROOT r = ({state}, {shape}) rng-bit-generator(s), algorithm={algorithm}
}}"""


@pytest.mark.parametrize(("algorithm", "counter", "shape", "words", "after"), VECTORS)
def test_vectors(algorithm, counter, shape, words, after):
    state = np.array([KEY, *counter], np.uint64)
    new_state, bits = run_text(bits_text(algorithm, state.size, shape), state)
    assert new_state.tolist() == [KEY, *after]
    expected = [int(word, 16) for word in words.split()]
    assert bits.ravel()[: len(expected)].tolist() == expected


@pytest.mark.parametrize("algorithm", ["rng_three_fry", "rng_philox"])
@pytest.mark.parametrize(
    "shape",
    ["s32[3,5,2]", "f32[4]", "bf16[5]", "f16[3]", "f64[3]", "s64[3]", "s4[5]", "u4[6]", "s8[0,3]"],
)
def test_bits_of_each_type_against_xla(algorithm, shape):
    state = np.array([KEY, LAST], np.uint64)
    text = bits_text(algorithm, 2, shape)
    found, expected = run_text(text, state), run_xla(text, state)
    assert [x.shape for x in found] == [x.shape for x in expected]
    assert [x.tobytes() for x in found] == [x.tobytes() for x in expected]


@pytest.mark.parametrize(
    ("algorithm", "length", "shape", "state_type", "message"),
    [
        ("rng_three_fry", 3, "u32[2]", "u64", r"u64\[2\], not u64\[3\]"),
        ("rng_philox", 4, "u32[2]", "u32", r"u64\[2\] or u64\[3\], not u32\[4\]"),
        ("rng_philox", 2, "pred[2]", "u64", "not pred"),
    ],
)
def test_what_xla_refuses_is_refused(algorithm, length, shape, state_type, message):
    dtype = {"u64": np.uint64, "u32": np.uint32}[state_type]
    with pytest.raises(UnsupportedOpError, match=message):
        run_text(bits_text(algorithm, length, shape, state_type), np.zeros(length, dtype))


def draw_text(distribution, element_type, low, high, shape):
    return f"""HloModule m
ENTRY e {{
  a = {element_type}[] constant({low})
  b = {element_type}[] constant({high})
  x = {shape} rng(a, b), distribution={distribution}
  y = {shape} rng(a, b), distribution={distribution}
  ROOT t = ({shape}, {shape}) tuple(x, y)
}}"""


def test_uniform_numbers_fill_the_interval_and_repeat_for_a_seed():
    text = draw_text("rng_uniform", "f32", -2, 3, "f32[40,50]")
    x, y = run_text(text, seed=1)
    assert x.min() >= -2
    assert x.max() < 3
    assert abs(x.mean() - 0.5) < 0.1
    assert not np.array_equal(x, y)
    again, _ = run_text(text, seed=1)
    np.testing.assert_array_equal(x, again)
    other, _ = run_text(text, seed=10**6)
    assert not np.array_equal(x, other)


def test_uniform_never_reaches_the_upper_limit_by_rounding():
    x, _ = run_text(draw_text("rng_uniform", "bf16", 0, 1, "bf16[5000]"))
    assert x.astype(np.float32).max() < 1


@pytest.mark.parametrize(("element_type", "low", "high"), [("s32", -3, 4), ("u8", 250, 255)])
def test_uniform_integers_take_every_value_of_the_interval(element_type, low, high):
    shape = f"{element_type}[2000]"
    x, _ = run_text(draw_text("rng_uniform", element_type, low, high, shape))
    assert sorted(set(x.tolist())) == list(range(low, high))


def test_normal_numbers_have_mean_and_deviation():
    x, _ = run_text(draw_text("rng_normal", "f64", 10, 2, "f64[20000]"))
    assert abs(x.mean() - 10) < 0.1
    assert abs(x.std() - 2) < 0.1


def test_state_advances_by_delta():
    text = """HloModule m
ENTRY e {
  a = u64[2] rng-get-and-update-state(), delta=4
  b = u64[2] rng-get-and-update-state(), delta=1, control-predecessors={a}
  c = u64[2] rng-get-and-update-state(), delta=1, control-predecessors={b}
  ROOT t = (u64[2], u64[2], u64[2]) tuple(a, b, c)
}"""
    found = run_text(text, seed=2**64 - 5)
    assert [x.tolist() for x in found] == [[2**64 - 5, 0], [2**64 - 1, 0], [0, 1]]
