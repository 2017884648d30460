"""Lines of a pass of an fft, read and written as vectors of one element of each line.

Lines that lie side by side are read as they are. Lines that follow one another are read in blocks
of consecutive elements, which shuffles turn. Single elements at their ends are gathered.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

from lowtide.codegen.cpu.shuffles import transposed
from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elementwise import memory
from lowtide.codegen.elementwise.number import Number
from lowtide.codegen.library.fft_form import Lines
from lowtide.codegen.library.field import Parts, value_of
from lowtide.codegen.value import register_type
from lowtide.ir import ElementType
from lowtide.llvm.function import Function, Integer
from lowtide.llvm.target import Target
from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class Block:
    """A vector of lines of a group: the number of the first, of each, and which there are."""

    group: Integer
    first: Integer
    count: int
    numbers: Number
    inside: Number


@dataclass(eq=False, slots=True)
class Port:
    """Elements of the lines of a block in an array at `array`, of a type."""

    elements: Elements
    at: Lines
    array: str
    type: ElementType
    block: Block
    _base: str = field(init=False)
    _offsets: str = field(init=False, default="")
    _starts: list[str] = field(init=False, default_factory=list)
    _steps: list[str] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        """Write what the addresses of all elements have in common."""
        fn, at, block = self.fn, self.at, self.block
        self._base = fn.gep(self.array, fn.mul(block.group, at.group * self.size))
        if not at.outer:
            self._base = fn.gep(self._base, fn.mul(block.first, self.size))
            return
        lines = block.numbers
        inner = lines.constant(at.inner)
        found = lines.op("udiv", inner) * at.outer + lines.op("urem", inner)
        self._offsets = found.name
        if self.turns:
            self._find_lines()

    @property
    def fn(self) -> Function:
        """The function."""
        return self.elements.function

    @property
    def target(self) -> Target:
        """The processor."""
        return self.elements.target

    @property
    def lanes(self) -> int:
        """The number of lines of a block."""
        return self.elements.lanes

    @property
    def parts(self) -> int:
        """How many numbers make an element."""
        return 2 if self.type.is_complex else 1

    @property
    def size(self) -> int:
        """The bytes of an element."""
        return self.parts * memory.element_bytes(self.type)

    @property
    def turns(self) -> bool:
        """Whether elements of a line follow one another, and lines too."""
        return self.at.outer > 0 and self.at.inner == 1 and self.at.step == 1

    @property
    def chunk(self) -> int:
        """How many elements of a line make a vector."""
        return self.lanes // self.parts

    def _find_lines(self) -> None:
        """Where each line begins; a line beyond the last one stands for memory of its own."""
        fn, block = self.fn, self.block
        spare = fn.stack("i8", self.chunk * self.size)
        for lane in range(self.lanes):
            line = fn.add(block.first, lane)
            inside = fn.compare("slt", line, block.count)
            real = fn.gep(self._base, fn.mul(line, self.at.outer * self.size))
            self._starts.append(fn.select(inside, "ptr", real, spare))
            self._steps.append(fn.select(inside, "i64", self.size, 0))

    # -- reading -------------------------------------------------------------------------------

    def load_all(self, count: int, put: Callable[[Integer, Parts], None]) -> None:
        """Hand over elements 0 to `count` - 1 with their numbers."""
        elements = self.elements
        whole = count - count % self.chunk if self.turns else 0
        if whole:
            with elements.scopes.loop(0, whole, self.chunk) as loop:
                for number, value in enumerate(self._tile(loop.index)):
                    put(self.fn.add(loop.index, number), value)
        with elements.scopes.loop(whole, count) as loop:
            put(loop.index, self._load(loop.index))

    def _load(self, number: Integer) -> Parts:
        fn = self.fn
        pointer = fn.gep(self._base, fn.mul(number, self.at.step * self.size))
        mask = self.block.inside.name
        if self._offsets:
            value = memory.gather(
                fn, self.target, self.type, pointer, self._offsets, self.lanes, mask
            )
        else:
            value = memory.load(fn, self.target, self.type, pointer, self.lanes, mask)
        return self._complex(memory.numbers(fn, self.target, value))

    def _complex(self, parts: Parts) -> Parts:
        return parts if len(parts) == 2 else (parts[0], parts[0].constant(0.0))

    def _tile(self, first: Integer) -> list[Parts]:
        """Consecutive elements of all lines, from number `first` on."""
        fn, element = self.fn, register_type(self.type)
        kind = f"<{self.lanes} x {element}>"
        rows = [
            fn.load(kind, fn.gep(start, fn.mul(step, first)), self.size // self.parts)
            for start, step in zip(self._starts, self._steps, strict=True)
        ]
        columns = transposed(fn, element, self.lanes, rows)
        numbers = [Number(fn, self.target, element, self.lanes, x) for x in columns]
        found = zip(*[iter(numbers)] * self.parts, strict=True)
        return [self._complex(x) for x in found]

    # -- writing -------------------------------------------------------------------------------

    def store_all(self, count: int, get: Callable[[Integer], tuple[Parts, Number | None]]) -> None:
        """Store elements 0 to `count` - 1; `get` returns each, and in which lanes it is wanted."""
        elements = self.elements
        whole = count - count % self.chunk if self.turns else 0
        if whole:
            with elements.scopes.loop(0, whole, self.chunk) as loop:
                tile = [get(self.fn.add(loop.index, x))[0] for x in range(self.chunk)]
                self._store_tile(loop.index, tile)
        with elements.scopes.loop(whole, count) as loop:
            value, wanted = get(loop.index)
            self._store(loop.index, value, wanted)

    def _store(self, number: Integer, value: Parts, wanted: Number | None) -> None:
        fn = self.fn
        pointer = fn.gep(self._base, fn.mul(number, self.at.step * self.size))
        mask = self.block.inside if wanted is None else self.block.inside & wanted
        element = value_of(value[: self.parts], self.type)
        if not self._offsets:
            memory.store(fn, self.target, element, pointer, mask.name)
            return
        memory.scatter_store(fn, self.target, element, pointer, self._offsets, mask.name)

    def _store_tile(self, first: Integer, tile: list[Parts]) -> None:
        fn, element = self.fn, register_type(self.type)
        columns = [part.name for value in tile for part in value[: self.parts]]
        rows = transposed(fn, element, self.lanes, columns)
        kind = f"<{self.lanes} x {element}>"
        for row, start, step in zip(rows, self._starts, self._steps, strict=True):
            fn.store(kind, row, fn.gep(start, fn.mul(step, first)), self.size // self.parts)
