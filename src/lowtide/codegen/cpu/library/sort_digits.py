"""Sorts of long rows by the bytes of their keys: the elements themselves move, between two arrays.

Every pass orders the elements of all operands by one byte of their keys, the lowest first, and
moves them from one array to the other: the results are one of them, the other is scratch. Chunks of
a row are counted first, then each is moved to where those before it leave room, so that threads may
share a row and equal keys keep their order.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Final

from lowtide.codegen.arrays import strides
from lowtide.codegen.cpu.cost import seconds
from lowtide.codegen.cpu.library.sort_chunks import (
    COUNTS,
    SPAN,
    copy_function,
    count_function,
    move_function,
    passes_function,
    room_function,
    span_function,
)
from lowtide.codegen.cpu.library.sort_parts import FEW_ROWS, PART, SortParts
from lowtide.codegen.cpu.library.sort_rows import RowFunction
from lowtide.codegen.kernel import ARGUMENTS, KernelCode, KernelPlan, rounded
from lowtide.codegen.library.sort_form import SortForm
from lowtide.ir.thunk import Phase
from lowtide.llvm.callee import parameters
from lowtide.llvm.function import Function, Integer
from lowtide.llvm.target import Target
from lowtide.records import dataclass

MOST_CHUNKS: Final = 64
"""Chunks of a row at most: each looks at the counts of all."""


@dataclass(frozen=True, eq=False)
class SortDigits(SortForm):
    """A sort of long rows, with the division of rows into chunks, and its scratch.

    Scratch of a row has an array for each operand, then counts and spans of its chunks. It belongs
    to a thread, whose row is one chunk, or to each row where threads share rows (`shared`).
    """

    @cached_property
    def fits(self) -> bool:
        """Whether this is the way to sort: long rows by keys, in no more scratch than as parts."""
        if self.size <= PART or not self.keys or not self._lies_along_rows:
            return False
        other = SortParts(self.sort)
        return self.row_bytes <= (other.shared_bytes // self.rows or other.thread_bytes)

    @property
    def _lies_along_rows(self) -> bool:
        """Whether the elements of rows lie side by side in all arrays."""
        operands = [x.shape for x in self.sort.operands]
        results = [shape for _, shape in self.sort.shape.leaves() if shape.is_array]
        return all(strides(x)[self.dimension] == 1 for x in operands + results)

    @property
    def shared(self) -> bool:
        """Whether several threads work on one row."""
        return self.rows < FEW_ROWS

    @property
    def digits(self) -> int:
        """The bytes of the keys."""
        return -(-self.records.key_bits // 8)

    @property
    def chunk(self) -> int:
        """The elements of a chunk."""
        return max(PART, -(-self.size // MOST_CHUNKS)) if self.shared else self.size

    @property
    def chunks(self) -> int:
        """The chunks of a row."""
        return -(-self.size // self.chunk)

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Where the array of each operand begins in the scratch of a row, then the counts."""
        found = [0]
        for x in self.sort.operands:
            found.append(found[-1] + rounded(x.shape.element_type.nbytes * self.size))
        return tuple(found)

    @property
    def row_bytes(self) -> int:
        """The scratch of a row."""
        return self.starts[-1] + COUNTS * self.chunks + rounded(SPAN * self.chunks)

    @property
    def shared_bytes(self) -> int:
        """The scratch of all threads."""
        return self.rows * self.row_bytes if self.shared else 0

    @property
    def thread_bytes(self) -> int:
        """The scratch of each thread: where the next element of each bucket goes, and a row's."""
        return COUNTS + (0 if self.shared else self.row_bytes)


def plan_digits(form: SortDigits, target: Target) -> KernelPlan:
    """Return the plan of a sort that `fits`."""
    return KernelPlan(lambda: _Writer(form, target).write(), form.shared_bytes, form.thread_bytes)


_ROW: Final = parameters(
    buffers="ptr", row="i64", scratch="ptr", table="ptr", chunk="i64", first="i64", last="i64"
)


class _Row(RowFunction):
    """A function that takes a step with a chunk of a row.

    `operands`, `into` and `scratch` are where the row begins in the arrays of each operand.
    """

    def __init__(self, form: SortDigits, target: Target, name: str) -> None:
        super().__init__(form, target, name, _ROW, 0)
        fn = self.function
        first = self.elements.indices.variable(0, form.size)
        self.operands: list[Integer] = [self.raw(x, first)[0] for x in self.sources]
        self.into: list[Integer] = [self.raw(x, first)[0] for x in self.results]
        self.scratch: list[Integer] = [fn.gep("%scratch", x) for x in form.starts[:-1]]
        self.counts = fn.gep("%scratch", form.starts[-1])
        self.spans = fn.gep(self.counts, COUNTS * form.chunks)
        self.span = fn.gep(self.spans, fn.mul("%chunk", SPAN))

    def moves(self, passes: str) -> str:
        """The number of passes."""
        return self.function.intrinsic("ctpop", "i64", passes)

    def is_pass(self, passes: str, digit: int) -> str:
        """Whether there is a pass for a byte."""
        fn = self.function
        return fn.compare("ne", fn.op(f"and i64 {passes}, {1 << digit}"), 0)

    def is_copied(self, moves: str) -> str:
        """Whether the first pass would write where an operand lies: into results, in its place."""
        fn = self.function
        pairs = zip(self.sources, self.results, strict=True)
        in_place = "false"
        for source, result in pairs:
            same = fn.op(f"icmp eq ptr {source.pointer}, {result.pointer}")
            in_place = fn.op(f"or i1 {in_place}, {same}")
        return fn.op(f"and i1 {in_place}, {fn.op(f'trunc i64 {moves} to i1')}")

    def side(self, left: str) -> list[Integer]:
        """Where elements lie when some passes are left: in the results if their number is even."""
        fn = self.function
        is_odd = fn.op(f"trunc i64 {left} to i1")
        pairs = zip(self.scratch, self.into, strict=True)
        return [fn.select(is_odd, "ptr", x, y) for x, y in pairs]

    def sides(self, passes: str, digit: int) -> tuple[list[Integer], list[Integer]]:
        """Where the pass for a byte reads, and where it writes."""
        fn = self.function
        moves = self.moves(passes)
        done = self.moves(fn.op(f"and i64 {passes}, {(1 << digit) - 1}"))
        left = str(fn.sub(moves, done))
        is_first = fn.compare("eq", done, 0)
        not_copied = fn.op(f"xor i1 {self.is_copied(moves)}, true")
        reads_operands = fn.op(f"and i1 {is_first}, {not_copied}")
        pairs = zip(self.operands, self.side(left), strict=True)
        source: list[Integer] = [fn.select(reads_operands, "ptr", x, y) for x, y in pairs]
        return source, self.side(str(fn.sub(left, 1)))


class _Writer:
    """Writes the functions and phases of a sort.

    Bytes in which all keys are alike need no pass. The last pass ends in the results, so the first
    one reads the operands, or copies of them where it would write over them.
    """

    def __init__(self, form: SortDigits, target: Target) -> None:
        self.form, self.target = form, target
        makers = (span_function, count_function, move_function, copy_function)
        chunks = [make(form, target) for make in makers]
        self.functions = {x.function.name: x.function for x in chunks}
        self.functions["room"] = room_function(form.chunks)
        self.functions["passes"] = passes_function(form.chunks, form.digits)
        self.globals = {k: v for x in chunks for k, v in x.elements.globals.items()}
        self.phases: list[Phase] = []

    def write(self) -> KernelCode:
        """Return the code."""
        steps = [self._spanned(), self._copied()]
        for digit in range(self.form.digits):
            steps += [self._counted(digit), self._moved(digit)]
        if self.form.shared:
            for name in steps:
                self._phase(name)
        else:
            self._row_phase(steps)
        text = "\n".join(self.globals.values())
        return KernelCode(tuple(self.functions.values()), tuple(self.phases), text)

    # -- steps, which take a chunk of a row ----------------------------------------------------

    def _spanned(self) -> str:
        row = _Row(self.form, self.target, "spanned")
        given = [*row.operands, row.span, 0, "%first", "%last"]
        row.function.call(self.functions["span"], given)
        return self._add(row.function)

    def _copied(self) -> str:
        """Copy the operands to where the first pass reads them, or to the results if none does."""
        row = _Row(self.form, self.target, "copied")
        fn = row.function
        moves = row.moves(fn.call(self.functions["passes"], [row.spans]))
        is_needed = fn.op(f"or i1 {row.is_copied(moves)}, {fn.compare('eq', moves, 0)}")
        with fn.when(is_needed):
            given = [*row.operands, *row.side(moves), "%table", 0, "%first", "%last"]
            fn.call(self.functions["copy"], given)
        return self._add(fn)

    def _counted(self, digit: int) -> str:
        row = _Row(self.form, self.target, f"counted{digit}")
        fn = row.function
        passes = fn.call(self.functions["passes"], [row.spans])
        with fn.when(row.is_pass(passes, digit)):
            source, _ = row.sides(passes, digit)
            mine = fn.gep(row.counts, fn.mul("%chunk", COUNTS))
            fn.call(self.functions["count"], [*source, mine, 8 * digit, "%first", "%last"])
        return self._add(fn)

    def _moved(self, digit: int) -> str:
        row = _Row(self.form, self.target, f"moved{digit}")
        fn = row.function
        passes = fn.call(self.functions["passes"], [row.spans])
        with fn.when(row.is_pass(passes, digit)):
            source, target = row.sides(passes, digit)
            fn.call(self.functions["room"], [row.counts, "%table", "%chunk"])
            given = [*source, *target, "%table", 8 * digit, "%first", "%last"]
            fn.call(self.functions["move"], given)
        return self._add(fn)

    def _add(self, function: Function) -> str:
        self.functions[function.name] = function
        return function.name

    # -- phases --------------------------------------------------------------------------------

    def _phase(self, name: str) -> None:
        """A phase that takes one step with all chunks of all rows."""
        form = self.form
        with self._units(f"{name}_phase", form.rows * form.chunks, 1) as (fn, unit, table):
            row, chunk = fn.div(unit, form.chunks), fn.rem(unit, form.chunks)
            scratch = fn.gep("%scratch", fn.mul(row, form.row_bytes))
            first = fn.mul(chunk, form.chunk)
            last = fn.min(fn.add(first, form.chunk), form.size)
            given: list[Integer] = ["%buffers", row, scratch, table, chunk, first, last]
            fn.call(self.functions[name], given)

    def _row_phase(self, steps: list[str]) -> None:
        """A phase that takes all steps with a row."""
        form = self.form
        with self._units("rows", form.rows, len(steps)) as (fn, row, table):
            given: list[Integer] = ["%buffers", row, fn.gep(table, COUNTS), table, 0, 0, form.size]
            for name in steps:
                fn.call(self.functions[name], given)

    @contextmanager
    def _units(self, name: str, units: int, steps: int) -> Iterator[tuple[Function, Integer, str]]:
        """Write a phase: yields its function, the number of a unit, and the thread's table."""
        form = self.form
        fn = Function(name, ARGUMENTS)
        start = fn.add(form.shared_bytes, fn.mul("%thread", form.thread_bytes))
        table = fn.gep("%scratch", start)
        with fn.loop("%begin", "%end") as loop:
            yield fn, loop.index, table
        self.functions[name] = fn
        self.phases.append(Phase(name, units, seconds(0, 4.0 * steps * form.chunk)))
