"""Fourier transforms: a block for some lines, which it transforms in shared memory.

Long lines take two launches, of shorter transforms each. Source of the order of stages: T. Stockham
(1966), "High-speed convolution and correlation". Lengths with a prime factor above 13 have no form
here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elementwise import memory
from lowtide.codegen.elementwise.number import Number
from lowtide.codegen.gpu.kernel import GpuCode, GpuPlan, kernel_function
from lowtide.codegen.gpu.threads import SharedArray, barrier, block_number, thread_in_block
from lowtide.codegen.gpu.vectors import thread_elements
from lowtide.codegen.library.fft_form import (
    FftPass,
    Lines,
    LinesPlace,
    PassLimits,
    factors_of,
    passes_of,
)
from lowtide.codegen.library.fft_scratch import COMPLEX, lies_in_rows, places_in_scratch
from lowtide.codegen.library.fft_stages import ComplexTable, butterfly, roots_of_unity
from lowtide.codegen.library.field import Parts, PlanarGrid, scaled, times, value_of
from lowtide.codegen.value import register_type
from lowtide.ir import ElementType, Instruction, Opcode
from lowtide.ir.attributes import Fft
from lowtide.ir.thunk import GridLaunch
from lowtide.llvm.function import Function, Integer
from lowtide.llvm.target import Target
from lowtide.records import dataclass

_LONGEST: Final = {ElementType.C64: 4096, ElementType.C128: 2048}
"""Elements of a block, at most: they take 32 KiB."""

_ENOUGH: Final = 1024
"""Elements of a block that keep its threads busy."""

_SIDE_BY_SIDE: Final = 8
"""Lines of a block, where there is room, if neighbours in memory are in different ones."""

_EACH: Final = 8
"""Elements of a thread, if there are not more than so many for the most threads."""

_MOST_THREADS: Final = 256


def plan_gpu_fft(instruction: Instruction, target: Target) -> GpuPlan | None:
    """Return how an fft runs, None for arrays that are not row-major, and for some lengths."""
    if instruction.opcode is not Opcode.FFT:
        return None
    operand, shape = instruction.operands[0].shape, instruction.shape
    if not all(lies_in_rows(x) for x in (operand, shape)):
        return None
    if not operand.element_count or 0 in instruction.attributes_as(Fft).length:
        return None
    type_ = COMPLEX[operand.element_type]
    longest = _LONGEST[type_]
    limits = PassLimits(1, longest, longest // 2, folds=False)
    found = [x for x in passes_of(instruction, limits) if isinstance(x, FftPass)]
    passes = [replace(x, halved=False) for x in found]
    if any(x.n > longest or factors_of(x.n) is None for x in passes):
        return None
    starts, nbytes = places_in_scratch(passes, operand, tuple(LinesPlace))
    setting = _Setting(instruction, target, type_, starts)
    return GpuPlan("fourier", lambda: _code(passes, setting), nbytes)


@dataclass(frozen=True, eq=False, slots=True)
class _Setting:
    """What the passes have in common: the complex type, and where arrays in scratch begin."""

    instruction: Instruction
    target: Target
    type: ElementType
    starts: dict[LinesPlace, int]

    def array(self, fn: Function, place: LinesPlace) -> tuple[str, ElementType]:
        """Return the address of an array, and the type of its elements."""
        if place is LinesPlace.OPERAND:
            return "%a0", self.instruction.operands[0].shape.element_type
        if place is LinesPlace.RESULT:
            return "%a1", self.instruction.shape.element_type
        return fn.gep("%scratch", self.starts[place]), self.type


def _code(passes: list[FftPass], setting: _Setting) -> GpuCode:
    functions, launches, texts = [], [], dict[str, None]()
    for number, form in enumerate(passes):
        kernel = _PassKernel(form, setting, f"fourier{number}")
        kernel.write()
        functions.append(kernel.fn)
        launches.append(GridLaunch(kernel.fn.name, kernel.blocks, kernel.threads))
        texts |= dict.fromkeys([*kernel.elements.globals.values(), *kernel.definitions])
    return GpuCode(tuple(functions), tuple(launches), "\n".join(texts))


class _PassKernel:
    """Writes the kernel of a pass; lines of a block follow one another in shared memory."""

    def __init__(self, form: FftPass, setting: _Setting, name: str) -> None:
        self.form = form
        self.setting = setting
        self.lines = form.groups * form.count
        self.together = self._together()
        size = self.together * form.n
        wanted = -(-size // _EACH)
        self.threads = min(-(-wanted // 32) * 32, _MOST_THREADS)
        self.blocks = -(-self.lines // self.together)
        fn = self.fn = kernel_function(name, setting.instruction, self.threads)
        self.elements: Elements = thread_elements(fn, setting.target, 0)
        self.grid = PlanarGrid(setting.type, form.n, 1)
        element = register_type(setting.type)
        self.shared = [SharedArray(f"{name}_{x}{size}", element, size) for x in ("re", "im")]
        self.first = fn.mul(block_number(fn), self.together)
        self.thread = thread_in_block(fn)

    @property
    def definitions(self) -> list[str]:
        """The lines that the module needs."""
        return [x.definition for x in self.shared]

    def _together(self) -> int:
        """How many lines a block has."""
        form, most = self.form, _LONGEST[self.setting.type]
        found = _ENOUGH // form.n
        if form.source.step > 1 or form.target.step > 1:
            found = max(found, min(_SIDE_BY_SIDE, most // form.n))
        return max(1, min(found, self.lines))

    def write(self) -> None:
        """Write the body: lines are loaded, go through the stages, and are stored."""
        self._load()
        rest, stride = self.form.n, 1
        table = ComplexTable.of(self.elements, self.grid, roots_of_unity(self.form.n))
        for radix in factors_of(self.form.n) or ():
            rest //= radix
            self._stage(table, radix, rest, stride)
            stride *= radix
        barrier(self.fn)
        self._store()

    # -- shared memory -------------------------------------------------------------------------

    def _get(self, place: Integer) -> Parts:
        element = self.grid.element
        names = [x.load(self.fn, place) for x in self.shared]
        return tuple([Number(self.fn, self.setting.target, element, 0, x) for x in names])

    def _put(self, place: Integer, value: Parts) -> None:
        for array, part in zip(self.shared, value, strict=True):
            array.store(self.fn, place, part.name)

    # -- stages --------------------------------------------------------------------------------

    def _stage(self, table: ComplexTable, radix: int, rest: int, stride: int) -> None:
        """One stage: all of the block have loaded their numbers before any is stored."""
        fn, each = self.fn, rest * stride
        count = self.together * each
        barrier(fn)
        found = []
        for step in range(-(-count // self.threads)):
            number = fn.add(self.thread, step * self.threads)
            is_there = fn.compare("slt", number, count)
            number = fn.min(number, count - 1)
            base, at = fn.mul(fn.div(number, each), self.form.n), fn.rem(number, each)
            start = fn.add(base, at)
            values = butterfly([self._get(fn.add(start, each * j)) for j in range(radix)])
            outer, inner = fn.div(at, stride), fn.rem(at, stride)
            if rest > 1:
                turns = [table.load(fn.mul(outer, k * stride)) for k in range(1, radix)]
                turned = [times(x, y) for x, y in zip(values[1:], turns, strict=True)]
                values = [values[0], *turned]
            to = fn.add(fn.add(base, inner), fn.mul(outer, radix * stride))
            found.append((is_there, to, values))
        barrier(fn)
        for is_there, to, values in found:
            with self.elements.scopes.when(is_there):
                for k, value in enumerate(values):
                    self._put(fn.add(to, k * stride), value)

    # -- lines ---------------------------------------------------------------------------------

    def _split(self, number: Integer, count: int, at: Lines) -> tuple[Integer, Integer]:
        """Line and element of a number: neighbours lie side by side in memory."""
        fn = self.fn
        if at.step == 1:
            return fn.div(number, count), fn.rem(number, count)
        return fn.rem(number, self.together), fn.div(number, self.together)

    def _line(self, line: Integer) -> tuple[str, Integer, Integer]:
        """Whether a line of the block exists, its group, and its number there."""
        fn = self.fn
        number = fn.add(self.first, line)
        is_there = fn.compare("slt", number, self.lines)
        number = fn.min(number, self.lines - 1)
        return is_there, fn.div(number, self.form.count), fn.rem(number, self.form.count)

    def _address(self, at: Lines, group: Integer, line: Integer, element: Integer) -> str:
        fn = self.fn
        array, type_ = self.setting.array(fn, at.place)
        outer = fn.mul(fn.div(line, at.inner), at.outer)
        place = fn.add(fn.mul(group, at.group), fn.add(outer, fn.rem(line, at.inner)))
        place = fn.add(place, fn.mul(element, at.step))
        size = (2 if type_.is_complex else 1) * memory.element_bytes(type_)
        return fn.gep(array, fn.mul(place, size))

    def _load(self) -> None:
        """Fill shared memory; the second half of what is symmetric is made of the first one."""
        fn, form, target = self.fn, self.form, self.setting.target
        _, type_ = self.setting.array(fn, form.source.place)
        size = self.together * form.n
        with self.elements.scopes.loop(self.thread, size, self.threads) as loop:
            line, element = self._split(loop.index, form.n, form.source)
            _, group, number = self._line(line)
            place = fn.min(element, fn.sub(form.n, element)) if form.extended else element
            pointer = self._address(form.source, group, number, place)
            parts = memory.numbers(fn, target, memory.load(fn, target, type_, pointer, 0))
            real = parts[0]
            imaginary = parts[1] if len(parts) == 2 else real.constant(0.0)
            if form.extended:
                is_mirrored = fn.compare("ne", place, element)
                name = fn.select(is_mirrored, imaginary.type, (-imaginary).name, imaginary.name)
                imaginary = imaginary.named(imaginary.element, name)
            value = (imaginary, real) if form.inverse else (real, imaginary)
            self._put(fn.add(fn.mul(line, form.n), element), value)

    def _store(self) -> None:
        """Store results: turned, scaled, and with their parts in order."""
        fn, form = self.fn, self.form
        _, type_ = self.setting.array(fn, form.target.place)
        turn = _Turns(self) if form.twiddle else None
        size = self.together * form.kept
        with self.elements.scopes.loop(self.thread, size, self.threads) as loop:
            line, element = self._split(loop.index, form.kept, form.target)
            is_there, group, number = self._line(line)
            value = self._get(fn.add(fn.mul(line, form.n), element))
            if turn is not None:
                value = times(value, turn.factor(element, number))
            value = value[::-1] if form.inverse else value
            value = scaled(value, form.scale) if form.scale != 1.0 else value
            if form.limit:
                place = fn.add(fn.mul(element, form.limit_step), number)
                is_kept = fn.compare("slt", place, form.limit)
                is_there = fn.op(f"and i1 {is_there}, {is_kept}")
            with self.elements.scopes.when(is_there):
                stored = value_of(value[: 2 if type_.is_complex else 1], type_)
                pointer = self._address(form.target, group, number, element)
                memory.store(fn, self.setting.target, stored, pointer, None)


class _Turns:
    """The factors by which results of a pass are turned, from two tables of roots."""

    def __init__(self, kernel: _PassKernel) -> None:
        form = self.form = kernel.form
        self.fn = kernel.fn
        self.bits = (form.twiddle.bit_length() + 1) // 2
        part = 1 << self.bits
        fine = np.exp(-2j * np.pi * np.arange(part) / form.twiddle)
        coarse = np.exp(-2j * np.pi * np.arange(-(-form.twiddle // part)) * part / form.twiddle)
        self.fine = ComplexTable.of(kernel.elements, kernel.grid, fine)
        self.coarse = ComplexTable.of(kernel.elements, kernel.grid, coarse)

    def factor(self, result: Integer, line: Integer) -> Parts:
        """Return the factor of a result of a line."""
        fn = self.fn
        at = fn.mul(fn.div(line, self.form.twiddle_inner), result)
        low = fn.op(f"and i64 {at}, {(1 << self.bits) - 1}")
        return times(self.coarse.load(fn.op(f"lshr i64 {at}, {self.bits}")), self.fine.load(low))
