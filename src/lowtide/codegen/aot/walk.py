"""The function of a whole program: where its memory is, then its thunks as straight code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import final

from lowtide.codegen.bundles.cells import slices_touched
from lowtide.codegen.bundles.choice import ThunkCosts
from lowtide.codegen.bundles.function import ThunkWriter, constant_definition
from lowtide.ir.buffer import BufferSlice
from lowtide.ir.thunk import KernelEntry, KernelThunk, Thunk, WhileThunk, all_thunks
from lowtide.llvm.callee import COPY, parameters
from lowtide.llvm.function import Function, module_text
from lowtide.llvm.merging import inner_text, merged
from lowtide.records import dataclass


class Home(Enum):
    """What an allocation lies in: the arena, an array that the caller gives, the object."""

    ARENA = "arena"
    ARGUMENT = "args"
    RESULT = "results"
    CONSTANT = "constant"


@dataclass(frozen=True, slots=True)
class AllocationHome:
    """Where an allocation begins.

    It is `offset` bytes behind the beginning of the arena, of a constant, or of the array with the
    given number. An argument that a result overwrites lies in the result, and `copied_from` is the
    number of the array from which its `nbytes` bytes come, -1 for none.
    """

    home: Home
    number: int = 0
    offset: int = 0
    copied_from: int = -1
    nbytes: int = 0


@dataclass(frozen=True, slots=True)
class AotMemory:
    """The memory of a program: of each allocation its home, and the bytes of constants.

    `results` are slices that are copied to the arrays of results at the end, by their numbers.
    """

    homes: Mapping[int, AllocationHome]
    constants: Mapping[int, bytes]
    results: Mapping[int, BufferSlice]


def walk_text(
    name: str,
    thunks: Sequence[Thunk],
    kernels: Sequence[KernelEntry],
    kernel_texts: Sequence[str],
    memory: AotMemory,
) -> str:
    """Return a module with `i32 name(ptr arena, ptr args, ptr results)` and all that it calls.

    It runs the thunks on the thread that calls it and returns 0. `kernel_texts` are the modules of
    kernels by number. Thunks are kernels, copies, loops and branches.
    """
    f = Function(name, parameters(arena="ptr", args="ptr", results="ptr"), "i32")
    writer = _Walk(f, kernels, thunks)
    writer.find(thunks, memory)
    writer.sequence(thunks)
    writer.hand_out(memory)
    f.ret("i32", "0")
    used = (x.kernel for x in all_thunks(thunks) if isinstance(x, KernelThunk))
    texts = list(dict.fromkeys([kernel_texts[x] for x in used]))
    return merged(module_text([f]), [inner_text(x, inlined_lines=0)[0] for x in texts])


@final
class _Walk(ThunkWriter):
    """Calls of kernels share one table of addresses, so that little of the stack is needed."""

    def __init__(
        self, f: Function, kernels: Sequence[KernelEntry], thunks: Sequence[Thunk]
    ) -> None:
        super().__init__(f, kernels, {}, ThunkCosts([0.0] * len(kernels), [0] * len(kernels)))
        calls = (len(x.buffers) for x in all_thunks(thunks) if isinstance(x, KernelThunk))
        self._table = f.stack("ptr", max(calls, default=1) or 1, 8)
        self._bases: dict[int, str] = {}

    def find(self, thunks: Sequence[Thunk], memory: AotMemory) -> None:
        """Find the address of each slice, and copy arguments that results overwrite."""
        f = self.f
        for x in (*slices_touched(thunks), *memory.results.values()):
            if x.allocation >= 0 and x.nbytes and x not in self.addresses:
                base = self._base(x.allocation, memory)
                self.addresses[x] = f.gep(base, x.offset)

    def hand_out(self, memory: AotMemory) -> None:
        """Copy results to the arrays that the caller gives for them."""
        for number, place in memory.results.items():
            if place.nbytes:
                there = self._given("results", number)
                self.f.call(COPY, [there, self.address(place), place.nbytes, "false"])

    def address(self, place: BufferSlice) -> str:
        """The address of a slice; one without bytes has any."""
        return self.addresses.get(place, "%arena")

    def table(self, count: int) -> str:
        """The table of all calls."""
        return self._table

    def after_trip(self, thunk: WhileThunk) -> None:
        """Nobody ends a run."""

    def _base(self, allocation: int, memory: AotMemory) -> str:
        found = self._bases.get(allocation)
        if found is None:
            found = self._bases[allocation] = self._begun(allocation, memory)
        return found

    def _begun(self, allocation: int, memory: AotMemory) -> str:
        """The address at which an allocation begins."""
        f, where = self.f, memory.homes[allocation]
        if where.home is Home.ARENA:
            return f.gep("%arena", where.offset)
        if where.home is Home.CONSTANT:
            f.define(constant_definition(allocation, memory.constants[allocation]))
            return f"@constant{allocation}"
        base = f.gep(self._given(where.home.value, where.number), where.offset)
        if where.copied_from >= 0:
            source = self._given("args", where.copied_from)
            with f.when(f.op(f"icmp ne ptr {base}, {source}")):
                f.call(COPY, [base, source, where.nbytes, "false"])
        return base

    def _given(self, table: str, number: int) -> str:
        return self.f.load("ptr", self.f.gep(f"%{table}", number, "ptr"), 8)
