"""The function of one pass of an fft: a vector of lines is loaded, transformed and stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from lowtide.codegen.cpu.library.fft_lines import Block, Port
from lowtide.codegen.cpu.library.fft_real import RealSide
from lowtide.codegen.cpu.vector_elements import vector_elements
from lowtide.codegen.elementwise import memory
from lowtide.codegen.elementwise.number import Number
from lowtide.codegen.kernel import ARGUMENTS
from lowtide.codegen.library.fft_form import FftPass, Lines, LinesPlace, factors_of
from lowtide.codegen.library.fft_stages import Complexes, ComplexTable, RootsOfUnity, write_stages
from lowtide.codegen.library.field import (
    Matrix,
    Parts,
    PlanarGrid,
    conjugate,
    scaled,
    spread,
    times,
)
from lowtide.ir import ElementType
from lowtide.llvm.function import Function, Integer
from lowtide.llvm.target import Target
from lowtide.records import dataclass

Turn: TypeAlias = "Callable[[Integer, Number], Parts]"
"""Writes by which factors a result of lines is turned."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What the passes of an fft have in common.

    `type` is the complex element type; scratch has an array at each of `starts`, then, for each
    thread, two grids of `grid_bytes` each and an array of its own.
    """

    type: ElementType
    given: ElementType
    result: ElementType
    lanes: int
    target: Target
    starts: dict[LinesPlace, int]
    shared_bytes: int
    thread_bytes: int
    grid_bytes: int

    def element(self, place: LinesPlace) -> ElementType:
        """Return the type of the elements of an array."""
        return {LinesPlace.OPERAND: self.given, LinesPlace.RESULT: self.result}.get(
            place, self.type
        )

    def arrays(self, fn: Function) -> dict[LinesPlace, str]:
        """Return the pointers to all arrays in a function."""
        operand = fn.load("ptr", "%buffers", 8)
        result = fn.load("ptr", fn.gep("%buffers", 1, "ptr"), 8)
        own = fn.add(fn.mul("%thread", self.thread_bytes), self.shared_bytes + 2 * self.grid_bytes)
        return {
            LinesPlace.OPERAND: operand,
            LinesPlace.OPERAND_PAIRS: operand,
            LinesPlace.RESULT: result,
            LinesPlace.RESULT_PAIRS: result,
            LinesPlace.OWN: fn.gep("%scratch", own),
            **{x: fn.gep("%scratch", start) for x, start in self.starts.items()},
        }


def length_of(n: int) -> int:
    """Return the length of the transform in scratch: n, or what a convolution needs."""
    return n if factors_of(n) is not None else 1 << (2 * n - 2).bit_length()


def grid_of(type_: ElementType, pass_: FftPass, lanes: int) -> PlanarGrid:
    """Return the grid in which the numbers of so many lines are transformed."""
    rows = length_of(pass_.length)
    return PlanarGrid(type_, rows + 1 if pass_.halved and pass_.extended else rows, lanes)


class PassFunction:
    """Writes the function of a pass; a unit is a vector of lines."""

    def __init__(self, pass_: FftPass, setting: Setting, name: str) -> None:
        self.form = pass_
        self.setting = setting
        self.lanes = setting.lanes
        self.blocks = -(-pass_.count // setting.lanes)
        self.fn = Function(name, ARGUMENTS)
        self.elements = vector_elements(self.fn, setting.target, setting.lanes)
        fn = self.fn
        own = fn.add(fn.mul("%thread", setting.thread_bytes), setting.shared_bytes)
        self.grid = grid_of(setting.type, pass_, self.lanes)
        self.is_folded = factors_of(pass_.length) is None
        self.a = fn.gep("%scratch", own)
        self.b = fn.gep(self.a, self.grid.nbytes)
        self.arrays = setting.arrays(fn)

    @property
    def units(self) -> int:
        """The number of pieces of work."""
        return self.form.groups * self.blocks

    def write(self) -> None:
        """Write the function."""
        fn = self.fn
        with self.elements.scopes.loop("%begin", "%end") as loop:
            group = fn.div(loop.index, self.blocks)
            first = fn.mul(fn.rem(loop.index, self.blocks), self.lanes)
            lines = memory.numbered_lanes(fn, self.setting.target, first, self.lanes)
            bound = fn.splat("i64", str(self.form.count), self.lanes)
            inside = lines.compare("slt", lines.named("i64", bound))
            block = Block(group, first, self.form.count, lines, inside)
            self._load(block)
            self._store(self._transform(), block)

    # -- memory --------------------------------------------------------------------------------

    def _port(self, at: Lines, block: Block) -> Port:
        return Port(self.elements, at, self.arrays[at.place], self.setting.element(at.place), block)

    def _load(self, block: Block) -> None:
        """Fill the grid with the elements of a block of lines, and with zeros behind them."""
        form = self.form
        matrix = Matrix(self.fn, self.setting.target, self.grid, self.a)
        port = self._port(form.source, block)
        if form.halved:
            real = RealSide(self.elements, matrix, form.n)
            if not form.extended:
                port.load_all(form.n, real.put)
                return
            port.load_all(form.length + 1, real.put_result)
            real.fold()
            return
        put = self._putting(matrix)
        if form.extended:
            port.load_all(form.n // 2 + 1, self._both(put))
        else:
            port.load_all(form.n, put)
        zero = spread(matrix.zero(), self.lanes)
        with self.elements.scopes.loop(form.n, self.grid.rows) as loop:
            matrix.store(loop.index, 0, zero)

    def _putting(self, matrix: Matrix) -> Callable[[Integer, Parts], None]:
        """How an element gets into the grid: an inverse transform has its parts exchanged."""
        form = self.form
        chirp = self._chirp(1.0) if self.is_folded else None

        def put(at: Integer, value: Parts) -> None:
            value = value[::-1] if form.inverse else value
            if chirp is not None:
                value = times(value, spread(chirp.load(at), self.lanes))
            matrix.store(at, 0, value)

        return put

    def _both(self, put: Callable[[Integer, Parts], None]) -> Callable[[Integer, Parts], None]:
        """Put an element at its place, and its conjugate at the opposite one."""
        fn, n = self.fn, self.form.n

        def both(at: Integer, value: Parts) -> None:
            put(fn.op(f"urem i64 {fn.sub(n, at)}, {n}"), conjugate(value))
            put(at, value)

        return both

    def _store(self, done: str, block: Block) -> None:
        form = self.form
        matrix = Matrix(self.fn, self.setting.target, self.grid, done)
        port = self._port(form.target, block)
        if form.halved:
            real = RealSide(self.elements, matrix, form.n)
            if form.extended:
                port.store_all(form.n, lambda at: (real.get(at, form.scale), None))
            else:
                port.store_all(form.kept, lambda at: (real.get_result(at), None))
            return
        port.store_all(form.kept, self._getting(matrix, block))

    def _getting(
        self, matrix: Matrix, block: Block
    ) -> Callable[[Integer], tuple[Parts, Number | None]]:
        """A function that returns a result, and in which lanes it is wanted."""
        form, fn, lanes = self.form, self.fn, self.lanes
        chirp = self._chirp(1.0 / self.grid.rows) if self.is_folded else None
        turn = self._turns() if form.twiddle else None

        def get(at: Integer) -> tuple[Parts, Number | None]:
            value = matrix.load(at, 0, lanes)
            if chirp is not None:
                value = times(value[::-1], spread(chirp.load(at), lanes))
            if turn is not None:
                value = times(value, turn(at, block.numbers))
            value = value[::-1] if form.inverse else value
            if form.scale != 1.0:
                value = scaled(value, form.scale)
            if not form.limit:
                return value, None
            start = fn.splat("i64", str(fn.mul(at, form.limit_step)), lanes)
            place = block.numbers + block.numbers.named("i64", start)
            return value, place.compare("slt", form.limit)

        return get

    # -- transforms ----------------------------------------------------------------------------

    def _transform(self) -> str:
        """Transform what was loaded; return the grid that has the result."""
        lanes = self.lanes
        rows = length_of(self.form.length)
        done = write_stages(self.elements, self.grid, rows, lanes, self.a, self.b)
        if not self.is_folded:
            return done
        fn = self.fn
        other = self.b if done == self.a else self.a
        matrix = Matrix(fn, self.setting.target, self.grid, done)
        table = ComplexTable.of(self.elements, self.grid, _filter(self.form.n, rows))
        with self.elements.scopes.loop(0, rows) as loop:
            value = matrix.load(loop.index, 0, lanes)
            product = times(value, spread(table.load(loop.index), lanes))
            matrix.store(loop.index, 0, product[::-1])
        return write_stages(self.elements, self.grid, rows, lanes, done, other)

    def _chirp(self, scale: float) -> ComplexTable:
        return ComplexTable.of(self.elements, self.grid, _chirp_of(self.form.n) * scale)

    def _turns(self) -> Turn:
        """A function of the number of a result and of the lines: the factors by which to turn."""
        form = self.form
        roots = RootsOfUnity(self.elements, self.grid, form.twiddle)

        def turn(k: Integer, lines: Number) -> Parts:
            column = lines.op("udiv", form.twiddle_inner) if form.twiddle_inner > 1 else lines
            column = column.where(~column.compare("slt", form.count // form.twiddle_inner), 0)
            factor = column.named("i64", self.fn.splat("i64", str(k), self.lanes))
            return roots.at(column * factor)

        return turn


def _chirp_of(n: int) -> Complexes:
    """exp(-pi i k^2 / n)."""
    k = np.arange(n, dtype=object)
    found: Complexes = np.exp(-1j * np.pi * (k * k % (2 * n)).astype(np.float64) / n)
    return found


def _filter(n: int, rows: int) -> Complexes:
    """The transform of what is convolved with, of length `rows`."""
    chirp = np.conj(_chirp_of(n))
    whole = np.zeros(rows, np.complex128)
    whole[:n] = chirp
    whole[rows - n + 1 :] = chirp[:0:-1]
    found: Complexes = np.fft.fft(whole)
    return found
