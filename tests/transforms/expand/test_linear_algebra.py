"""Cholesky and triangular-solve as loops: against the evaluator, also of the other triangle."""

import numpy as np
import pytest
from tests.transforms.expand.test_expanders import expanded, opcodes

from lowtide.checking.tolerances import assert_values_close
from lowtide.evaluator import evaluate
from lowtide.ir.element_type import BY_KEYWORD
from lowtide.ir.literal import DTYPES, Array

KINDS = ["f32", "f64", "c64", "bf16"]


def numbers(kind: str, sizes: tuple[int, ...], seed: int) -> Array:
    random = np.random.default_rng(seed)
    made = random.standard_normal(sizes)
    if kind.startswith("c"):
        made = made + 1j * random.standard_normal(sizes)
    return np.asarray(made)


def typed(kind: str, array: Array) -> Array:
    return array.astype(DTYPES[BY_KEYWORD[kind]])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("sizes", [(1, 1), (5, 5), (2, 3, 4, 4)])
def test_cholesky(kind: str, lower: bool, sizes: tuple[int, ...]) -> None:
    shape = f"{kind}[{','.join(map(str, sizes))}]"
    before, after = expanded(
        "expand-cholesky",
        f"a = {shape} parameter(0)\n l = {shape} cholesky(a), lower={str(lower).lower()}",
    )
    assert "cholesky" not in opcodes(after)
    root = numbers(kind, sizes, 0)
    matrix = root @ np.conj(np.swapaxes(root, -1, -2)) + 2 * np.eye(sizes[-1])
    other = np.triu(np.ones(sizes[-2:]), 1) if lower else np.tril(np.ones(sizes[-2:]), -1)
    matrix = np.where(other > 0, np.nan, matrix)
    if len(sizes) > 2:
        matrix[1, 2] = -np.eye(sizes[-1])
        matrix[0, 1, 1, 1] = np.inf
    argument = typed(kind, matrix)
    with np.errstate(all="ignore"):
        expected, got = evaluate(before, [argument]), evaluate(after, [argument])
    assert_values_close(got, expected, before.entry.root.shape)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("unit", [True, False])
@pytest.mark.parametrize("transpose", ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"])
def test_triangular_solve(kind: str, left: bool, lower: bool, unit: bool, transpose: str) -> None:
    for batch in ((), (2, 3)):
        head = "".join([f"{n}," for n in batch])
        b = f"{kind}[{head}{'4,3' if left else '3,4'}]"
        before, after = expanded(
            "expand-triangular-solve",
            f"""a = {kind}[{head}4,4] parameter(0)
            b = {b} parameter(1)
            x = {b} triangular-solve(a, b), left_side={str(left).lower()}, """
            f"lower={str(lower).lower()}, unit_diagonal={str(unit).lower()}, "
            f"transpose_a={transpose}",
        )
        assert "triangular-solve" not in opcodes(after)
        matrix = numbers(kind, (*batch, 4, 4), 1) / 4 + 2 * np.eye(4)
        other = np.triu(np.ones((4, 4)), 1) if lower else np.tril(np.ones((4, 4)), -1)
        matrix = np.where(other + unit * np.eye(4) > 0, np.nan, matrix)
        sizes = (4, 3) if left else (3, 4)
        arguments = [typed(kind, x) for x in (matrix, numbers(kind, (*batch, *sizes), 2))]
        expected, got = evaluate(before, arguments), evaluate(after, arguments)
        assert np.isfinite(np.asarray(expected).astype(complex)).all()
        assert_values_close(got, expected, before.entry.root.shape)
