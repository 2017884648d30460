"""Calls of libraries as HLO: what LAPACK stores, up to rounding; eigenvectors up to their sign."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from tests.transforms.expand.test_expanders import expanded, opcodes

from lowtide.evaluator import evaluate
from lowtide.ir import Opcode
from lowtide.ir.literal import Array
from lowtide.passes.registry import passes
from lowtide.testing.check_rule import leaves, module_of

LETTERS = {"s": "f32", "d": "f64", "c": "c64", "z": "c128"}
DTYPES = {"s": np.float32, "d": np.float64, "c": np.complex64, "z": np.complex128}


def matrices(letter: str, sizes: tuple[int, ...], seed: int = 0) -> Array:
    random = np.random.default_rng(seed)
    made = random.standard_normal(sizes)
    if letter in "cz":
        made = made + 1j * random.standard_normal(sizes)
    return made.astype(DTYPES[letter])


def shape(letter: str, sizes: tuple[int, ...]) -> str:
    return f"{LETTERS[letter]}[{','.join(map(str, sizes))}]"


def both(
    routine: str, letter: str, given: list[Array], results: str, config: str = ""
) -> list[tuple[Array, Array]]:
    """Return what the call computes and what is written in its place, for some arguments."""
    shapes = [shape(letter, x.shape) for x in given]
    lines = [f"p{i} = {kind} parameter({i})" for i, kind in enumerate(shapes)]
    names = ", ".join([f"p{i}" for i in range(len(given))])
    call = f'custom-call({names}), custom_call_target="lapack_{letter}{routine}_ffi"'
    body = "\n".join([*lines, f"y = {results} {call}, backend_config={{{config}}}"])
    before, after = expanded("expand-custom-calls", body)
    assert "custom-call" not in opcodes(after)
    found = [leaves(evaluate(x, given)) for x in (before, after)]
    return list(zip(*found, strict=True))


def assert_close(pairs: list[tuple[Array, Array]], letter: str) -> None:
    tolerance = 2e-4 if letter in "sc" else 1e-11
    for expected, got in pairs:
        assert expected.dtype == got.dtype
        np.testing.assert_allclose(got, expected, tolerance, tolerance)


SIZES = [(1, 1), (5, 5), (2, 3, 6, 4), (3, 4, 6)]


@pytest.mark.parametrize("letter", LETTERS)
@pytest.mark.parametrize("sizes", SIZES)
def test_qr(letter: str, sizes: tuple[int, ...]) -> None:
    a = matrices(letter, sizes)
    a[..., :, 0] = 0  # Nothing to reflect in one column.
    taus = (*sizes[:-2], min(sizes[-2:]))
    result = f"({shape(letter, sizes)}, {shape(letter, taus)})"
    pairs = both("geqrf", letter, [a], result)
    assert_close(pairs, letter)
    if sizes[-1] > sizes[-2]:
        return
    routine = "orgqr" if letter in "sd" else "ungqr"
    given = [pairs[0][0], pairs[1][0]]
    assert_close(both(routine, letter, given, shape(letter, sizes)), letter)


@pytest.mark.parametrize("letter", LETTERS)
@pytest.mark.parametrize("left", ["true", "false"])
@pytest.mark.parametrize("transpose", ["true", "false"])
def test_times_q(letter: str, left: str, transpose: str) -> None:
    a, taus = matrices(letter, (2, 5, 3)), matrices(letter, (2, 3), 1)
    target = matrices(letter, (2, 5, 4) if left == "true" else (2, 4, 5), 2)
    routine = "ormqr" if letter in "sd" else "unmqr"
    config = f"left = {left}, transpose = {transpose}"
    pairs = both(routine, letter, [a, taus, target], shape(letter, target.shape), config)
    assert_close(pairs, letter)


@pytest.mark.parametrize("letter", LETTERS)
@pytest.mark.parametrize("sizes", SIZES)
def test_lu(letter: str, sizes: tuple[int, ...]) -> None:
    a = matrices(letter, sizes)
    if sizes[-1] > 2:
        a[..., 2] = a[..., 1]  # Singular: a pivot is zero, or nearly so.
    pivots = ",".join(map(str, (*sizes[:-2], min(sizes[-2:]))))
    batch = ",".join(map(str, sizes[:-2]))
    result = f"({shape(letter, sizes)}, s32[{pivots}], s32[{batch}])"
    pairs = both("getrf", letter, [np.zeros_like(a)], result)
    assert_close(pairs, letter)
    assert np.all(pairs[2][1] == 1)
    well = matrices(letter, sizes, 1)
    assert_close(both("getrf", letter, [well], result), letter)
    made, numbers, _ = [got for _, got in both("getrf", letter, [a], result)]
    assert np.all(np.isfinite(made))
    np.testing.assert_allclose(rows_swapped(a, numbers), product_of_lu(made), rtol=1e-4, atol=1e-4)


def rows_swapped(a: Array, pivots: Array) -> Array:
    a = a.copy()
    for batch in np.ndindex(a.shape[:-2]):
        for i, j in enumerate(pivots[batch]):
            a[batch][[i, j - 1]] = a[batch][[j - 1, i]]
    return a


def product_of_lu(a: Array) -> npt.NDArray[Any]:
    count = min(a.shape[-2:])
    lower = np.tril(a, -1)[..., :count] + np.eye(a.shape[-2], count)
    return np.asarray(lower @ np.triu(a)[..., :count, :])


@pytest.mark.parametrize("letter", LETTERS)
@pytest.mark.parametrize("uplo", "LU")
def test_cholesky(letter: str, uplo: str) -> None:
    root = matrices(letter, (3, 4, 4))
    a = (root @ np.conj(np.swapaxes(root, -1, -2)) + 3 * np.eye(4)).astype(root.dtype)
    result = f"({shape(letter, a.shape)}, s32[3])"
    config = f"uplo = {ord(uplo)} : ui8"
    assert_close(both("potrf", letter, [a], result, config), letter)
    a[1] = -a[1]
    _, (expected, got) = both("potrf", letter, [a], result, config)
    np.testing.assert_array_equal(expected != 0, got != 0)


@pytest.mark.parametrize("letter", "sz")
@pytest.mark.parametrize("side", "LR")
@pytest.mark.parametrize("trans", "NTC")
def test_triangular_solve(letter: str, side: str, trans: str) -> None:
    a = matrices(letter, (2, 4, 4)) + 4 * np.eye(4, dtype=DTYPES[letter])
    b = matrices(letter, (2, 4, 3) if side == "L" else (2, 3, 4))
    options = {"diag": "N", "side": side, "trans_x": trans, "uplo": "U"}
    config = ", ".join([f"{key} = {ord(value)} : ui8" for key, value in options.items()])
    assert_close(both("trsm", letter, [a, b], shape(letter, b.shape), config), letter)


@pytest.mark.parametrize("letter", "sd")
@pytest.mark.parametrize("uplo", "LU")
@pytest.mark.parametrize("sizes", [(1, 1), (2, 2), (7, 7), (2, 3, 4, 4)])
def test_eigenvalues(letter: str, uplo: str, sizes: tuple[int, ...]) -> None:
    a = matrices(letter, sizes)
    if len(sizes) > 2:
        a[1, 1] = np.eye(4)  # Equal values, any vectors.
    batch = ",".join(map(str, sizes[:-2]))
    result = f"({shape(letter, sizes)}, {shape(letter, sizes[:-1])}, s32[{batch}])"
    config = f"mode = 86 : ui8, uplo = {ord(uplo)} : ui8"
    (_, vectors), values, info = both("syevd", letter, [a], result, config)
    assert_close([values, info], letter)
    half = np.tril(a) if uplo == "L" else np.triu(a)
    whole = half + np.swapaxes(half, -1, -2) - half * np.eye(sizes[-1])
    again = (vectors * values[1][..., np.newaxis, :]) @ np.swapaxes(vectors, -1, -2)
    assert_close([(whole.astype(a.dtype), again)], letter)
    square = np.broadcast_to(np.eye(sizes[-1], dtype=a.dtype), sizes)
    assert_close([(square, vectors @ np.swapaxes(vectors, -1, -2))], letter)


def test_sizes_of_numbers_do_not_matter_but_infinity_and_nan_do() -> None:
    a = matrices("s", (5, 3, 3))
    given = a * np.array([1e30, 1e-30, 1, 1, 0], np.float32)[:, np.newaxis, np.newaxis]
    given[2], given[3, 1, 0] = np.nan, np.inf
    result = "(f32[5,3,3], f32[5,3], s32[5])"
    with np.errstate(all="ignore"):
        _, values, info = both("syevd", "s", [given], result, "mode = 86 : ui8, uplo = 76 : ui8")
    assert info[1].tolist() == [0, 0, 1, 1, 0]
    for i, size in ((0, 1e30), (1, 1e-30), (4, 1)):
        assert_close([(values[0][i] / np.float32(size), values[1][i] / np.float32(size))], "s")


SVD_SIZES = [(1, 1), (5, 5), (7, 3), (2, 3, 2, 6), (6, 1)]


@pytest.mark.parametrize("letter", "sd")
@pytest.mark.parametrize("mode", "ASN")
@pytest.mark.parametrize("sizes", SVD_SIZES)
def test_singular_values(letter: str, mode: str, sizes: tuple[int, ...]) -> None:
    a = matrices(letter, sizes)
    if sizes[-1] > 2:
        a[..., 2] = a[..., 0] - a[..., 1]  # One of them is 0.
    *batch, m, n = sizes
    k = min(m, n)
    square = mode == "A"
    shapes = [sizes, (*batch, k), (*batch, m, m if square else k), (*batch, n if square else k, n)]
    numbers = ",".join(map(str, batch))
    result = f"({', '.join([shape(letter, x) for x in shapes])}, s32[{numbers}])"
    config = f"mode = {ord(mode)} : ui8"
    same, values, (_, u), (_, v), info = both("gesdd", letter, [a], result, config)
    assert_close([same, values, info], letter)
    if mode == "N":
        return
    again = (u[..., :k] * values[1][..., np.newaxis, :]) @ v[..., :k, :]
    assert_close([(a, again)], letter)
    for x in (u, np.swapaxes(v, -1, -2)):
        unit = np.broadcast_to(np.eye(x.shape[-1], dtype=x.dtype), (*batch, *x.shape[-1:] * 2))
        assert_close([(unit, np.swapaxes(x, -1, -2) @ x)], letter)


def test_singular_values_of_infinity() -> None:
    a = matrices("s", (3, 4, 3)) * np.array([1, 1e-30, 1], np.float32)[:, np.newaxis, np.newaxis]
    a[0, 1, 2], a[2] = np.inf, 0
    result = "(f32[3,4,3], f32[3,3], f32[3,4,3], f32[3,3,3], s32[3])"
    config = "mode = 83 : ui8"
    with np.errstate(all="ignore"):
        _, values, (_, u), _, (_, info) = both("gesdd", "s", [a], result, config)
    assert info.tolist() == [1, 0, 0]
    assert_close([(values[0][1] * np.float32(1e30), values[1][1] * np.float32(1e30))], "s")
    assert np.all(values[1][2] == 0)
    assert_close([(np.eye(3, dtype=np.float32), u[2].T @ u[2])], "s")


def test_layouts_of_calls_are_those_of_copies() -> None:
    before, after = expanded(
        "expand-custom-calls",
        """a = f32[4,4]{0,1} parameter(0)
        y = (f32[4,4]{0,1}, f32[4]{0}) custom-call(a), custom_call_target="lapack_sgeqrf_ffi", """
        "operand_layout_constraints={f32[4,4]{0,1}}, "
        "output_to_operand_aliasing={{0}: (0, {})}, backend_config={}",
    )
    a = matrices("s", (4, 4))
    assert_close(list(zip(*[leaves(evaluate(x, [a])) for x in (before, after)], strict=True)), "s")


def test_other_calls_stay() -> None:
    for target, result in (("lapack_sgeev_ffi", "f32[2,2]"), ("TopK", "(f32[2,1], u32[2,1])")):
        module = module_of(
            f"""x = f32[2,2] parameter(0)
            y = {result} custom-call(x), custom_call_target="{target}" """
        )
        assert passes()["expand-custom-calls"].run(module) == 0
        assert module.entry.root.opcode is Opcode.CUSTOM_CALL


ODD = (
    ("TopK", ["f32[2,8]"], "(f32[2,3], f32[2,3])"),
    ("TopK", ["f32[2,8]"], "(f32[2,9], s32[2,9])"),
    ("TopK", ["f32[2,8]"], "f32[2,3]"),
    ("TopK", ["f32[2,8]", "f32[]"], "(f32[2,3], s32[2,3])"),
    ("TopK", ["f32[]"], "(f32[], s32[])"),
    ("lapack_spotrf_ffi", ["f32[3,4]"], "(f32[3,4], s32[])"),
    ("lapack_spotrf_ffi", ["f64[3,3]"], "(f64[3,3], s32[])"),
    ("lapack_spotrf_ffi", [], "(f32[3,3], s32[])"),
    ("lapack_spotrf_ffi", ["f32[3]"], "(f32[3], s32[])"),
    ("lapack_spotrf_ffi", ["f32[3,3]"], "f32[3,3]"),
    ("lapack_strsm_ffi", ["f32[3,3]", "f32[4,2]"], "f32[4,2]"),
    ("lapack_strsm_ffi", ["f32[3,3]"], "f32[3,3]"),
    ("lapack_sgetrf_ffi", ["f32[3,4]"], "(f32[3,4], s32[4], s32[])"),
    ("lapack_sgeqrf_ffi", ["f32[3,4]"], "(f32[3,4], f32[4])"),
    ("lapack_sorgqr_ffi", ["f32[3,4]", "f32[3]"], "f32[3,4]"),
    ("lapack_sormqr_ffi", ["f32[4,4]", "f32[4]", "f32[3,5]"], "f32[3,5]"),
    ("lapack_ssyevd_ffi", ["f32[3,3]"], "(f32[3,3], f32[2], s32[])"),
    ("lapack_sgesdd_ffi", ["f32[3,3]"], "(f32[3,3], f32[3], f32[3,2], f32[3,3], s32[])"),
)
CONFIG = "{diag = 78 : ui8, side = 76 : ui8, trans_x = 78 : ui8, uplo = 76 : ui8, left = true}"


@pytest.mark.parametrize(("target", "operands", "result"), ODD)
def test_a_call_that_is_not_what_its_name_says_stays(
    target: str, operands: list[str], result: str
) -> None:
    lines = [f"p{i} = {kind} parameter({i})" for i, kind in enumerate(operands)]
    names = ", ".join([f"p{i}" for i in range(len(operands))])
    call = f'custom-call({names}), custom_call_target="{target}", backend_config={CONFIG}'
    module = module_of("\n".join([*lines, f"y = {result} {call}"]))
    text = str(module)
    assert passes()["expand-custom-calls"].run(module) == 0
    assert str(module) == text
