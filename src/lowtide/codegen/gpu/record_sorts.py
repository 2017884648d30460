"""Sorts of records with keys in scratch: blocks sort tiles, then merge runs of them.

Where records can be made again from their places scratch has these only, and a block that merges
makes the records that it looks at.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Final

from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elements.operands import Bound, bind
from lowtide.codegen.gpu.kernel import buffer_names, kernel_function
from lowtide.codegen.gpu.merges import MERGED, Merge
from lowtide.codegen.gpu.networks import (
    SharedRecords,
    SortTiling,
    TilePlace,
    last_record,
    selected,
    tile_places,
)
from lowtide.codegen.gpu.register_networks import write_key_network
from lowtide.codegen.gpu.threads import block_number
from lowtide.codegen.gpu.vectors import thread_elements
from lowtide.codegen.kernel import rounded
from lowtide.codegen.library.records import Fields, Records, records_of
from lowtide.ir import Instruction
from lowtide.ir.thunk import GridLaunch
from lowtide.llvm.function import Function, Integer
from lowtide.llvm.target import Target
from lowtide.records import dataclass

SHORT_PLACES: Final = 1 << 16
"""Records of a row whose places have 16 bits, less one: the largest number is none."""

MakeRecord = Callable[[Elements, Bound, TilePlace], Fields]
"""Writes the record of a place."""


@dataclass(frozen=True, eq=False, slots=True)
class PlacesInScratch:
    """Records of which an array in scratch has the places, as LLVM's `type`.

    Records are those that `make` writes. What lies behind the end of a row comes last.
    """

    elements: Elements
    bound: Bound
    tiling: SortTiling
    records: Records
    make: MakeRecord
    type: str

    def load(self, fn: Function, base: str, at: Integer) -> Fields:
        """Make a record again; where there is none, it is the last."""
        tiling, place = self.tiling, _place(fn, self.type, base, at)
        row = fn.min(fn.div(at, tiling.padded), tiling.rows - 1)
        is_there = fn.compare("slt", place, tiling.size)
        here = TilePlace(at, row, fn.min(place, tiling.size - 1), is_there)
        made = self.make(self.elements, self.bound, here)
        return selected(fn, self.records, is_there, made, last_record(self.records))

    def store(self, fn: Function, base: str, at: Integer, fields: Fields) -> None:
        """Store the place of a record."""
        place = fn.op(f"trunc i64 {self.records.place(fn, fields)} to {self.type}")
        fn.store(self.type, place, fn.gep(base, at, self.type), _place_bytes(self.type))


@dataclass(frozen=True, eq=False)
class RecordSort:
    """A sort of rows of records with keys of `key_bits` bits, for an instruction's kernel.

    Scratch from `first` on has two arrays of the places of records, which `make` makes again, or
    with `type` of the records: integers of that LLVM type, no two of which are equal. `name` begins
    the names of its functions.
    """

    instruction: Instruction
    target: Target
    tiling: SortTiling
    key_bits: int
    make: MakeRecord
    name: str
    first: int = 0
    rows_first: bool = False
    type: str = ""

    @cached_property
    def records(self) -> Records:
        """The layout of the records of all rows; row after row, each padded."""
        count = self.tiling.rows * self.tiling.padded
        found = records_of(self.key_bits, count)
        return replace(found, types=(self.type,)) if self.type else found

    @property
    def place_type(self) -> str:
        """The LLVM type of places; its largest number is none."""
        return "i16" if self.tiling.size < SHORT_PLACES else "i32"

    @property
    def place_bytes(self) -> int:
        """The bytes of a place."""
        return _place_bytes(self.place_type)

    @property
    def array_bytes(self) -> int:
        """The bytes of one of the two arrays."""
        return rounded(
            (self.records.nbytes if self.type else self.place_bytes) * self.records.capacity
        )

    @property
    def widths(self) -> list[int]:
        """The lengths of the runs that are merged, in turn."""
        found, width = [], self.tiling.length
        while width < self.tiling.padded:
            found.append(width)
            width *= 2
        return found

    @property
    def sorted_at(self) -> int:
        """Where in scratch the sorted records lie."""
        return self.first + (self.array_bytes if len(self.widths) % 2 else 0)

    @property
    def free_at(self) -> int:
        """Where in scratch the other array lies, which is free once all are sorted."""
        return self.first + (0 if len(self.widths) % 2 else self.array_bytes)

    def sorted_place(self, fn: Function, at: Integer) -> str:
        """Return the place of a sorted record as an i64, where places lie in scratch."""
        return _place(fn, self.place_type, fn.gep("%scratch", self.sorted_at), at)

    def _in_scratch(self, elements: Elements, bound: Bound) -> PlacesInScratch | Records:
        """How records lie in scratch."""
        if self.type:
            return self.records
        return PlacesInScratch(
            elements, bound, self.tiling, self.records, self.make, self.place_type
        )

    @property
    def scratch_bytes(self) -> int:
        """The scratch of both arrays."""
        return (2 if self.widths else 1) * self.array_bytes

    def write(self) -> tuple[list[Function], list[GridLaunch], list[str]]:
        """Return the functions, their launches, and what the module defines besides."""
        tiles, texts = self._tiles()
        functions, launches = [tiles], [self._launch(tiles)]
        source, result = self.first, self.first + self.array_bytes
        for width in self.widths:
            merge, more = self._merge(width, source, result)
            functions.append(merge)
            threads = self.tiling.length // MERGED
            blocks = self.tiling.rows * self.tiling.pieces
            launches.append(GridLaunch(merge.name, blocks, threads))
            texts += more
            source, result = result, source
        return functions, launches, texts

    def _launch(self, function: Function) -> GridLaunch:
        return GridLaunch(function.name, self.tiling.blocks, self.tiling.threads)

    def _tiles(self) -> tuple[Function, list[str]]:
        """The kernel that makes the records, and sorts each tile."""
        tiling, records = self.tiling, self.records
        fn = kernel_function(f"{self.name}tiles", self.instruction, tiling.threads)
        elements = thread_elements(fn, self.target, 0)
        bound = bind(fn, self.instruction, buffer_names(self.instruction))
        shared = SharedRecords(records, tiling.tile)
        fill_tile(elements, bound, shared, tiling, self.make, rows_first=self.rows_first)
        write_key_network(fn, shared, tiling)
        base, stored = fn.gep("%scratch", self.first), self._in_scratch(elements, bound)
        with tile_places(fn, elements.scopes, tiling) as at:
            row = fn.add(fn.mul(at.row, tiling.padded), at.place)
            if tiling.pieces == 1:
                with elements.scopes.when(at.is_there):
                    stored.store(fn, base, row, shared.load(fn, at.number))
            else:
                place = fn.add(fn.mul(block_number(fn), tiling.length), at.number)
                stored.store(fn, base, place, shared.load(fn, at.number))
        return fn, [*elements.globals.values(), *shared.definitions]

    def _merge(self, width: int, source: int, result: int) -> tuple[Function, list[str]]:
        """The kernel that merges runs of `width` records of each row."""
        fn = kernel_function(
            f"{self.name}merge{width}", self.instruction, self.tiling.length // MERGED
        )
        elements = thread_elements(fn, self.target, 0)
        bound = bind(fn, self.instruction, buffer_names(self.instruction))
        stored = self._in_scratch(elements, bound)
        writer = Merge(elements, self.records, self.tiling, width, stored)
        writer.write(fn.gep("%scratch", source), fn.gep("%scratch", result))
        return fn, [*elements.globals.values(), *writer.shared.definitions]


def _place(fn: Function, type_: str, base: str, at: Integer) -> str:
    """The number `at` of an array of places, as an i64."""
    place = fn.load(type_, fn.gep(base, at, type_), _place_bytes(type_))
    return fn.op(f"zext {type_} {place} to i64")


def _place_bytes(type_: str) -> int:
    """The bytes of a place of LLVM's type."""
    return int(type_[1:]) // 8


def fill_tile(
    elements: Elements,
    bound: Bound,
    shared: SharedRecords,
    tiling: SortTiling,
    make: MakeRecord,
    *,
    rows_first: bool = False,
) -> None:
    """Write what makes the records of a tile."""
    fn = elements.function
    last = last_record(shared.records)
    with tile_places(fn, elements.scopes, tiling, rows_first=rows_first) as at:
        made = make(elements, bound, at)
        shared.store(fn, at.number, selected(fn, shared.records, at.is_there, made, last))
