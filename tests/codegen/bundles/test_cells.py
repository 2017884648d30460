"""What a sequence of thunks reads before it writes it, and what others read."""

from __future__ import annotations

import random

from lowtide.codegen.bundles.cells import Cells, OutsideReads, slices_touched
from lowtide.codegen.bundles.locals import locals_of
from lowtide.ir.buffer import BufferSlice
from lowtide.ir.thunk import (
    BundleThunk,
    ConditionalThunk,
    CopyThunk,
    KernelThunk,
    Thunk,
    WhileThunk,
)


def at(offset: int, nbytes: int = 4) -> BufferSlice:
    return BufferSlice(0, offset, nbytes)


def kernel(reads: list[BufferSlice], *writes: BufferSlice) -> KernelThunk:
    return KernelThunk("k", 0, (*reads, *writes), len(reads))


A, B, C, D = (at(4 * x) for x in range(4))
FLAG = at(32, 1)


def inputs(*thunks: Thunk) -> list[BufferSlice]:
    cells = Cells([*slices_touched(thunks), A, B, C, D])
    found = cells.flow(thunks).inputs
    return [x for x in (A, B, C, D) if cells.mask(x) & found]


def written(*thunks: Thunk) -> list[BufferSlice]:
    cells = Cells([*slices_touched(thunks), A, B, C, D])
    found = cells.flow(thunks).written
    return [x for x in (A, B, C, D) if not cells.mask(x) & ~found]


def test_what_is_written_before_is_no_input() -> None:
    thunks = [kernel([A], B), kernel([B], C), CopyThunk("c", C, D)]
    assert inputs(*thunks) == [A]
    assert written(*thunks) == [B, C, D]


def test_a_loop_may_not_run_its_body() -> None:
    loop = WhileThunk("w", (kernel([A], FLAG, B),), FLAG, (kernel([B, C], A), kernel([A], C)))
    assert inputs(loop) == [A, C]
    assert written(loop) == [B]


def test_only_what_all_branches_write_is_written() -> None:
    branches = ((kernel([A], B), kernel([B], C)), (kernel([], B), kernel([D], D)))
    conditional = ConditionalThunk("i", FLAG, True, branches)
    assert inputs(conditional) == [A, D]
    assert written(conditional) == [B]


def test_a_slice_written_in_parts_is_written() -> None:
    whole = at(0, 16)
    thunks = [kernel([], A, B), kernel([], at(8, 8)), kernel([whole], whole)]
    assert inputs(*thunks) == []
    assert inputs(kernel([], A), kernel([whole], D)) == [B, C, D]


def test_readers_of_bytes_against_a_plain_count() -> None:
    rng = random.Random(3)
    for _ in range(100):
        slices = [at(rng.randrange(40), rng.randrange(1, 9)) for _ in range(12)]
        bundles = [
            BundleThunk("b", f"f{i}", 0.0, (kernel([slices[i]], A), kernel([slices[i + 4]], A)))
            for i in range(4)
        ]
        loop = WhileThunk("w", (bundles[0],), slices[8], (bundles[1], kernel([slices[9]], A)))
        reads = OutsideReads([loop, bundles[2], bundles[3]], slices[10:])
        for number in range(4):
            others = [x for i, x in enumerate(slices) if i not in (number, number + 4)]
            begin, end = sorted(rng.sample(range(50), 2))
            expected = any(x.offset < end and begin < x.offset + x.nbytes for x in others)
            assert reads.has(0, begin, end, f"f{number}") == expected


def local_of(place: BufferSlice, thunks: list[Thunk], others: list[Thunk], *, in_loop: bool):
    bundle = BundleThunk("b", "f", 0.0, tuple(thunks))
    outside = OutsideReads([bundle, *others], [])
    found = [x for x in locals_of(bundle, outside, in_loop=in_loop) if x.place == place]
    return [(x.copied_in, x.copied_out) for x in found]


def test_values_of_a_bundle_only_are_not_copied() -> None:
    assert local_of(B, [kernel([A], B), kernel([B], C)], [], in_loop=False) == [(False, False)]
    assert local_of(B, [kernel([A], B), kernel([B], C)], [], in_loop=True) == [(False, False)]


def test_what_others_read_is_copied_out() -> None:
    assert local_of(B, [kernel([A], B)], [kernel([B], D)], in_loop=False) == [(False, True)]


def test_what_the_next_trip_reads_is_copied_both_ways() -> None:
    assert local_of(B, [kernel([B], C), kernel([C], B)], [], in_loop=True) == [(True, True)]
    assert local_of(B, [kernel([B], C), kernel([C], B)], [], in_loop=False) == [(True, False)]


def test_what_may_stay_unwritten_is_copied_in_before_it_is_copied_out() -> None:
    maybe = ConditionalThunk("i", FLAG, True, ((kernel([A], B),), (kernel([A], C),)))
    assert local_of(B, [maybe], [kernel([B], D)], in_loop=False) == [(True, True)]


def test_slices_that_meet_are_one_local() -> None:
    thunks: list[Thunk] = [kernel([A], at(8, 8)), kernel([at(8, 8)], at(12, 8))]
    assert local_of(at(8, 12), thunks, [], in_loop=False) == [(False, False)]


def test_large_values_stay_where_they_are() -> None:
    big = at(64, 1 << 16)
    assert local_of(big, [kernel([A], big), kernel([big], B)], [], in_loop=False) == []
