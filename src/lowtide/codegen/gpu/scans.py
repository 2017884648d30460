"""Scans: threads step through parts of rows, and what parts before them add up to is known first.

A block has some parts of some rows. Its threads sum up their parts, and scan these sums in shared
memory; where a row has several blocks, a launch before has made the sums of blocks. Which sums are
made in which order depends on shapes alone. Source: W. D. Hillis and G. L. Steele (1986), "Data
parallel algorithms", for the scan within a block.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import prod
from typing import Final

from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elements.operands import bind
from lowtide.codegen.elements.reducers import carried, renamed
from lowtide.codegen.elementwise import memory
from lowtide.codegen.gpu.kernel import GpuCode, GpuPlan, buffer_names, kernel_function
from lowtide.codegen.gpu.scan_sums import ScanSums, SharedValues, scan_sums
from lowtide.codegen.gpu.threads import block_number, thread_in_block
from lowtide.codegen.gpu.vectors import thread_elements
from lowtide.codegen.indexing import Index
from lowtide.codegen.kernel import rounded
from lowtide.codegen.library.scan_steps import ScanSteps
from lowtide.codegen.library.scratch import ScratchArray, stored_bytes
from lowtide.codegen.space import decomposed
from lowtide.codegen.value import Value
from lowtide.ir import Instruction, Opcode
from lowtide.ir.attributes import Scan
from lowtide.ir.thunk import GridLaunch
from lowtide.llvm.function import Function, Integer
from lowtide.llvm.target import Target
from lowtide.ops.scan_steps import has_chains
from lowtide.records import dataclass

_THREADS: Final = 256
"""Threads of a block."""

_PART: Final = 8
"""Steps of a thread: few, so that a scan is spread over many blocks."""

_BESIDE: Final = 8
"""Rows that a block takes at least where neighbours in memory are in different rows."""

_ENOUGH: Final = 1 << 15
"""Rows that keep a device busy with a thread each."""

_ALONE: Final = 32
"""Threads of a block where each has a row: few, so that rows are spread over many blocks."""


def plan_gpu_scan(instruction: Instruction, target: Target) -> GpuPlan | None:
    """Return how a scan runs, None where its steps are not chains of elements."""
    if instruction.opcode is not Opcode.SCAN or not has_chains(instruction):
        return None
    scheme = _Scheme(instruction, target, scan_sums(instruction) is not None)
    return GpuPlan("scans", scheme.code, scheme.scratch_bytes)


@dataclass(frozen=True, eq=False)
class _Scheme:
    """How a scan is cut: blocks have `beside` rows of `parts` parts each, of `part` steps.

    Where it is not `is_split` each row is one part.
    """

    scan: Instruction
    target: Target
    is_split: bool

    @cached_property
    def others(self) -> tuple[int, ...]:
        """The dimensions that number the rows."""
        at = self.scan.attributes_as(Scan).dimension
        sizes = self.scan.operands[0].shape.dimensions
        return tuple([x for d, x in enumerate(sizes) if d != at])

    @property
    def rows(self) -> int:
        """The number of rows."""
        return prod(self.others)

    @property
    def length(self) -> int:
        """The steps of a row."""
        at = self.scan.attributes_as(Scan).dimension
        return self.scan.operands[0].shape.dimensions[at]

    @property
    def is_across(self) -> bool:
        """Whether neighbours in memory are in different rows."""
        layout = self.scan.operands[0].shape.layout
        rank = len(self.others) + 1
        last = layout.minor_to_major[0] if layout else rank - 1
        return last != self.scan.attributes_as(Scan).dimension

    @property
    def parts(self) -> int:
        """The parts of a row in a block, a power of 2."""
        if not self.is_split or (self.is_across and self.rows >= _ENOUGH):
            return 1
        wanted = 1 << max(-(-self.length // _PART) - 1, 0).bit_length()
        return min(wanted, _THREADS // (_BESIDE if self.is_across else 1))

    @property
    def part(self) -> int:
        """The steps of a part."""
        return self.length if self.parts == 1 else _PART

    @property
    def threads(self) -> int:
        """The threads of a block."""
        return _ALONE if self.parts == 1 else _THREADS

    @property
    def beside(self) -> int:
        """The rows of a block."""
        return self.threads // self.parts

    @property
    def chunks(self) -> int:
        """The blocks that a row is spread over."""
        return -(-self.length // (self.parts * self.part))

    @property
    def blocks(self) -> int:
        """The number of blocks."""
        return -(-self.rows // self.beside) * self.chunks

    @cached_property
    def fields(self) -> list[ScratchArray]:
        """The sums of blocks, for each carry."""
        found, first = [], 0
        if self.chunks == 1:
            return []
        count = self.scan.attributes_as(Scan).num_carries
        for x in self.scan.operands[len(self.scan.operands) - count :]:
            found.append(ScratchArray(x.shape.element_type, first))
            first += rounded(self.rows * self.chunks * stored_bytes(x.shape.element_type))
        return found

    @property
    def scratch_bytes(self) -> int:
        """The scratch of these sums."""
        sizes = [stored_bytes(x.type) for x in self.fields]
        return sum([rounded(self.rows * self.chunks * x) for x in sizes])

    def code(self) -> GpuCode:
        """Return a launch for the sums of blocks, where a row has several, and one for all else."""
        names = ["steps"] if self.chunks == 1 else ["sums", "steps"]
        functions, launches, texts = [], [], []
        for name in names:
            fn = kernel_function(name, self.scan, self.threads)
            texts += _Kernel(self, fn).write(is_last=name == "steps")
            functions.append(fn)
            launches.append(GridLaunch(name, self.blocks, self.threads))
        return GpuCode(tuple(functions), tuple(launches), "\n".join(dict.fromkeys(texts)))


class _Kernel:
    """Writes a kernel of a scan: each thread has a part of a row."""

    def __init__(self, scheme: _Scheme, fn: Function) -> None:
        self.scheme = scheme
        self.fn = fn
        self.elements: Elements = thread_elements(fn, scheme.target, 0)
        bound = bind(fn, scheme.scan, buffer_names(scheme.scan))
        self.steps = ScanSteps(self.elements, scheme.scan, bound)
        self.sums: ScanSums | None = scan_sums(scheme.scan)
        thread, block = thread_in_block(fn), block_number(fn)
        first = fn.mul(fn.div(block, scheme.chunks), scheme.beside)
        self.chunk = fn.rem(block, scheme.chunks)
        if scheme.is_across:
            self.own, self.number = fn.rem(thread, scheme.beside), fn.div(thread, scheme.beside)
        else:
            self.own, self.number = fn.div(thread, scheme.parts), fn.rem(thread, scheme.parts)
        row = fn.add(first, self.own)
        self.is_row = fn.compare("slt", row, scheme.rows)
        self.row = fn.min(row, scheme.rows - 1)
        self.others: Index = tuple(decomposed(self.elements, self.row, scheme.others))
        start = fn.add(fn.mul(self.chunk, scheme.parts), self.number)
        self.first = fn.mul(start, scheme.part)
        self.end = fn.min(fn.add(self.first, scheme.part), scheme.length)
        self.texts: list[str] = []

    def write(self, *, is_last: bool) -> list[str]:
        """Write the kernel; return what its module defines besides."""
        for field in self.scheme.fields:
            field.pointer = self.fn.gep("%scratch", field.first)
        if self.scheme.parts == 1:
            self._walk(self.steps.start(self.others, None, 0))
        elif is_last:
            start = self._before_block()
            self._walk(self._before_part(start, self._scanned(self._part_sum())))
        else:
            self._store_sum(self._scanned(self._part_sum()))
        return [*self.elements.globals.values(), *self.texts]

    def _part_sum(self) -> list[Value]:
        """What the steps of a part add up to; of one behind the end, anything."""
        assert self.sums is not None
        fn, elements, scheme = self.fn, self.elements, self.scheme
        start = fn.min(self.first, scheme.length - 1)
        first = elements.indices.variable(start, scheme.length)
        total = self.sums.at(self.steps, self.others, first)
        with elements.scopes.loop(fn.add(start, 1), self.end, 1, carried(total)) as loop:
            here = elements.indices.variable(loop.index, scheme.length)
            more = self.sums.at(self.steps, self.others, here)
            after = self.sums.combined(self.steps, self.others, renamed(total, loop.values), more)
            loop.next = [name for x in after for name in x.names]
        return renamed(total, loop.results)

    def _scanned(self, total: list[Value]) -> SharedValues:
        """What all parts of a block up to each add up to, in shared memory."""
        assert self.sums is not None
        fn, scheme = self.fn, self.scheme
        shared = SharedValues(total, scheme.threads)
        self.texts += shared.definitions
        own = fn.mul(self.own, scheme.parts)
        shared.write(fn, fn.add(own, self.number), total)
        distance = 1
        while distance < scheme.parts:
            is_there = fn.compare("sge", self.number, distance)
            before = fn.max(fn.sub(self.number, distance), 0)
            other = shared.read(fn, fn.add(own, before))
            both = self.sums.combined(self.steps, self.others, other, total)
            total = shared.chosen(fn, is_there, both, total)
            shared.write(fn, fn.add(own, self.number), total)
            distance *= 2
        return shared

    def _store_sum(self, shared: SharedValues) -> None:
        """Have the last part of each row store what all of the block add up to."""
        fn, scheme = self.fn, self.scheme
        place = fn.add(fn.mul(self.own, scheme.parts), self.number)
        total = shared.read(fn, place)
        is_end = fn.compare("eq", self.number, scheme.parts - 1)
        with self.elements.scopes.when(fn.op(f"and i1 {self.is_row}, {is_end}")):
            to = fn.add(fn.mul(self.row, scheme.chunks), self.chunk)
            for field, value in zip(scheme.fields, total, strict=True):
                memory.store(fn, scheme.target, value, field.address(fn, to))

    def _before_block(self) -> list[Value]:
        """The carries ahead of a block: threads add up the sums of some blocks each, and meet."""
        assert self.sums is not None
        fn, scheme = self.fn, self.scheme
        start = self.steps.start(self.others, None, 0)
        if scheme.chunks == 1:
            return start
        each = -(-scheme.chunks // scheme.parts)
        base = fn.mul(self.row, scheme.chunks)
        first = fn.min(fn.mul(self.number, each), scheme.chunks - 1)
        last = fn.min(fn.add(first, each), scheme.chunks)
        own = self._added(self._loaded(fn.add(base, first)), base, fn.add(first, 1), last)
        shared = self._scanned(own)
        group = fn.div(self.chunk, each)
        place = fn.add(fn.mul(self.own, scheme.parts), fn.max(fn.sub(group, 1), 0))
        both = self.sums.combined(self.steps, self.others, start, shared.read(fn, place))
        start = shared.chosen(fn, fn.compare("sgt", group, 0), both, start)
        return self._added(start, base, fn.mul(group, each), self.chunk)

    def _added(
        self, start: list[Value], base: Integer, first: Integer, last: Integer
    ) -> list[Value]:
        """Carries, and behind them the sums of the blocks of a row from first to last."""
        assert self.sums is not None
        with self.elements.scopes.loop(first, last, 1, carried(start)) as loop:
            more = self._loaded(self.fn.add(base, loop.index))
            now = renamed(start, loop.values)
            after = self.sums.combined(self.steps, self.others, now, more)
            loop.next = [name for x in after for name in x.names]
        return renamed(start, loop.results)

    def _before_part(self, start: list[Value], shared: SharedValues) -> list[Value]:
        """The carries ahead of a part: those of its block, then of parts before."""
        assert self.sums is not None
        fn = self.fn
        own = fn.mul(self.own, self.scheme.parts)
        other = shared.read(fn, fn.add(own, fn.max(fn.sub(self.number, 1), 0)))
        both = self.sums.combined(self.steps, self.others, start, other)
        return shared.chosen(fn, fn.compare("sgt", self.number, 0), both, start)

    def _loaded(self, place: Integer) -> list[Value]:
        fn, target = self.fn, self.scheme.target
        fields = self.scheme.fields
        return [memory.load(fn, target, x.type, x.address(fn, place), 0) for x in fields]

    def _walk(self, carries: Sequence[Value]) -> None:
        """All steps of a part; the last one of a row stores what is carried then."""
        fn, scheme, elements = self.fn, self.scheme, self.elements
        is_there = fn.compare("slt", self.first, scheme.length)
        with elements.scopes.when(fn.op(f"and i1 {self.is_row}, {is_there}")):
            with elements.scopes.loop(self.first, self.end, 1, carried(carries)) as loop:
                number = elements.indices.variable(loop.index, scheme.length)
                now = renamed(carries, loop.values)
                after = self.steps.step(self.others, number, now, None)
                loop.next = [name for x in after for name in x.names]
            last = renamed(carries, loop.results)
            with elements.scopes.when(fn.compare("eq", self.end, scheme.length)):
                self.steps.finish(self.others, last, None)
