"""The machine code of bundles of copies, loops and branches: memory as their parts leave it.

Slices lie anywhere, so that locals span lines, lie over one another, and are written in part.
"""

from __future__ import annotations

import ctypes
import random
from collections.abc import Sequence

import numpy as np
import pytest

from lowtide.codegen.bundles.cells import OutsideReads
from lowtide.codegen.bundles.choice import ThunkCosts
from lowtide.codegen.bundles.function import BundleMemory, bundle_text
from lowtide.codegen.bundles.locals import Local, locals_of
from lowtide.ir.buffer import BufferSlice
from lowtide.ir.thunk import BundleThunk, ConditionalThunk, CopyThunk, Thunk, WhileThunk
from lowtide.llvm.library import Library
from lowtide.llvm.machine import KernelCompiler
from lowtide.llvm.target import host_target

ARENA, CONSTANTS = 0, 1
LIVE_BYTES = 400
QUEUES = 512
"""Where the arena has lists of bytes for loops: each trip takes one away, and 0 ends the loop."""

MOST_TRIPS = 3
TABLE = bytes(random.Random(5).choices(range(256), k=300))
ON_WORK = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)


class Maker:
    """Thunks at random over some slices of the arena."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.loops = 0
        widths = self.random.choices((1, 4, 8, 24, 100), k=3)
        self.slices = [self.slice(ARENA, LIVE_BYTES, n) for n in widths for _ in range(4)]

    def slice(self, allocation: int, end: int, nbytes: int) -> BufferSlice:
        step = self.random.choice((1, 4, 32))
        return BufferSlice(allocation, self.random.randrange(0, end - nbytes, step), nbytes)

    def thunks(self, count: int, depth: int = 2) -> tuple[Thunk, ...]:
        return tuple([self.thunk(depth) for _ in range(count)])

    def thunk(self, depth: int) -> Thunk:
        kind = self.random.randrange(8) if depth else 7
        if kind == 0:
            return self.loop(depth - 1)
        if kind in (1, 2):
            is_predicate = kind == 1
            count = 2 if is_predicate else self.random.randrange(1, 4)
            branches = [self.thunks(self.random.randrange(3), depth - 1) for _ in range(count)]
            selector = self.slice(ARENA, LIVE_BYTES, 1 if is_predicate else 4)
            return ConditionalThunk("c", selector, is_predicate, tuple(branches))
        return self.copy()

    def copy(self) -> CopyThunk:
        while True:
            target = self.random.choice(self.slices)
            sources = [x for x in self.slices if x.nbytes == target.nbytes and apart(x, target)]
            if self.random.randrange(4) == 0:
                sources = [self.slice(CONSTANTS, len(TABLE), target.nbytes)]
            if sources:
                return CopyThunk("m", self.random.choice(sources), target)

    def loop(self, depth: int) -> WhileThunk:
        begin = QUEUES + 2 * (MOST_TRIPS + 1) * self.loops
        self.loops += 1
        rest = BufferSlice(ARENA, begin + MOST_TRIPS + 1, MOST_TRIPS)
        shift = (
            CopyThunk("s", BufferSlice(ARENA, begin + 1, MOST_TRIPS), rest),
            CopyThunk("s", rest, BufferSlice(ARENA, begin, MOST_TRIPS)),
        )
        body = (*self.thunks(3, depth), *shift)
        condition = self.thunks(self.random.randrange(2), 0)
        return WhileThunk("w", condition, BufferSlice(ARENA, begin, 1), body)

    def memory(self) -> bytearray:
        """The arena before the first run; the bytes of selectors are small or anything."""
        live = [self.random.choice((0, 0, 0, 1, 2, 255)) for _ in range(QUEUES)]
        for _ in range(self.loops):
            trips = self.random.randint(0, MOST_TRIPS)
            live += [1] * trips + [0] * (2 * (MOST_TRIPS + 1) - trips)
        return bytearray([*live, 0, 0, 0, 0])


def apart(a: BufferSlice, b: BufferSlice) -> bool:
    return a.offset + a.nbytes <= b.offset or b.offset + b.nbytes <= a.offset


def run_parts(thunks: Sequence[Thunk], memory: bytearray) -> None:
    """Run thunks one by one."""

    def read(x: BufferSlice) -> bytes:
        return bytes((memory, TABLE)[x.allocation][x.offset : x.offset + x.nbytes])

    for thunk in thunks:
        match thunk:
            case CopyThunk():
                end = thunk.target.offset + thunk.target.nbytes
                memory[thunk.target.offset : end] = read(thunk.source)
            case WhileThunk():
                while True:
                    run_parts(thunk.condition, memory)
                    if read(thunk.predicate) == b"\0":
                        break
                    run_parts(thunk.body, memory)
            case ConditionalThunk():
                number = int.from_bytes(read(thunk.selector), "little", signed=True)
                branches = thunk.branches
                if thunk.is_predicate:
                    number = int(number == 0)
                run_parts(branches[number if 0 <= number < len(branches) else -1], memory)


class Compiled:
    """The function of a bundle, and a place for its arena at a line's begin."""

    def __init__(self, bundle: BundleThunk, locals_: Sequence[Local]) -> None:
        target = host_target()
        memory = BundleMemory(locals_, {CONSTANTS: TABLE})
        text = bundle_text(bundle, [], memory, {}, ThunkCosts((), ()))
        self.library = Library([KernelCompiler(target).object_code(text)], ["bundle"], target)
        kind = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)
        self.function = kind(self.library["bundle"])
        self.asked = ON_WORK(lambda state, work: 0)
        self.state = ctypes.c_void_p(ctypes.cast(self.asked, ctypes.c_void_p).value)

    def run(self, arena: int) -> None:
        bases = (ctypes.c_void_p * 2)(arena, None)
        assert self.function(ctypes.addressof(bases), ctypes.addressof(self.state)) == 0


def checked(seed: int) -> list[Local]:
    """Compare what others read after each run; return the locals."""
    maker = Maker(seed)
    parts = maker.thunks(maker.random.randrange(3, 8))
    bundle = BundleThunk("b", "bundle", 0.0, parts)
    outputs = maker.random.sample(maker.slices, maker.random.randrange(4))
    runs = maker.random.choice((1, 3))
    found = locals_of(bundle, OutsideReads([bundle], outputs), (CONSTANTS,), in_loop=runs > 1)
    compiled = Compiled(bundle, found)
    expected = maker.memory()
    room = np.zeros(len(expected) + 64, np.uint8)
    begin = -room.ctypes.data % 64
    arena = room[begin : begin + len(expected)]
    arena[:] = expected
    for _ in range(runs):
        run_parts(parts, expected)
        compiled.run(arena.ctypes.data)
        for x in outputs:
            end = x.offset + x.nbytes
            assert arena[x.offset : end].tobytes() == expected[x.offset : end], (seed, x)
    return found


@pytest.mark.parametrize("seeds", [range(x, x + 25) for x in range(0, 100, 25)])
def test_what_others_read_is_as_the_parts_leave_it(seeds: range) -> None:
    found = [x for seed in seeds for x in checked(seed)]
    assert any(x.copied_in and x.copied_out for x in found)
    assert any(x.copied_out and not x.copied_in for x in found)
    assert any(x.copied_in and not x.copied_out for x in found)
    spans = [x for x in found if len({y.offset // 64 for y in x.slices}) > 1]
    assert spans


@pytest.mark.slow
def test_many_bundles_of_copies() -> None:
    assert sum([len(checked(seed)) for seed in range(1000, 4000)]) > 1000
