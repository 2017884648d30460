"""Dots of bytes: every mix of signs, extreme operands, and processors with other instructions."""

import itertools

import numpy as np
import pytest
from tests.codegen.byte_targets import TARGETS
from tests.codegen.cpu.contraction.products import check

from lowtide.ir.literal import Array

EXTREMES = {"u8": (0, 255), "s8": (-128, 127)}
SIGNS = list(itertools.product(EXTREMES, EXTREMES))


def _text(types: tuple[str, str], m: int, n: int, k: int, *, along_k: bool) -> str:
    lhs, rhs = types
    columns, place = (f"{n},{k}", 1) if along_k else (f"{k},{n}", 0)
    return f"""HloModule bytes
ENTRY main {{
  a = {lhs}[{m},{k}] parameter(0)
  b = {rhs}[{columns}] parameter(1)
  ROOT d = s32[{m},{n}] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{{place}}}
}}"""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("types", SIGNS)
def test_extremes_of_all_signs(types: tuple[str, str], target: str) -> None:
    """Along a k of several blocks each partial sum is as large as it can be."""
    for pick in itertools.product((0, 1), repeat=2):
        values = [EXTREMES[x][i] for x, i in zip(types, pick, strict=True)]

        def change(arrays: list[Array], values: list[int] = values) -> None:
            for array, value in zip(arrays, values, strict=True):
                array[...] = value

        for along_k in (False, True):
            text = _text(types, 19, 37, 4100, along_k=along_k)
            check(text, target=TARGETS[target], change=change)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("types", SIGNS)
def test_shapes_of_all_signs(types: tuple[str, str], target: str) -> None:
    rng = np.random.default_rng(len(target))
    for _ in range(6):
        m, n, k = (int(x) for x in rng.integers(1, 70, 3))
        check(_text(types, m, n, k, along_k=bool(rng.integers(2))), target=TARGETS[target])


@pytest.mark.parametrize("types", SIGNS)
def test_instruction_of_four_bytes(types: tuple[str, str]) -> None:
    """It is taken where there is one, and never the one whose partial sums saturate."""
    for name, target in TARGETS.items():
        text = check(_text(types, 40, 48, 64, along_k=False), target=target).text
        has_vnni = target.has("avx512vnni" if target.vector_bytes == 64 else "avxvnni")
        assert ("vpdpbusd." in text) == has_vnni, name
        assert "pmadd.ub" not in text
        assert "vpdpbusds" not in text
