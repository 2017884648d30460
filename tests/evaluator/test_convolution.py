import numpy as np
import pytest
from tests.evaluator.against_xla import check_text, dims, run_text


def random_convolution(seed):
    """HLO text of a convolution with random options, and its operands."""
    generator = np.random.default_rng(seed)
    rank = int(generator.integers(1, 4))
    groups = int(generator.choice([1, 1, 2, 3]))
    over_batch = groups > 1 and bool(generator.integers(2))
    kernel = generator.integers(1, 4, rank)
    inputs = generator.integers(4, 8, rank)
    options = {
        "stride": generator.integers(1, 3, rank),
        "lhs_dilate": generator.integers(1, 3, rank),
        "rhs_dilate": generator.integers(1, 3, rank),
        "rhs_reversal": generator.integers(0, 2, rank),
    }
    low, high = generator.integers(-1, 3, (2, rank))
    spread = (inputs - 1) * options["lhs_dilate"] + 1 + low + high
    reach = (kernel - 1) * options["rhs_dilate"] + 1
    output = (spread - reach) // options["stride"] + 1
    batch = int(generator.integers(1, 3)) * (groups if over_batch else 1)
    features = int(generator.integers(1, 3))
    out_features = int(generator.integers(1, 3)) * groups
    letters = "012"[:rank]
    labels = ["".join(generator.permutation(list(x + letters))) for x in ("bf", "io", "bf")]
    size_of = [
        {
            "b": batch,
            "f": features * (1 if over_batch else groups),
            **dict(zip(letters, inputs, strict=True)),
        },
        {"i": features, "o": out_features, **dict(zip(letters, kernel, strict=True))},
        {
            "b": batch // groups if over_batch else batch,
            "f": out_features,
            **dict(zip(letters, output, strict=True)),
        },
    ]
    x, k, r = [[int(s[c]) for c in label] for s, label in zip(size_of, labels, strict=True)]
    window = " ".join(
        [f"size={'x'.join(map(str, kernel))}"]
        + [f"{name}={'x'.join(map(str, v))}" for name, v in options.items()]
        + ["pad=" + "x".join(f"{a}_{b}" for a, b in zip(low, high, strict=True))]
    )
    grouping = f"{'batch' if over_batch else 'feature'}_group_count={groups}"
    text = f"""HloModule m
    ENTRY e {{
      x = f32[{dims(x)}] parameter(0)
      k = f32[{dims(k)}] parameter(1)
      ROOT r = f32[{dims(r)}] convolution(x, k), window={{{window}}}, {grouping},
        dim_labels={labels[0]}_{labels[1]}->{labels[2]}
    }}"""
    arrays = [generator.standard_normal(size).astype(np.float32) for size in (x, k)]
    return text, arrays, min(output)


USABLE = [seed for seed in range(60) if random_convolution(seed)[2] > 0]


@pytest.mark.parametrize("seed", USABLE[:30])
def test_all_options_agree_with_xla(seed):
    text, arrays, _ = random_convolution(seed)
    check_text(text, *arrays, tolerance=1e-4)


def test_a_kernel_larger_than_the_output():
    generator = np.random.default_rng(0)
    x = generator.standard_normal((2, 3, 9, 9)).astype(np.float32)
    k = generator.standard_normal((4, 3, 8, 8)).astype(np.float32)
    (found,) = check_text(
        """HloModule m
    ENTRY e {
      x = f32[2,3,9,9] parameter(0)
      k = f32[4,3,8,8] parameter(1)
      ROOT r = f32[2,4,2,2] convolution(x, k), window={size=8x8}, dim_labels=bf01_oi01->bf01
    }""",
        x,
        k,
        tolerance=1e-4,
    )
    assert found.shape == (2, 4, 2, 2)


def test_integers_are_exact():
    x = np.full((1, 1, 4), 100, np.int8)
    (found,) = run_text(
        """HloModule m
    ENTRY e {
      x = s8[1,1,4] parameter(0)
      k = s8[1,1,3] parameter(1)
      ROOT r = s32[1,1,2] convolution(x, k), window={size=3}, dim_labels=bf0_io0->bf0
    }""",
        x,
        np.full((1, 1, 3), 100, np.int8),
    )
    assert found.tolist() == [[[30000, 30000]]]


def test_without_spatial_dimensions_it_is_a_matrix_product():
    x, k = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    (found,) = run_text(
        """HloModule m
    ENTRY e {
      x = f64[2,3] parameter(0)
      k = f64[3,4] parameter(1)
      ROOT r = f64[2,4] convolution(x, k), dim_labels=bf_io->bf
    }""",
        x,
        k,
    )
    np.testing.assert_array_equal(found, x @ k)


@pytest.mark.parametrize("window", ["size=3 lhs_dilate=2 pad=1_1", "size=3 lhs_dilate=3 pad=3_2"])
def test_holes_meet_no_infinity(window):
    size = 7 if "=2" in window else 13
    text = f"""HloModule m
    ENTRY e {{
      x = f32[1,4,1] parameter(0)
      k = f32[3,1,1] parameter(1)
      ROOT r = f32[1,{size},1] convolution(x, k), window={{{window}}}, dim_labels=b0f_0io->b0f
    }}"""
    x, k = np.ones((1, 4, 1), np.float32), np.full((3, 1, 1), np.inf, np.float32)
    (found,) = run_text(text, x, k)
    assert not np.isnan(found).any()
    check_text(text, x, k)


def test_padding_meets_infinities():
    (found,) = run_text(
        """HloModule m
    ENTRY e {
      x = f32[1,4,1] parameter(0)
      k = f32[3,1,1] parameter(1)
      ROOT r = f32[1,4,1] convolution(x, k), window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f
    }""",
        np.ones((1, 4, 1), np.float32),
        np.full((3, 1, 1), np.inf, np.float32),
    )
    assert np.isnan(found[0, :, 0]).tolist() == [True, False, False, True]


def test_a_window_as_large_as_what_it_slides_over():
    """It has one place, whatever its stride."""
    text = """HloModule m
    ENTRY e {
      x = f32[1,3,4,2] parameter(0)
      k = f32[3,4,2,5] parameter(1)
      ROOT r = f32[1,1,1,5] convolution(x, k), window={size=3x4 stride=2x3},
        dim_labels=b01f_01io->b01f
    }"""
    x = np.arange(24, dtype=np.float32).reshape(1, 3, 4, 2)
    k = np.arange(120, dtype=np.float32).reshape(3, 4, 2, 5)
    (found,) = run_text(text, x, k)
    np.testing.assert_array_equal(found, np.tensordot(x, k, 3).reshape(1, 1, 1, 5))
