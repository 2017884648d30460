"""Calls of libraries as HLO: what LAPACK stores, up to rounding."""

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


@pytest.mark.parametrize("letter", LETTERS)
def test_what_xla_names_is_what_lapack_does(letter: str) -> None:
    a = matrices(letter, (2, 5, 3))
    kind, taus = shape(letter, a.shape), shape(letter, (2, 3))
    body = f"""a = {kind} parameter(0)
    y = ({kind}, {taus}) custom-call(a), custom_call_target="Qr"
    r = {kind} get-tuple-element(y), index=0
    t = {taus} get-tuple-element(y), index=1
    q = {kind} custom-call(r, t), custom_call_target="ProductOfElementaryHouseholderReflectors"
    z = ({kind}, {kind}) tuple(r, q)"""
    before, after = expanded("expand-custom-calls", body)
    assert "custom-call" not in opcodes(after)
    pairs = list(zip(*[leaves(evaluate(x, [a])) for x in (before, after)], strict=True))
    assert_close(pairs, letter)
    (_, r), (_, q) = pairs
    assert_close([(a, q @ np.triu(r[:, :3]))], letter)


@pytest.mark.parametrize("letter", LETTERS)
@pytest.mark.parametrize("lower", [True, False])
def test_xlas_spectrum_reads_one_triangle(letter: str, lower: bool) -> None:
    half = matrices(letter, (2, 4, 4))
    whole = half + np.conj(np.swapaxes(half, -1, -2))
    a = np.tril(whole) if lower else np.triu(whole)
    real = "f32" if letter in "sc" else "f64"
    kind = shape(letter, a.shape)
    body = f"""a = {kind} parameter(0)
    y = ({kind}, {real}[2,4]) custom-call(a), custom_call_target="Eigh", """
    before, after = expanded("expand-custom-calls", f'{body} backend_config="{lower:d},1,9,1e-6"')
    assert f"lapack_{letter}{'syevd' if letter in 'sd' else 'heevd'}_ffi" in str(after)
    for module in (before, after):
        vectors, values = leaves(evaluate(module, [a]))
        np.testing.assert_allclose(values, np.linalg.eigvalsh(whole), rtol=2e-4, atol=2e-4)
        np.testing.assert_allclose(whole @ vectors, vectors * values[:, None], rtol=0, atol=2e-4)


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
    ("Qr", ["f16[3,2]"], "(f16[3,2], f16[2])"),
    ("Eigh", ["f32[3,4]"], "(f32[3,4], f32[4])"),
    ("Eigh", ["c64[3,3]"], "(c64[3,3], c64[3])"),
    ("Eigh", [], "(f32[3,3], f32[3])"),
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
