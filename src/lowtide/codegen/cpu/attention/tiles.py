"""The products of a block: tiles of sums in registers, rows in scratch times a packed panel."""

from __future__ import annotations

from collections.abc import Iterator

from lowtide.codegen.cpu.attention.blocks import TILE_ROWS, AttentionProduct
from lowtide.codegen.cpu.contraction.micro import (
    TileOperands,
    Vectors,
    accumulate,
    broadcast,
    zeros,
)
from lowtide.llvm.callee import parameters
from lowtide.llvm.function import Function, Integer
from lowtide.llvm.target import Target

PARAMETERS = parameters(rows="ptr", columns="ptr", sums="ptr", steps="i64")


def tile_heights(rows: int) -> Iterator[tuple[int, int]]:
    """Yield first row and number of rows of tiles of about the same height."""
    count = -(-rows // TILE_ROWS)
    first = 0
    for number in range(count):
        end = (number + 1) * rows // count
        yield first, end - first
        first = end


def tile_function(
    name: str,
    target: Target,
    product: AttentionProduct,
    shape: tuple[int, int],
    row_step: int,
    sums_step: int,
    *,
    adds: bool,
) -> Function:
    """Return the function of a tile of `shape`, rows and columns; both steps are in elements.

    With `adds` products are added to the sums that are there.
    """
    how, lanes = product.how, product.lanes
    rows, columns = shape
    vectors = columns // lanes
    size = how.unit_bytes
    type_ = f"<{lanes} x {how.sum_type}>"
    fn = Function(name, PARAMETERS, linkage="internal")

    def place(i: int, j: int) -> str:
        return fn.gep("%sums", (i * sums_step + j * lanes) * size)

    start = zeros(how, rows, vectors, lanes)
    if adds:
        start = [
            [(fn.load(type_, place(i, j), size),) for j in range(vectors)] for i in range(rows)
        ]
    known: dict[Integer, tuple[str, str]] = {}

    def at(step: Integer) -> tuple[str, str]:
        if step not in known:
            row = fn.gep("%rows", fn.mul(step, size))
            known[step] = row, fn.gep("%columns", fn.mul(step, columns * size))
        return known[step]

    def row_at(step: Integer, i: int) -> Vectors:
        return broadcast(fn, how, at(step)[0], i * row_step * size, lanes, size)

    def column_at(step: Integer, j: int) -> Vectors:
        return (fn.load(type_, fn.gep(at(step)[1], j * lanes * size), size),)

    operands = TileOperands(row_at, column_at)
    found = accumulate(fn, target, how, lanes, fn.loop, "%steps", start, operands)
    for i in range(rows):
        for j in range(vectors):
            fn.store(type_, found[i][j][0], place(i, j), size)
    return fn
