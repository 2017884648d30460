"""The function of one pass of an fft: a vector of lines is loaded, transformed and stored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from lowtide.codegen.elements import Elements
from lowtide.codegen.elementwise import memory
from lowtide.codegen.elementwise.number import Number
from lowtide.codegen.kernel import ARGUMENTS
from lowtide.codegen.library.fft_form import Lines, Pass, Place, factors_of
from lowtide.codegen.library.fft_stages import Table, write_stages
from lowtide.codegen.library.field import (
    Grid,
    Matrix,
    Parts,
    conjugate,
    scaled,
    spread,
    times,
    value_of,
)
from lowtide.codegen.value import Value
from lowtide.ir import ElementType
from lowtide.llvm.function import Function, Integer
from lowtide.llvm.target import Target

Turn: TypeAlias = "Callable[[Integer, Number], Parts]"
"""Writes by which factors a result of lines is turned."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What the passes of an fft have in common.

    `type` is the complex element type; scratch has an array at each of `starts`, then, for each
    thread, two grids.
    """

    type: ElementType
    given: ElementType
    result: ElementType
    lanes: int
    target: Target
    starts: dict[Place, int]
    shared_bytes: int
    thread_bytes: int

    def element(self, place: Place) -> ElementType:
        """Return the type of the elements of an array."""
        return {Place.OPERAND: self.given, Place.RESULT: self.result}.get(place, self.type)


def length_of(n: int) -> int:
    """Return the length of the transform in scratch: n, or what a convolution needs."""
    return n if factors_of(n) is not None else 1 << (2 * n - 2).bit_length()


def grid_of(type_: ElementType, n: int, lanes: int) -> Grid:
    """Return the grid in which n numbers of so many lines are transformed."""
    return Grid(type_, length_of(n), lanes)


class PassFunction:
    """Writes the function of a pass; a unit is a vector of lines."""

    def __init__(self, pass_: Pass, setting: Setting, name: str) -> None:
        self.form = pass_
        self.setting = setting
        self.lanes = setting.lanes
        self.blocks = -(-pass_.count // setting.lanes)
        self.fn = Function(name, ARGUMENTS)
        self.elements = Elements(self.fn, setting.target, setting.lanes)
        fn = self.fn
        own = fn.add(fn.mul("%thread", setting.thread_bytes), setting.shared_bytes)
        self.grid = grid_of(setting.type, pass_.n, self.lanes)
        self.a = fn.gep("%scratch", own)
        self.b = fn.gep(self.a, self.grid.nbytes)
        self.arrays = {
            Place.OPERAND: fn.load("ptr", "%buffers", 8),
            Place.RESULT: fn.load("ptr", fn.gep("%buffers", 1, "ptr"), 8),
            **{x: fn.gep("%scratch", start) for x, start in setting.starts.items()},
        }

    @property
    def units(self) -> int:
        """The number of pieces of work."""
        return self.form.groups * self.blocks

    def write(self) -> None:
        """Write the function."""
        fn = self.fn
        with self.elements.loop("%begin", "%end") as loop:
            group = fn.div(loop.index, self.blocks)
            first = fn.mul(fn.rem(loop.index, self.blocks), self.lanes)
            lines = self._numbers(first)
            bound = fn.splat("i64", str(self.form.count), self.lanes)
            inside = lines.compare("slt", lines.named("i64", bound))
            self._load(group, first, lines, inside)
            done = self._transform()
            self._store(done, group, first, lines, inside)

    def _numbers(self, first: Integer) -> Number:
        fn, lanes = self.fn, self.lanes
        start = fn.splat("i64", str(first), lanes)
        name = fn.op(f"add <{lanes} x i64> {start}, {memory.lane_numbers(lanes)}")
        return Number(fn, self.setting.target, "i64", lanes, name)

    # -- memory --------------------------------------------------------------------------------

    def _where(self, at: Lines, group: Integer, first: Integer, lines: Number) -> _Where:
        """Where the first elements of a vector of lines lie."""
        fn = self.fn
        type_ = self.setting.element(at.place)
        size = memory.element_bytes(type_) * (2 if type_.is_complex else 1)
        base = fn.gep(self.arrays[at.place], fn.mul(group, at.group * size))
        if not at.outer:
            return _Where(base, type_, size, first, None)
        inner = lines.constant(at.inner)
        offset = lines.op("udiv", inner) * at.outer + lines.op("urem", inner)
        return _Where(base, type_, size, 0, offset)

    def _read(self, where: _Where, offset: Integer, inside: Number) -> Parts:
        fn, target, lanes = self.fn, self.setting.target, self.lanes
        pointer = fn.gep(where.base, fn.mul(fn.add(offset, where.first), where.size))
        if where.lines is None:
            value = memory.load(fn, target, where.type, pointer, lanes, inside.name)
        else:
            name = where.lines.name
            value = memory.gather(fn, target, where.type, pointer, name, lanes, inside.name)
        parts = memory.numbers(fn, target, value)
        return parts if len(parts) == 2 else (parts[0], parts[0].constant(0.0))

    def _write(self, where: _Where, offset: Integer, value: Parts, inside: Number) -> None:
        fn, target = self.fn, self.setting.target
        pointer = fn.gep(where.base, fn.mul(fn.add(offset, where.first), where.size))
        kept = value if where.type.is_complex else value[:1]
        element: Value = value_of(kept, where.type)
        if where.lines is None:
            memory.store(fn, target, element, pointer, inside.name)
            return
        memory.scatter_store(fn, target, element, pointer, where.lines.name, inside.name)

    def _load(self, group: Integer, first: Integer, lines: Number, inside: Number) -> None:
        form, fn, lanes = self.form, self.fn, self.lanes
        where = self._where(form.source, group, first, lines)
        matrix = Matrix(fn, self.setting.target, self.grid, self.a)
        chirp = self._chirp(1.0) if self.grid.rows != form.n else None

        def put(at: Integer, value: Parts) -> None:
            value = value[::-1] if form.inverse else value
            if chirp is not None:
                value = times(value, spread(chirp.load(at), lanes))
            matrix.store(at, 0, value)

        count = form.n // 2 + 1 if form.extended else form.n
        with self.elements.loop(0, count) as loop:
            put(loop.index, self._read(where, fn.mul(loop.index, form.source.step), inside))
        if form.extended:
            with self.elements.loop(count, form.n) as loop:
                at = fn.mul(fn.sub(form.n, loop.index), form.source.step)
                put(loop.index, conjugate(self._read(where, at, inside)))
        zero = spread(matrix.zero(), lanes)
        with self.elements.loop(form.n, self.grid.rows) as loop:
            matrix.store(loop.index, 0, zero)

    def _store(
        self, done: str, group: Integer, first: Integer, lines: Number, inside: Number
    ) -> None:
        form, fn, lanes = self.form, self.fn, self.lanes
        where = self._where(form.target, group, first, lines)
        matrix = Matrix(fn, self.setting.target, self.grid, done)
        is_folded = self.grid.rows != form.n
        chirp = self._chirp(1.0 / self.grid.rows) if is_folded else None
        turn = self._turns() if form.twiddle else None
        with self.elements.loop(0, form.kept) as loop:
            value = matrix.load(loop.index, 0, lanes)
            if chirp is not None:
                value = times(value[::-1], spread(chirp.load(loop.index), lanes))
            if turn is not None:
                value = times(value, turn(loop.index, lines))
            value = value[::-1] if form.inverse else value
            if form.scale != 1.0:
                value = scaled(value, form.scale)
            mask = inside
            if form.limit:
                at = fn.splat("i64", str(fn.mul(loop.index, form.limit_step)), lanes)
                mask = mask & (lines + lines.named("i64", at)).compare("slt", form.limit)
            self._write(where, fn.mul(loop.index, form.target.step), value, mask)

    # -- transforms ----------------------------------------------------------------------------

    def _transform(self) -> str:
        """Transform what was loaded; return the grid that has the result."""
        rows, n, lanes = self.grid.rows, self.form.n, self.lanes
        done = write_stages(self.elements, self.grid, rows, lanes, self.a, self.b)
        if rows == n:
            return done
        fn = self.fn
        other = self.b if done == self.a else self.a
        matrix = Matrix(fn, self.setting.target, self.grid, done)
        table = Table.of(self.elements, self.grid, _filter(n, rows))
        with self.elements.loop(0, rows) as loop:
            value = matrix.load(loop.index, 0, lanes)
            product = times(value, spread(table.load(loop.index), lanes))
            matrix.store(loop.index, 0, product[::-1])
        return write_stages(self.elements, self.grid, rows, lanes, done, other)

    def _chirp(self, scale: float) -> Table:
        return Table.of(self.elements, self.grid, _chirp_of(self.form.n) * scale)

    def _turns(self) -> Turn:
        """A function of the number of a result and of the lines: the factors by which to turn."""
        form = self.form
        part = 1 << (form.twiddle.bit_length() + 1) // 2
        roots = np.arange(part) / form.twiddle
        fine = Table.of(self.elements, self.grid, np.exp(-2j * np.pi * roots))
        coarse_count = -(-form.twiddle // part)
        coarse_roots = np.arange(coarse_count) * part / form.twiddle
        coarse = Table.of(self.elements, self.grid, np.exp(-2j * np.pi * coarse_roots))
        shift = part.bit_length() - 1

        def turn(k: Integer, lines: Number) -> Parts:
            column = lines.op("udiv", form.twiddle_inner) if form.twiddle_inner > 1 else lines
            column = column.where(~column.compare("slt", form.count // form.twiddle_inner), 0)
            factor = column.named("i64", self.fn.splat("i64", str(k), self.lanes))
            at = column * factor
            return times(coarse.gather(at >> shift), fine.gather(at & (part - 1)))

        return turn


@dataclass(frozen=True, slots=True)
class _Where:
    """Elements of lines: from `first` on, or at the offsets `lines`; sizes in bytes."""

    base: str
    type: ElementType
    size: int
    first: Integer
    lines: Number | None


def _chirp_of(n: int) -> np.ndarray[tuple[int], np.dtype[np.complex128]]:
    """exp(-pi i k^2 / n)."""
    k = np.arange(n, dtype=object)
    return np.exp(-1j * np.pi * (k * k % (2 * n)).astype(np.float64) / n)


def _filter(n: int, rows: int) -> np.ndarray[tuple[int], np.dtype[np.complex128]]:
    """The transform of what is convolved with, of length `rows`."""
    chirp = np.conj(_chirp_of(n))
    whole = np.zeros(rows, np.complex128)
    whole[:n] = chirp
    whole[rows - n + 1 :] = chirp[:0:-1]
    return np.fft.fft(whole)


