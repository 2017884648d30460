"""Sorts of records with keys in scratch: blocks sort tiles, then merge runs of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

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
from lowtide.llvm.function import Function
from lowtide.llvm.target import Target
from lowtide.records import dataclass

MakeRecord = Callable[[Elements, Bound, TilePlace], Fields]
"""Writes the record of a place."""


@dataclass(frozen=True, eq=False)
class RecordSort:
    """A sort of rows of records with keys of `key_bits` bits, for an instruction's kernel.

    Scratch from `first` on has two arrays of records. `name` begins the names of its functions.
    With `type` records are integers of that LLVM type, no two of which are equal.
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
    def array_bytes(self) -> int:
        """The bytes of one of the two arrays."""
        return rounded(self.records.nbytes * self.records.capacity)

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
        base = fn.gep("%scratch", self.first)
        with tile_places(fn, elements.scopes, tiling) as at:
            row = fn.add(fn.mul(at.row, tiling.padded), at.place)
            if tiling.pieces == 1:
                with elements.scopes.when(at.is_there):
                    records.store(fn, base, row, shared.load(fn, at.number))
            else:
                place = fn.add(fn.mul(block_number(fn), tiling.length), at.number)
                records.store(fn, base, place, shared.load(fn, at.number))
        return fn, [*elements.globals.values(), *shared.definitions]

    def _merge(self, width: int, source: int, result: int) -> tuple[Function, list[str]]:
        """The kernel that merges runs of `width` records of each row."""
        fn = kernel_function(
            f"{self.name}merge{width}", self.instruction, self.tiling.length // MERGED
        )
        elements = thread_elements(fn, self.target, 0)
        tiling = self.tiling
        writer = Merge(elements, self.records, tiling, width, fn.gep("%scratch", source))
        writer.write(fn.gep("%scratch", result))
        return fn, writer.shared.definitions


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
