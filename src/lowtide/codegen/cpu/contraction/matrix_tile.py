"""The function of a tile whose sums are in registers of 16 x 16 numbers (AMX).

Up to 2 x 2 of them hold sums, two more hold 16 vectors of units of rows, and two those of columns.
How many rows and bytes each has is set before, so nothing beyond a tile is read or written.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from lowtide.codegen.cpu.contraction.arithmetic import MultiplyMethod
from lowtide.codegen.cpu.contraction.gemm import Gemm
from lowtide.codegen.cpu.contraction.prefetching import ask_to_write
from lowtide.codegen.cpu.contraction.scheme import ContractionScheme
from lowtide.codegen.cpu.contraction.vector_tile import TILE
from lowtide.ir import ElementType
from lowtide.llvm.callee import external
from lowtide.llvm.function import Function, Integer

SIDE: Final = 16
"""Rows of a register, and its columns of 4 bytes."""

MOST: Final = 2 * SIDE
"""Rows and columns of a tile."""

_SUMS: Final = ((0, 1), (2, 3))
_ROWS: Final = (4, 5)
_COLUMNS: Final = (6, 7)

_REGISTER: Final = "i8 immarg"

_TYPES: Final = {
    "ldtilecfg": ("ptr",),
    "tilezero": (_REGISTER,),
    "tileloadd64": (_REGISTER, "ptr", "i64"),
    "tilestored64": (_REGISTER, "ptr", "i64"),
    "tdpbf16ps": (_REGISTER,) * 3,
    "tdpbssd": (_REGISTER,) * 3,
    "tdpbsud": (_REGISTER,) * 3,
    "tdpbusd": (_REGISTER,) * 3,
    "tdpbuud": (_REGISTER,) * 3,
    "tilerelease": (),
}


def _do(fn: Function, name: str, *values: Integer) -> None:
    fn.call(external(f"llvm.x86.{name}", "void", *_TYPES[name]), values)


def release(fn: Function) -> None:
    """Write the end of the use of these registers, so that they need not be saved any more."""
    _do(fn, "tilerelease")


def matrix_tile_function(gemm: Gemm, name: str, rows: int, columns: int) -> Function:
    """Return the function of a tile of `rows` rows and `columns` columns, at most 32 each."""
    scheme = gemm.scheme
    fn = Function(name, TILE, linkage="internal")
    heights, widths = _parts(rows), _parts(columns)
    if not has_one_tile(gemm.scheme):
        configure(gemm, fn, rows, columns)
    squares = [(i, j) for i in range(len(heights)) for j in range(len(widths))]
    places = {(i, j): fn.gep("%sums", SIDE * 4 * (i * gemm.sums_step + j)) for i, j in squares}
    for i, j in squares:
        _do(fn, "tilezero", _SUMS[i][j])
    if scheme.shares.longest > 1:
        with fn.when("%more"):
            for i, j in squares:
                _do(fn, "tileloadd64", _SUMS[i][j], places[i, j], gemm.sums_step * 4)
    steps: Integer = scheme.steps if scheme.blocks.parts == 1 else "%steps"
    ask = _asking(gemm, fn, rows, columns)
    with fn.loop(0, fn.div(fn.add(steps, SIDE - 1), SIDE)) as loop:
        ask(loop.index)
        _multiply(gemm, fn, loop.index, len(heights), len(widths))
    for i, j in squares:
        _do(fn, "tilestored64", _SUMS[i][j], places[i, j], gemm.sums_step * 4)
    return fn


def has_one_tile(scheme: ContractionScheme) -> bool:
    """Whether all tiles have one size, so that registers are given theirs once."""
    return not scheme.tiles.longer and scheme.last_columns == scheme.tile.columns


def configure(gemm: Gemm, fn: Function, rows: int, columns: int) -> None:
    """Write the setting of how many rows and bytes registers have for a tile."""
    _do(fn, "ldtilecfg", _configuration(gemm, _parts(rows), _parts(columns)))


def _asking(gemm: Gemm, fn: Function, rows: int, columns: int) -> Callable[[Integer], None]:
    """What asks for the lines of the result, some rows for each vector of units along k.

    A tile takes less time than lines take to come that are only stored to.
    """
    scheme = gemm.scheme
    if scheme.has_finish and not scheme.is_shared:
        return lambda step: None
    each = -(-rows * SIDE // max(1, scheme.blocks.short * scheme.tile.lanes))

    def ask(step: Integer) -> None:
        first = fn.min(fn.mul(step, each), rows - each)
        start = fn.mul(first, gemm.sums_step * 4)
        for row in range(each):
            there = fn.gep("%sums", fn.add(start, row * gemm.sums_step * 4))
            ask_to_write(fn, there, columns * 4)

    return ask


def _multiply(gemm: Gemm, fn: Function, step: Integer, rows: int, columns: int) -> None:
    """Add the products of a vector of units along k."""
    step_bytes, row_bytes, _ = gemm.row_steps(SIDE)
    panel = gemm.scheme.tile.columns * 4
    name = _instruction(gemm)
    there = fn.gep("%columns", fn.mul(step, SIDE * panel))
    for j in range(columns):
        _do(fn, "tileloadd64", _COLUMNS[j], fn.gep(there, j * SIDE * 4), panel)
    here = fn.gep("%rows", fn.mul(step, SIDE * step_bytes))
    for i in range(rows):
        _do(fn, "tileloadd64", _ROWS[i], fn.gep(here, i * SIDE * row_bytes), row_bytes)
        for j in range(columns):
            _do(fn, name, _SUMS[i][j], _ROWS[i], _COLUMNS[j])


def _instruction(gemm: Gemm) -> str:
    if gemm.scheme.how.method is MultiplyMethod.BF16_TILES:
        return "tdpbf16ps"
    signs = ["u" if x.type is ElementType.U8 else "s" for x in (gemm.rows, gemm.columns)]
    return f"tdpb{signs[0]}{signs[1]}d"


def _parts(size: int) -> list[int]:
    return [min(SIDE, size - first) for first in range(0, size, SIDE)]


def _configuration(gemm: Gemm, heights: list[int], widths: list[int]) -> str:
    """The name of the constant that says how many rows and bytes registers have."""
    rows, nbytes = [0] * 16, [0] * 16
    for i, height in enumerate(heights):
        rows[_ROWS[i]], nbytes[_ROWS[i]] = height, 4 * SIDE
        for j, width in enumerate(widths):
            rows[_SUMS[i][j]], nbytes[_SUMS[i][j]] = height, 4 * width
    for j, width in enumerate(widths):
        rows[_COLUMNS[j]], nbytes[_COLUMNS[j]] = SIDE, 4 * width
    data = struct.pack("<BB14x16H16B", 1, 0, *nbytes, *rows)
    name = f"@tiles.{sum(heights)}x{sum(widths)}"
    text = "".join([f"\\{byte:02X}" for byte in data])
    gemm.globals[name] = f'{name} = private constant [{len(data)} x i8] c"{text}", align 64'
    return name
