import math

import ml_dtypes
import numpy as np
import pytest
from tests.evaluator.against_xla import dims, run_text

from lowtide.evaluator.contraction import ALGORITHMS, multiply
from lowtide.ir import ElementType
from lowtide.ir.attributes import DotAlgorithm, DotDimensions
from lowtide.ir.literal import DTYPES

UNSET = DotAlgorithm.UNSET


def random_dot(generator):
    """Operand sizes and dimension numbers of a dot, in shuffled order, and its einsum."""
    counts = generator.integers(0, 3, 4)
    letters = iter("abcdefghij")
    batch, contracted, left, right = [[next(letters) for _ in range(n)] for n in counts]
    size = {x: int(generator.integers(1, 4)) for x in "abcdefghij"}
    lhs = generator.permutation([*batch, *contracted, *left]).tolist()
    rhs = generator.permutation([*batch, *contracted, *right]).tolist()
    numbers = DotDimensions(
        lhs_contracting=tuple(map(lhs.index, contracted)),
        rhs_contracting=tuple(map(rhs.index, contracted)),
        lhs_batch=tuple(map(lhs.index, batch)),
        rhs_batch=tuple(map(rhs.index, batch)),
    )
    out = [*batch, *[x for x in lhs if x in left], *[x for x in rhs if x in right]]
    formula = f"{''.join(lhs)},{''.join(rhs)}->{''.join(out)}"
    return numbers, formula, [size[x] for x in lhs], [size[x] for x in rhs]


@pytest.mark.parametrize("seed", range(40))
def test_any_dimension_numbers_agree_with_einsum(seed):
    generator = np.random.default_rng(seed)
    numbers, formula, left, right = random_dot(generator)
    lhs, rhs = generator.standard_normal(left), generator.standard_normal(right)
    found = multiply(lhs, rhs, numbers, UNSET, ElementType.F64)
    np.testing.assert_allclose(found, np.einsum(formula, lhs, rhs), 1e-12, 1e-12)


MATRIX = DotDimensions(lhs_contracting=(1,), rhs_contracting=(0,))
TYPES = [
    ("s8", "s8", "s32"),
    ("u8", "s8", "s32"),
    ("s4", "s4", "s8"),
    ("s32", "s32", "s32"),
    ("u64", "u64", "u64"),
    ("s64", "s64", "s64"),
]


@pytest.mark.parametrize("types", TYPES)
def test_integers_wrap_around_in_the_result_type(types):
    generator = np.random.default_rng(0)
    kinds = [ElementType(x) for x in types]
    arrays = []
    for kind, sizes in zip(kinds, [(3, 50), (50, 4)], strict=False):
        low = -(1 << (kind.bits - 1)) if kind.is_signed else 0
        numbers = [int(generator.integers(0, 2**63)) * 2 + 1 for _ in range(math.prod(sizes))]
        values = np.array([low + x % (1 << kind.bits) for x in numbers], object).reshape(sizes)
        arrays.append(values)
    result = kinds[2]
    exact = arrays[0] @ arrays[1]
    low = -(1 << (result.bits - 1)) if result.is_signed else 0
    expected = (exact - low) % (1 << result.bits) + low
    narrow = [
        x.astype(np.int64 if k.is_signed else np.uint64).astype(DTYPES[k])
        for x, k in zip(arrays, kinds, strict=False)
    ]
    found = multiply(*narrow, MATRIX, UNSET, result)
    assert found.dtype == DTYPES[result]
    assert found.astype(object).tolist() == expected.tolist()


def test_narrow_floats_accumulate_in_f32_and_round_once():
    lhs = np.array([[256] + [1] * 255], ml_dtypes.bfloat16)
    rhs = np.ones((256, 1), ml_dtypes.bfloat16)
    wide = multiply(lhs, rhs, MATRIX, UNSET, ElementType.F32)
    narrow = multiply(lhs, rhs, MATRIX, UNSET, ElementType.BF16)
    assert float(wide[0, 0]) == 511
    assert float(narrow[0, 0]) == 512


def test_a_dot_of_truth_values_tells_whether_any_pair_holds():
    lhs = np.array([[True, False], [False, False]])
    rhs = np.array([[True, False], [True, True]])
    found = multiply(lhs, rhs, MATRIX, UNSET, ElementType.PRED)
    assert found.tolist() == [[True, False], [False, False]]


ERRORS = {
    DotAlgorithm.BF16_BF16_F32: (1e-3, 1e-1),
    DotAlgorithm.TF32_TF32_F32: (1e-4, 1e-2),
    DotAlgorithm.BF16_BF16_F32_X3: (1e-6, 1e-3),
    DotAlgorithm.BF16_BF16_F32_X6: (0, 1e-5),
    DotAlgorithm.BF16_BF16_F32_X9: (0, 1e-5),
    DotAlgorithm.TF32_TF32_F32_X3: (0, 1e-5),
    DotAlgorithm.F32_F32_F32: (0, 1e-5),
}


@pytest.mark.parametrize("algorithm", ERRORS)
def test_algorithms_round_the_operands_as_named(algorithm):
    generator = np.random.default_rng(0)
    lhs, rhs = (generator.standard_normal((16, 16)).astype(np.float32) for _ in range(2))
    found = multiply(lhs, rhs, MATRIX, algorithm, ElementType.F32)
    error = np.abs(found - lhs.astype(np.float64) @ rhs.astype(np.float64)).max()
    least, most = ERRORS[algorithm]
    assert least <= error <= most


def test_every_algorithm_is_known():
    assert set(ALGORITHMS) == set(DotAlgorithm) - {DotAlgorithm.UNSET}


def test_an_empty_contraction_is_zero():
    found = multiply(np.ones((2, 0)), np.ones((0, 3)), MATRIX, UNSET, ElementType.F64)
    np.testing.assert_array_equal(found, np.zeros((2, 3)))


def ragged(lhs, rhs, sizes, result, attributes):
    (found,) = run_text(
        f"""HloModule m
    ENTRY e {{
      a = f32[{dims(lhs.shape)}] parameter(0)
      b = f32[{dims(rhs.shape)}] parameter(1)
      g = s32[{len(sizes)}] parameter(2)
      ROOT r = f32[{result}] ragged-dot(a, b, g), {attributes}
    }}""",
        lhs,
        rhs,
        np.array(sizes, np.int32),
    )
    return found


def test_ragged_rows_take_the_matrix_of_their_group():
    generator = np.random.default_rng(0)
    lhs = generator.standard_normal((7, 3)).astype(np.float32)
    rhs = generator.standard_normal((3, 3, 2)).astype(np.float32)
    attributes = (
        "lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, "
        "rhs_group_dims={0}"
    )
    found = ragged(lhs, rhs, [2, 0, 4], "7,2", attributes)
    expected = np.concatenate([lhs[:2] @ rhs[0], lhs[2:6] @ rhs[2], np.zeros((1, 2))])
    np.testing.assert_allclose(found, expected, 1e-6)


def test_a_ragged_contraction_gives_one_product_per_group():
    generator = np.random.default_rng(0)
    lhs = generator.standard_normal((4, 6)).astype(np.float32)
    rhs = generator.standard_normal((6, 2)).astype(np.float32)
    attributes = (
        "lhs_contracting_dims={1}, rhs_contracting_dims={0}, lhs_ragged_dims={1}, rhs_group_dims={}"
    )
    found = ragged(lhs, rhs, [1, 5], "2,4,2", attributes)
    expected = np.stack([lhs[:, :1] @ rhs[:1], lhs[:, 1:] @ rhs[1:]])
    np.testing.assert_allclose(found, expected, 1e-5, 1e-6)


def test_scaled_dot_multiplies_blocks_by_their_scale():
    lhs = np.ones((2, 4), ml_dtypes.float8_e4m3fn)
    rhs = np.ones((4, 3), ml_dtypes.float8_e4m3fn)
    lhs_scale = np.array([[2, 4], [1, 0.5]], ml_dtypes.float8_e8m0fnu)
    rhs_scale = np.array([[1], [2]], ml_dtypes.float8_e8m0fnu)
    (found,) = run_text(
        """HloModule m
    ENTRY e {
      a = f8e4m3fn[2,4] parameter(0)
      b = f8e4m3fn[4,3] parameter(1)
      s = f8e8m0fnu[2,2] parameter(2)
      t = f8e8m0fnu[2,1] parameter(3)
      ROOT r = f32[2,3] scaled-dot(a, b, s, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    }""",
        lhs,
        rhs,
        lhs_scale,
        rhs_scale,
    )
    assert found.tolist() == [[20] * 3, [4] * 3]
