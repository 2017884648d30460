"""The way of the sums of a tile to the results: conversion, and the operations behind them."""

from __future__ import annotations

from typing import TypeAlias

from lowtide.codegen.cpu.contraction.finishing import (
    Epilogue,
    finishing_lanes,
    store_results,
    total_of,
)
from lowtide.codegen.cpu.convolution.axes import BATCH
from lowtide.codegen.cpu.convolution.scheme import ConvolutionScheme
from lowtide.codegen.cpu.vector_elements import vector_elements
from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elements.lanes import tail_mask
from lowtide.codegen.elements.operands import Bound, bind
from lowtide.codegen.elements.values import Element, Mask
from lowtide.codegen.indexing import ZERO, Affine, Index
from lowtide.codegen.value import Value
from lowtide.llvm.callee import FunctionParameter, parameters
from lowtide.llvm.function import Function, Integer
from lowtide.llvm.target import Target
from lowtide.records import dataclass


def parameters_of(scheme: ConvolutionScheme) -> tuple[FunctionParameter, ...]:
    """Return the parameters: sums, the first column, the place of the first row in the result.

    The first `%skip` indices along the dimension of tiles belong to another tile.
    """
    rows = {f"row{d}": "i64" for d in range(len(scheme.rows))}
    return parameters(buffers="ptr", sums="ptr", skip="i64", column="i64", **rows)


def finish_function(
    name: str,
    scheme: ConvolutionScheme,
    target: Target,
    finish: Epilogue,
    columns: int,
    constants: dict[str, str],
) -> Function:
    """Write what finishes `columns` columns of a tile, the sums of all shares added up.

    Constant arrays that it needs are added to `constants`.
    """
    fn = Function(name, parameters_of(scheme), linkage="internal")
    lanes = finishing_lanes(scheme.how, columns, scheme.lanes, finish, target)
    elements = vector_elements(fn, target, lanes)
    writer = _Writer(elements, scheme, finish, bind(fn, finish.kernel))
    elements.provide(finish.dot, writer.product)
    writer.write(columns)
    constants.update(elements.globals)
    return fn


_Columns: TypeAlias = "tuple[Affine, Integer, int]"
"""The first of some columns in the result, and in the tile, and how many they are."""


@dataclass(eq=False, slots=True)
class _Writer:
    elements: Elements
    scheme: ConvolutionScheme
    finish: Epilogue
    bound: Bound
    current: Value | None = None

    def product(self, index: Index, mask: Mask | None) -> Element:
        """The product at the place that is being written."""
        assert self.current is not None
        return Element((self.current,), self.elements.scopes.level)

    def write(self, columns: int) -> None:
        """Write the loops over columns, and in them over the rows of the tile.

        What columns have of their own, such as factors, is read once so.
        """
        scheme = self.scheme
        at = [
            self.elements.indices.variable(f"%row{d}", self._size(d))
            for d in range(len(scheme.rows))
        ]
        lanes, variable = self.elements.lanes, self.elements.indices.variable
        start = variable("%column", scheme.problem.outputs * scheme.problem.groups)
        lane = variable(0, lanes, is_lane=True)
        whole = columns // lanes * lanes
        with self.elements.scopes.loop(0, whole, lanes) as across:
            column = start + variable(across.index, columns) + lane
            self._rows(scheme.tile_dim, at, 0, (column, across.index, lanes))
        if whole < columns:
            column = start + whole + (lane if columns - whole > 1 else ZERO)
            self._rows(scheme.tile_dim, at, 0, (column, whole, columns - whole))

    def _size(self, dim: int) -> int:
        """The size of a dimension in the result."""
        axis, problem = self.scheme.rows[dim].axis, self.scheme.problem
        return problem.batch if axis == BATCH else problem.spatial[axis].output

    def _rows(self, dim: int, at: list[Affine], number: Integer, across: _Columns) -> None:
        elements, scheme = self.elements, self.scheme
        fn = elements.function
        if dim == len(scheme.rows):
            column, place, count = across
            self._store(at, column, fn.add(fn.mul(number, scheme.columns), place), count)
            return
        row = scheme.rows[dim]
        count = scheme.tile_rows if dim == scheme.tile_dim else row.size
        first: Integer = "%skip" if dim == scheme.tile_dim and count > 1 else 0
        step = scheme.problem.spatial[row.axis].output_step if row.axis >= 0 else 1
        with elements.scopes.loop(first, count) as loop:
            x = at[dim] + elements.indices.variable(loop.index, count) * step
            here = [*at[:dim], x.within(0, self._size(dim) - 1), *at[dim + 1 :]]
            self._rows(dim + 1, here, fn.add(fn.mul(number, count), loop.index), across)

    def _store(self, at: list[Affine], column: Affine, number: Integer, count: int) -> None:
        """Store some columns, at most a vector, of all results.

        A single one is no vector: LLVM 22 writes too much where it narrows and stores one lane.
        """
        elements = self.elements
        lanes = elements.lanes if count > 1 else 0
        mask = tail_mask(lanes, count) if lanes else None
        scheme, fn = self.scheme, elements.function
        there = fn.gep("%sums", fn.mul(number, scheme.how.unit_bytes))
        step = scheme.row_units * scheme.block_sums_bytes
        self.current = total_of(
            elements, self.finish, scheme.how, there, lanes, mask, scheme.shares, step
        )
        index = self._index(at, column)
        store_results(elements, self.finish, self.bound, index, mask)

    def _index(self, at: list[Affine], column: Affine) -> Index:
        numbers, rows = self.scheme.problem.numbers, self.scheme.rows
        found = [ZERO] * self.scheme.problem.output.rank
        found[numbers.output_feature] = column
        for row, x in zip(rows, at, strict=True):
            d = numbers.output_batch if row.axis == BATCH else numbers.output_spatial[row.axis]
            found[d] = x
        return tuple(found)
