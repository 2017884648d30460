"""Sort along a dimension, in place of the operands or beside them; it is always stable.

Long rows with keys of up to 64 bits are sorted as `sort_digits.py` says. Where they do not lie in
one piece, are short, or have many operands, records of keys and places are sorted by their bytes in
parts, and the parts merged. Any other comparator is compiled into a merge sort of places.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lowtide.codegen.cpu.cost import seconds
from lowtide.codegen.cpu.library.record_order import radix_function, ranking_function
from lowtide.codegen.cpu.library.sort_digits import SortDigits, plan_digits
from lowtide.codegen.cpu.library.sort_parts import BLOCK, PART, SortParts
from lowtide.codegen.cpu.library.sort_rows import (
    fill_function,
    merge_function,
    pick_function,
    put_function,
)
from lowtide.codegen.kernel import ARGUMENTS, KernelCode, KernelPlan
from lowtide.ir import Instruction
from lowtide.ir.thunk import Phase
from lowtide.llvm.callee import parameters
from lowtide.llvm.function import Function, Integer
from lowtide.llvm.target import Target


def plan_sort(instruction: Instruction, target: Target) -> KernelPlan | None:
    """Return the plan of a sort whose operands are arrays in memory."""
    form = SortParts(instruction)
    if not form.rows * form.size:
        return KernelPlan(lambda: KernelCode((), ()))
    digits = SortDigits(instruction)
    if digits.fits:
        return plan_digits(digits, target)
    return KernelPlan(lambda: _Writer(form, target).write(), form.shared_bytes, form.thread_bytes)


_PART: Final = parameters(
    buffers="ptr", row="i64", a="ptr", b="ptr", counts="ptr", first="i64", last="i64"
)
_LEVEL: Final = parameters(
    buffers="ptr", row="i64", source="ptr", result="ptr", width="i64", first="i64", last="i64"
)

_Emit = Callable[[Function, Integer, str, Integer, Integer], None]
"""Writes what is done with elements first..last of a row, whose scratch begins at an address."""


class _Writer:
    """Writes the functions and phases of a sort."""

    def __init__(self, form: SortParts, target: Target) -> None:
        self.form = form
        self.target = target
        self.functions: dict[str, Function] = {}
        """By name, callees first."""
        self.globals: dict[str, str] = {}
        self.phases: list[Phase] = []

    def write(self) -> KernelCode:
        form, target = self.form, self.target
        count = len(form.sort.operands)
        rows = [fill_function(form, target), merge_function(form, target)]
        rows += [pick_function(form, target, x) for x in range(count)]
        rows += [put_function(form, target, x) for x in range(count)]
        for row in rows:
            self._add(row.function)
            self.globals |= row.elements.globals
        if form.is_ranked:
            self._add(ranking_function(target))
        elif form.keys:
            self._add(radix_function(form.records))
        if not form.is_ranked:
            self._add(self._level())
            self._add(self._part())
        if form.shared:
            self._shared_phases()
        else:
            self._row_phase()
        text = "\n".join(self.globals.values())
        return KernelCode(tuple(self.functions.values()), tuple(self.phases), text)

    def _add(self, function: Function) -> None:
        self.functions[function.name] = function

    # -- parts and levels ----------------------------------------------------------------------

    def _part(self) -> Function:
        """Sort the records first..last of a row in `a`."""
        form, fill = self.form, self.functions["fill"]
        fn = Function("part", _PART, linkage="internal")
        if form.keys:
            fn.call(fill, ["%buffers", "%row", "%a", "%first", "%last"])
            length = fn.sub("%last", "%first")
            fn.call(self.functions["radix"], ["%a", "%b", "%counts", "%first", length])
            return fn
        levels = (min(form.size, PART) - 1).bit_length()
        source, other = ("%a", "%b") if levels % 2 == 0 else ("%b", "%a")
        fn.call(fill, ["%buffers", "%row", source, "%first", "%last"])
        width = 1
        for _ in range(levels):
            given: list[Integer] = ["%buffers", "%row", source, other, width, "%first", "%last"]
            fn.call(self.functions["level"], given)
            source, other, width = other, source, 2 * width
        return fn

    def _level(self) -> Function:
        """Merge runs of `width` records of a row, so far as the result is first..last."""
        fn = Function("level", _LEVEL, linkage="internal")
        pair = fn.mul("%width", 2)
        start = fn.sub("%first", fn.op(f"urem i64 %first, {pair}"))
        with fn.loop(start, "%last", pair) as loop:
            low = loop.index
            middle = fn.min(fn.add(low, "%width"), self.form.size)
            high = fn.min(fn.add(low, pair), self.form.size)
            first, last = fn.max("%first", low), fn.min("%last", high)
            given = ["%buffers", "%row", "%source", "%result", low, middle, high, first, last]
            fn.call(self.functions["merge"], given)
        return fn

    # -- rows by themselves --------------------------------------------------------------------

    def _row_phase(self) -> None:
        form = self.form
        fn = Function("sort", ARGUMENTS)
        start = fn.add(form.shared_bytes, fn.mul("%thread", form.thread_bytes))
        a = fn.gep("%scratch", start)
        b = fn.gep(a, form.a_bytes)
        counts = fn.gep(a, form.row_bytes)
        with fn.loop("%begin", "%end") as loop:
            row = loop.index
            records, other = self._sorted_row(fn, row, a, b, counts)
            self._moved(fn, row, records, other, 0, form.size)
        self._add(fn)
        self.phases.append(Phase("sort", form.rows, form.size * self._element_seconds()))

    def _sorted_row(
        self, fn: Function, row: Integer, a: str, b: str, counts: str
    ) -> tuple[str, str]:
        """Sort a row; return where its records are then, and the other array."""
        form = self.form
        if form.is_ranked:
            fn.call(self.functions["fill"], ["%buffers", row, a, 0, form.size])
            fn.call(self.functions["ranking"], [a, b, form.size])
            return b, a
        with fn.loop(0, form.parts) as loop:
            first = fn.mul(loop.index, PART)
            last = fn.min(fn.add(first, PART), form.size)
            fn.call(self.functions["part"], ["%buffers", row, a, b, counts, first, last])
        source, other = a, b
        for width in form.widths:
            given: list[Integer] = ["%buffers", row, source, other, width, 0, form.size]
            fn.call(self.functions["level"], given)
            source, other = other, source
        return source, other

    def _moved(
        self, fn: Function, row: Integer, records: str, other: str, first: Integer, last: Integer
    ) -> None:
        for number in range(len(self.form.sort.operands)):
            for name in (f"pick{number}", f"put{number}"):
                given = ["%buffers", row, records, other, first, last]
                fn.call(self.functions[name], given)

    def _element_seconds(self) -> float:
        passes = 2 * self.form.records.digits if self.form.keys else 40
        return seconds(0, 8 + passes + 4 * len(self.form.widths))

    # -- rows shared by threads ----------------------------------------------------------------

    def _shared_phases(self) -> None:
        form = self.form
        self._phase("parts", PART, form.parts, self._emit_part)
        a, b = 0, form.a_bytes
        for width in form.widths:
            units = form.blocks if form.keys else -(-form.size // (2 * width))
            size = BLOCK if form.keys else 2 * width
            self._merge_phase(width, size, units, a, b)
            a, b = b, a
        for number in range(len(form.sort.operands)):
            for what in ("pick", "put"):
                self._move_phase(f"{what}{number}", a, b)

    def _phase(self, name: str, size: int, units: int, emit: _Emit) -> None:
        """A phase over pieces of `size` elements of all rows."""
        form = self.form
        fn = Function(f"{name}_phase", ARGUMENTS)
        with fn.loop("%begin", "%end") as loop:
            row, piece = fn.div(loop.index, units), fn.rem(loop.index, units)
            base = fn.gep("%scratch", fn.mul(row, form.row_bytes))
            first = fn.mul(piece, size)
            emit(fn, row, base, first, fn.min(fn.add(first, size), form.size))
        self._add(fn)
        each = size * self._element_seconds() / (2 + len(form.widths))
        self.phases.append(Phase(fn.name, form.rows * units, each))

    def _emit_part(
        self, fn: Function, row: Integer, base: str, first: Integer, last: Integer
    ) -> None:
        form = self.form
        start = fn.add(form.shared_bytes, fn.mul("%thread", form.thread_bytes))
        counts = fn.gep("%scratch", start)
        given = ["%buffers", row, base, fn.gep(base, form.a_bytes), counts, first, last]
        fn.call(self.functions["part"], given)

    def _merge_phase(self, width: int, size: int, units: int, a: int, b: int) -> None:
        def emit(fn: Function, row: Integer, base: str, first: Integer, last: Integer) -> None:
            source, result = fn.gep(base, a), fn.gep(base, b)
            given = ["%buffers", row, source, result, width, first, last]
            fn.call(self.functions["level"], given)

        self._phase(f"merge{width}", size, units, emit)

    def _move_phase(self, name: str, a: int, b: int) -> None:
        def emit(fn: Function, row: Integer, base: str, first: Integer, last: Integer) -> None:
            given = ["%buffers", row, fn.gep(base, a), fn.gep(base, b), first, last]
            fn.call(self.functions[name], given)

        self._phase(name, BLOCK, self.form.blocks, emit)
