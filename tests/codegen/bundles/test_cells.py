"""What a sequence of thunks reads before it writes it, and what others read."""

from __future__ import annotations

import random

from lowtide.codegen.bundles.cells import OutsideReads, slices_touched
from lowtide.codegen.bundles.locals import locals_of
from lowtide.codegen.bundles.webs import Web, webs_of
from lowtide.ir.buffer import BufferSlice
from lowtide.ir.element_type import ElementType
from lowtide.ir.shape import array_shape
from lowtide.ir.thunk import (
    BundleThunk,
    ConditionalThunk,
    CopyThunk,
    HostCall,
    HostCallThunk,
    KernelThunk,
    Thunk,
    WhileThunk,
)


def at(offset: int, nbytes: int = 4) -> BufferSlice:
    return BufferSlice(0, offset, nbytes)


def kernel(reads: list[BufferSlice], *writes: BufferSlice) -> KernelThunk:
    return KernelThunk("k", 0, (*reads, *writes), len(reads))


A, B, C, D = (at(4 * x) for x in range(4))
FLAG = at(1 << 20, 1)


def webs(*thunks: Thunk, extra: tuple[BufferSlice, ...] = ()) -> dict[BufferSlice, Web]:
    """The web of each slice that thunks touch."""
    slices = [*dict.fromkeys([*slices_touched(thunks), *extra])]
    return {y: x for x in webs_of(thunks, slices)[0] for y in x.slices}


def inputs(*thunks: Thunk) -> list[BufferSlice]:
    found = webs(*thunks)
    return [x for x in (A, B, C, D) if x in found and found[x].is_input]


def whole(*thunks: Thunk) -> list[BufferSlice]:
    found = webs(*thunks)
    return [x for x in (A, B, C, D) if x in found and found[x].is_whole]


def test_what_is_written_before_is_no_input() -> None:
    thunks = [kernel([A], B), kernel([B], C), CopyThunk("c", C, D)]
    assert inputs(*thunks) == [A]
    assert whole(*thunks) == [B, C, D]


def test_a_loop_may_not_run_its_body() -> None:
    loop = WhileThunk("w", (kernel([A], FLAG, B),), FLAG, (kernel([B, C], A), kernel([A], C)))
    assert inputs(loop) == [A, C]
    assert whole(loop) == [B]


def test_only_what_all_branches_write_is_whole() -> None:
    branches = ((kernel([A], B), kernel([B], C)), (kernel([], B), kernel([D], D)))
    conditional = ConditionalThunk("i", FLAG, True, branches)
    assert inputs(conditional) == [A, D]
    assert whole(conditional) == [B]


def test_slices_are_one_web_where_values_go_between_them() -> None:
    both = at(0, 8)
    found = webs(kernel([], A), kernel([], B), kernel([both], C), kernel([C], both))
    assert found[A] is found[B] is found[both]
    assert found[C] is not found[A]


def test_slices_in_the_same_bytes_are_apart_where_no_value_goes_between_them() -> None:
    big = at(0, 8)
    found = webs(kernel([], big), kernel([big], C), kernel([C], A), kernel([A], D))
    assert found[A] is not found[big]
    assert found[big].is_mixed
    assert not found[A].is_mixed


def test_a_value_of_the_trip_before_is_of_the_same_web() -> None:
    big = at(0, 8)
    body = (kernel([A], C), kernel([C], big))
    found = webs(WhileThunk("w", (kernel([D], FLAG),), FLAG, body))
    assert found[A] is found[big]
    assert found[A].is_input


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
            assert reads.has(at(begin, end - begin), f"f{number}") == expected


def local_of(place: BufferSlice, thunks: list[Thunk], others: list[Thunk], *, in_loop: bool):
    bundle = BundleThunk("b", "f", 0.0, tuple(thunks))
    outside = OutsideReads([bundle, *others], [])
    found = [x for x in locals_of(bundle, outside, (), in_loop=in_loop) if x.place == place]
    return [(x.copied_in, x.copied_out) for x in found]


def test_values_of_a_bundle_only_are_not_copied() -> None:
    assert local_of(B, [kernel([A], B), kernel([B], C)], [], in_loop=False) == [(False, False)]
    assert local_of(B, [kernel([A], B), kernel([B], C)], [], in_loop=True) == [(False, False)]


def test_what_others_read_is_copied_out() -> None:
    assert local_of(B, [kernel([A], B)], [kernel([B], D)], in_loop=False) == [(False, True)]


def test_what_a_host_call_reads_is_copied_out() -> None:
    scalar = array_shape(ElementType.F32, ())
    call = HostCall("f", "", "", (scalar,), (scalar,), False, False)
    host = HostCallThunk("h", call, (B, D))
    assert local_of(B, [kernel([A], B)], [host], in_loop=False) == [(False, True)]
    assert slices_touched([host]) == [B, D]


def test_what_the_next_trip_reads_is_copied_both_ways() -> None:
    assert local_of(B, [kernel([B], C), kernel([C], B)], [], in_loop=True) == [(True, True)]
    assert local_of(B, [kernel([B], C), kernel([C], B)], [], in_loop=False) == [(True, False)]


def test_what_may_stay_unwritten_is_copied_in_before_it_is_copied_out() -> None:
    maybe = ConditionalThunk("i", FLAG, True, ((kernel([A], B),), (kernel([A], C),)))
    assert local_of(B, [maybe], [kernel([B], D)], in_loop=False) == [(True, True)]


def test_what_another_web_overwrites_is_not_copied_out() -> None:
    big = at(4, 1 << 16)
    thunks: list[Thunk] = [kernel([A], B), kernel([B], A), kernel([A], big)]
    assert local_of(B, thunks, [kernel([B], D)], in_loop=False) == []
    assert local_of(B, thunks, [], in_loop=False) == [(False, False)]


def test_scratch_is_not_copied() -> None:
    thunk = KernelThunk("k", 0, (A, C), 1, B)
    assert local_of(B, [thunk], [kernel([B], D)], in_loop=False) == [(False, False)]


def test_large_values_stay_where_they_are() -> None:
    big = at(64, 1 << 16)
    assert local_of(big, [kernel([A], big), kernel([big], B)], [], in_loop=False) == []


def test_locals_have_bounded_room() -> None:
    places = [BufferSlice(0, 2048 * x, 2048) for x in range(200)]
    thunks: list[Thunk] = []
    for x in places:
        thunks += [kernel([D], x), kernel([x], FLAG)]
    bundle = BundleThunk("b", "f", 0.0, tuple(thunks))
    found = locals_of(bundle, OutsideReads([bundle], []), (), in_loop=False)
    assert sum([x.place.nbytes for x in found]) <= 1 << 16
    assert len(found) >= 31
