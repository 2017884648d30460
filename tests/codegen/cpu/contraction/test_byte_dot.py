"""Dots of bytes: every mix of signs, extreme operands, and processors with other instructions."""

import itertools
import re

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
    """It is taken where there is one, else that of pairs where only columns have a sign."""
    for name, target in TARGETS.items():
        text = check(_text(types, 40, 48, 64, along_k=False), target=target).text
        has_vnni = target.has("avx512vnni" if target.vector_bytes == 64 else "avxvnni")
        assert ("vpdpbusd." in text) == has_vnni, name
        assert ("pmadd.ub" in text) == (not has_vnni and types == ("u8", "s8")), name
        assert "vpdpbusds" not in text


@pytest.mark.parametrize("lhs", EXTREMES)
def test_few_rows_meet_columns_where_these_lie(lhs: str) -> None:
    """Up to 16 rows it would take longer to sift columns for pairs that are too large."""
    for m in (9, 16, 17):

        def change(arrays: list[Array]) -> None:
            for array, type_ in zip(arrays, (lhs, "s8"), strict=True):
                array[...] = EXTREMES[type_][1]

        text = _text((lhs, "s8"), m, 48, 528, along_k=True)
        code = check(text, target=TARGETS["avx2"], change=change).text
        assert ("pmadd.ub" in code) == (lhs == "u8" and m > 16)


@pytest.mark.parametrize("target", TARGETS)
def test_columns_along_k_are_moved_by_whole_vectors(target: str) -> None:
    """They are loaded as they are transposed, 16 bytes at a time, where k has a whole vector."""
    nbytes = TARGETS[target].vector_bytes
    for k in (nbytes, 5 * nbytes, 5 * nbytes + 3):
        code = check(_text(("u8", "s8"), 21, 37, k, along_k=True), target=TARGETS[target]).text
        start = re.search(r"define [^@]*@pack_\d+_columns", code)
        assert start is not None
        packing = code[start.start() : code.index("\n}", start.start())]
        assert k % nbytes or ("load <16 x i8>" in packing and "load <4 x i32>" not in packing)


def test_one_row_asks_for_columns_that_no_second_cache_has() -> None:
    """Columns that are widened are read by fours, whose lines are asked for from 512 KiB on."""
    for n, k in ((1024, 256), (1501, 391), (1536, 384)):
        text = _text(("u8", "s8"), 1, n, k, along_k=True)
        code = check(text, target=TARGETS["avx2"]).text
        start = re.search(r"define [^@]*@tile_of_1x4", code)
        assert start is not None
        assert "@tile_of_1x8" not in code
        tile = code[start.start() : code.index("\n}", start.start())]
        assert ("llvm.prefetch" in tile) == (n * k >= 1 << 19)


def test_bytes_with_signs_are_turned_as_vectors() -> None:
    """A load spreads four bytes for nothing: turned before that, they would have to be spread."""
    for target in TARGETS.values():
        if not target.has("avx512vnni" if target.vector_bytes == 64 else "avxvnni"):
            continue
        text = check(_text(("s8", "s8"), 40, 48, 64, along_k=True), target=target).text
        turned = [x for x in text.splitlines() if "asm" in x and "-2139062144" in x]
        assert turned
        assert all(f"<{target.vector_bytes // 4} x i32> asm" in x for x in turned)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("columns", [1, 2, 3, 4, 6, 8, 11, 16, 24])
def test_bytes_of_few_columns(target: str, columns: int) -> None:
    """Behind the sums vectors are no wider than these columns need, so that none is masked."""
    text = check(
        f"""HloModule bytes
f {{
  a = s8[50,12] parameter(0)
  b = s8[{columns},12] parameter(1)
  c = s32[{columns}] parameter(2)
  d = s32[50,{columns}] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
  e = s32[50,{columns}] broadcast(c), dimensions={{1}}
  h = s32[50,{columns}] add(d, e)
  low = s32[] constant(-128)
  high = s32[] constant(127)
  lows = s32[50,{columns}] broadcast(low), dimensions={{}}
  highs = s32[50,{columns}] broadcast(high), dimensions={{}}
  g = s32[50,{columns}] clamp(lows, h, highs)
  ROOT r = s8[50,{columns}] convert(g)
}}
ENTRY main {{
  x = s8[50,12] parameter(0)
  y = s8[{columns},12] parameter(1)
  z = s32[{columns}] parameter(2)
  ROOT k = s8[50,{columns}] fusion(x, y, z), kind=kOutput, calls=f
}}""",
        target=TARGETS[target],
    ).text
    if columns in (4, 8, 16):
        assert "masked.store.v8i8" not in text
        assert "masked.store.v16i8" not in text
