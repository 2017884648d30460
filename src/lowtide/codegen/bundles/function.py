"""The function of a bundle: loops and branches of LLVM's own, kernels called at fixed places."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from lowtide.codegen.bundles.cells import slices_touched
from lowtide.codegen.bundles.choice import ThunkCosts
from lowtide.codegen.bundles.locals import Local
from lowtide.ir.buffer import NO_BYTES, BufferSlice
from lowtide.ir.thunk import (
    BundleThunk,
    ConditionalThunk,
    CopyThunk,
    KernelEntry,
    KernelThunk,
    Thunk,
    WhileThunk,
    all_thunks,
)
from lowtide.llvm.callee import COPY, SET, Callee, FunctionParameter, parameters, pointed
from lowtide.llvm.function import Function, module_text
from lowtide.records import dataclass

_LINE: Final = 64
"""Kernels may count on offsets to be what they are from multiples of so many bytes."""

_LOOK_WORK: Final = 200_000
"""Nanoseconds of estimated work in loops after which the walker is asked whether to go on."""

_BEHIND_BUFFERS: Final = ("ptr", "i64", "i64", "i64")
"""The types of what kernels take behind their buffers: scratch, pieces of work, a thread."""

_LEAST_TRIP: Final = 20
"""The least nanoseconds that a trip of a loop is taken to last."""

_LONG_LOOP: Final = 200
"""Lines of kernels from which on LLVM does not see the counter of a loop: its strength reduction,
which gains nothing there, takes up to four fifths of its time for arithmetic on a counter."""

_COUNTER_BYTES: Final = (4, 8)
"""The bytes of what a counter is hidden in: a register for integers."""


@dataclass(frozen=True, slots=True)
class BundleMemory:
    """What a bundle finds in memory: its locals, and the bytes of small constants."""

    locals: Sequence[Local]
    constants: Mapping[int, bytes]


def bundle_text(
    bundle: BundleThunk,
    kernels: Sequence[KernelEntry],
    memory: BundleMemory,
    direct: Mapping[str, int],
    costs: ThunkCosts,
) -> str:
    """Return a module with the function of a bundle, which calls those of kernels.

    These are not in the module yet. `direct` names those that take so many addresses one by one,
    where others take a table.
    """
    slices = slices_touched(bundle.parts)
    used = dict.fromkeys([x.allocation for x in slices])
    bases = [x for x in used if x not in memory.constants]
    names = [FunctionParameter("ptr", f"base{x}", "noalias") for x in bases]
    given = (*names, *parameters(bases="ptr", state="ptr"))
    body = Function(f"body.{bundle.function}", given, "i64", linkage="internal")
    writer = ThunkWriter(body, kernels, direct, costs)
    writer.begin(slices, memory)
    writer.sequence(bundle.parts)
    writer.end(bundle)
    entry = Function(bundle.function, parameters(bases="ptr", state="ptr"), "i64")
    found = [entry.load("ptr", entry.gep("%bases", x, "ptr"), 8) for x in bases]
    entry.ret("i64", entry.call(body, [*found, "%bases", "%state"]))
    return module_text([body, entry])


class ThunkWriter:
    """Writes thunks as code of a function, which calls those of kernels at fixed places."""

    def __init__(
        self,
        f: Function,
        kernels: Sequence[KernelEntry],
        direct: Mapping[str, int],
        costs: ThunkCosts,
    ) -> None:
        self.f = f
        self.kernels = kernels
        self.direct = direct
        self.costs = costs
        self.addresses: dict[BufferSlice, str] = {}
        self.on_stack: set[BufferSlice] = set()
        self.kept: list[tuple[str, str, int]] = []
        self.worked = ""
        self.status = ""

    # -- begin and end -------------------------------------------------------------------------

    def begin(self, slices: Sequence[BufferSlice], memory: BundleMemory) -> None:
        """Bring locals to the stack, and find the address of each slice."""
        f = self.f
        self.status = f.stack("i64", 1, 8)
        self.worked = f.stack("i64", 1, 8)
        f.store("i64", 0, self.status, 8)
        f.store("i64", 0, self.worked, 8)
        for local in memory.locals:
            place = local.place
            shift = place.offset % _LINE
            address = f.gep(f.stack("i8", place.nbytes + shift, _LINE), shift)
            there = f.gep(f"%base{place.allocation}", place.offset)
            if local.copied_in:
                f.call(COPY, [address, there, place.nbytes, "false"])
            else:  # LLVM may put together what parts were stored only where all was stored before.
                f.call(SET, [address, 0, place.nbytes, "false"])
            if local.copied_out:
                self.kept.append((there, address, place.nbytes))
            self.on_stack.update(local.slices)
            for x in local.slices:
                self.addresses[x] = f.gep(address, x.offset - place.offset)
        for allocation, found in memory.constants.items():
            if any(x.allocation == allocation for x in slices):
                f.define(constant_definition(allocation, found))
        for x in slices:
            base = "@constant" if x.allocation in memory.constants else "%base"
            if x not in self.addresses:
                self.addresses[x] = f.gep(f"{base}{x.allocation}", x.offset)

    def end(self, bundle: BundleThunk) -> None:
        """Put back what others read."""
        f = self.f
        for there, address, nbytes in self.kept:
            f.call(COPY, [there, address, nbytes, "false"])
        if any(isinstance(x, WhileThunk) for x in all_thunks(bundle.parts)):
            self.look(f.load("i64", self.worked, 8))
        f.do("br label %out")
        f.label("out")
        f.ret("i64", f.load("i64", self.status, 8))

    def address(self, place: BufferSlice) -> str:
        """The address of a slice; one without bytes has any."""
        return self.addresses.get(place, "%bases")

    def table(self, count: int) -> str:
        """Room for the addresses of the buffers of one call; its own, so that LLVM may drop it."""
        return self.f.stack("ptr", count, 8)

    # -- thunks --------------------------------------------------------------------------------

    def sequence(self, thunks: Sequence[Thunk]) -> None:
        """Write thunks in order; nests as loops and branches do."""
        for thunk in thunks:
            _WRITERS[type(thunk)](self, thunk)

    def kernel(self, thunk: KernelThunk) -> None:
        """Call the phases of a kernel, each with all of its units."""
        f = self.f
        buffers = [self.address(x) for x in thunk.buffers]
        table: list[str] = []
        scratch = self.address(thunk.scratch or NO_BYTES)
        for phase in self.kernels[thunk.kernel].phases:
            if not phase.units:
                continue
            count = self.direct.get(phase.function)
            if count is None:
                table = table or [self.filled_table(buffers)]
            given = table if count is None else buffers[:count]
            types = (*["ptr"] * len(given), *_BEHIND_BUFFERS)
            callee = Callee(f"@{phase.function}", "void", types)
            f.call(callee, [*given, scratch, 0, phase.units, 0])

    def filled_table(self, buffers: Sequence[str]) -> str:
        """A table of addresses."""
        f = self.f
        table = self.table(max(len(buffers), 1))
        for number, address in enumerate(buffers):
            f.store("ptr", address, f.gep(table, number, "ptr"), 8)
        return table

    def copy(self, thunk: CopyThunk) -> None:
        """Copy bytes."""
        source, target = self.address(thunk.source), self.address(thunk.target)
        self.f.call(COPY, [target, source, thunk.source.nbytes, "false"])

    def loop(self, thunk: WhileThunk) -> None:
        """A loop of LLVM's own."""
        f = self.f
        head, body, done = (f.fresh_label(x) for x in ("while", "do", "done"))
        f.do(f"br label %{head}")
        f.label(head)
        if self.costs.lines_of(thunk) >= _LONG_LOOP:
            self.hide_counters(thunk)
        self.sequence(thunk.condition)
        predicate = f.load("i8", self.address(thunk.predicate), 1)
        f.do(f"br i1 {f.op(f'icmp ne i8 {predicate}, 0')}, label %{body}, label %{done}")
        f.label(body)
        self.sequence(thunk.body)
        self.after_trip(thunk)
        f.do(f"br label %{head}")
        f.label(done)

    def hide_counters(self, thunk: WhileThunk) -> None:
        """Pass what the condition reads and the body writes through an empty piece of assembly."""
        f = self.f
        written = {y for x in all_thunks(thunk.body) for y in x.writes} & self.on_stack
        for place in dict.fromkeys([y for x in all_thunks(thunk.condition) for y in x.reads]):
            if place in written and place.nbytes in _COUNTER_BYTES:
                type_, address = f"i{8 * place.nbytes}", self.address(place)
                value = f.load(type_, address, place.nbytes)
                hidden = f.op(f'call {type_} asm "", "=r,0"({type_} {value})')
                f.store(type_, hidden, address, place.nbytes)

    def after_trip(self, thunk: WhileThunk) -> None:
        """Ask the walker now and then whether to go on."""
        f = self.f
        trip = sum([self.costs.of(x) for x in (*thunk.condition, *thunk.body)])
        work = f.add(f.load("i64", self.worked, 8), max(int(1e9 * trip), _LEAST_TRIP))
        f.store("i64", work, self.worked, 8)
        with f.when(f.compare("sgt", work, _LOOK_WORK)):
            f.store("i64", 0, self.worked, 8)
            self.look(work)

    def look(self, work: Any) -> None:
        """Ask the walker whether to go on after some nanoseconds of work."""
        f = self.f
        ask = pointed(f.load("ptr", "%state", 8), "i64", "ptr", "i64")
        status = f.call(ask, ["%state", work])
        f.store("i64", status, self.status, 8)
        on = f.fresh_label("on")
        f.do(f"br i1 {f.compare('eq', status, 0)}, label %{on}, label %out")
        f.label(on)

    def conditional(self, thunk: ConditionalThunk) -> None:
        """A branch for each of the branches."""
        f = self.f
        labels = [f.fresh_label("branch") for _ in thunk.branches]
        after = f.fresh_label("after")
        selector = self.address(thunk.selector)
        if thunk.is_predicate:
            holds = f.op(f"icmp ne i8 {f.load('i8', selector, 1)}, 0")
            f.do(f"br i1 {holds}, label %{labels[0]}, label %{labels[-1]}")
        else:
            cases = " ".join([f"i32 {i}, label %{x}" for i, x in enumerate(labels[:-1])])
            number = f.load("i32", selector, 4)
            f.do(f"switch i32 {number}, label %{labels[-1]} [ {cases} ]")
        for label, branch in zip(labels, thunk.branches, strict=True):
            f.label(label)
            self.sequence(branch)
            f.do(f"br label %{after}")
        f.label(after)


_WRITERS: Final[Mapping[type, Callable[[ThunkWriter, Any], None]]] = {
    KernelThunk: ThunkWriter.kernel,
    CopyThunk: ThunkWriter.copy,
    WhileThunk: ThunkWriter.loop,
    ConditionalThunk: ThunkWriter.conditional,
}


def constant_definition(allocation: int, values: bytes) -> str:
    """Return the definition of a constant, one byte or more, by its bytes."""
    kind = f"private unnamed_addr constant [{len(values)} x i8]"
    digits = values.hex("\\")
    return f'@constant{allocation} = {kind} c"\\{digits}", align {_LINE}'
