"""Groups of neighbours: all orders within one give the same bytes, and tables take linear time."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.counting import lines_run
from tests.runtime.cpu.handmade import ADD, Draft, kernel

from lowtide.ir.buffer import NO_BYTES, BufferSlice
from lowtide.ir.thunk import CollectiveThunk, KernelEntry, KernelThunk, Phase
from lowtide.runtime.cpu.grouping import LARGEST_GROUP, Bytes, Stage, ThunkWork, groups
from lowtide.runtime.cpu.table import PIECES, build_table
from lowtide.runtime.cpu.team import MOST_PIECES
from lowtide.runtime.cpu.walker import LOOK_WORDS, Step
from lowtide.runtime.devices.collective_block import CollectiveBlock

SLICES = st.one_of(
    st.just(NO_BYTES),
    st.builds(
        lambda a, begin, size: BufferSlice(a, begin, size),
        st.integers(0, 1),
        st.integers(0, 40),
        st.integers(0, 12),
    ),
)


def no_exchange(thunk: CollectiveThunk) -> CollectiveBlock:
    raise AssertionError(thunk.name)


def works(pairs: list[tuple[list[BufferSlice], list[BufferSlice]]]) -> list[ThunkWork]:
    return [
        ThunkWork(n, (Stage(0, 1, 1.0),), (*reads, *writes), tuple(reads), tuple(writes))
        for n, (reads, writes) in enumerate(pairs)
    ]


def touched(slices: tuple[BufferSlice, ...]) -> set[tuple[int, int]]:
    return {(x.allocation, x.offset + k) for x in slices for k in range(x.nbytes)}


def ordered(one: ThunkWork, other: ThunkWork) -> bool:
    """Whether the order of two works matters, by their bytes one by one."""
    return bool(
        touched(one.writes) & (touched(other.reads) | touched(other.writes))
        or touched(one.reads) & touched(other.writes)
    )


@given(st.lists(st.tuples(st.lists(SLICES, max_size=3), st.lists(SLICES, max_size=2)), max_size=12))
def test_groups_are_as_large_as_they_can_be_and_independent(pairs: list) -> None:
    every = works(pairs)
    found = list(groups(every, 2))
    assert [work for group in found for work in group] == every
    for group in found:
        assert not any(ordered(a, b) for a in group for b in group if a is not b)
    for group, following in pairwise(found):
        assert any(ordered(x, following[0]) for x in group)
    assert all(len(group) == 1 for group in groups(every, 1))


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 10)), max_size=30), st.data())
def test_a_set_of_bytes_is_a_set(stretches: list[tuple[int, int]], data: st.DataObject) -> None:
    known, plain = Bytes(), set()
    for begin, size in stretches:
        known.add(begin, begin + size)
        plain |= set(range(begin, begin + size))
    begin = data.draw(st.integers(0, 60))
    end = data.draw(st.integers(begin + 1, 65))
    assert known.meets(begin, end) == bool(plain & set(range(begin, end)))
    assert known.begins == sorted(known.begins)


def test_groups_are_bounded() -> None:
    every = works([([], [BufferSlice(0, 8 * n, 8)]) for n in range(LARGEST_GROUP + 5)])
    assert [len(group) for group in groups(every, 2)] == [LARGEST_GROUP, 5]


@given(st.lists(st.tuples(st.integers(1, 10**6), st.floats(1e-9, 1e-2)), min_size=1, max_size=24))
def test_a_group_has_no_more_pieces_than_bits(phases: list[tuple[int, float]]) -> None:
    kernels = [KernelEntry((Phase("f", *phase),)) for phase in phases]
    thunks = [KernelThunk("k", n, (BufferSlice(0, 64 * n, 64),), 0) for n in range(len(phases))]
    for threads in (2, 7, 64):
        table = build_table(
            thunks,
            kernels,
            lambda _: 7,
            8,
            lambda _: 0,
            no_exchange,
            threads=threads,
            allocations=1,
        )
        for step, words in steps(table.words.tolist()):
            if step is Step.TOGETHER:
                count, members = words[2:4]
                units = [words[5 + 5 * n] for n in range(members)]
                ends = [0, *[words[8 + 5 * n] for n in range(members)]]
                assert ends[-1] == count <= MOST_PIECES
                assert all(0 < b - a <= u for u, a, b in zip(units, ends, ends[1:], strict=False))


def steps(words: list[int]) -> list[tuple[Step, list[int]]]:
    """The steps of a table without control flow, with their words."""
    found, at = [], 0
    while True:
        step = Step(words[at])
        sizes = {
            Step.BIND: lambda at: 2 + 2 * words[at + 1],
            Step.ALONE: lambda _: 6,
            Step.TOGETHER: lambda at: 4 + 5 * words[at + 3],
            Step.LOOK: lambda _: LOOK_WORDS,
            Step.END: lambda _: 1,
        }
        size = sizes[step](at)
        found.append((step, words[at : at + size]))
        at += size
        if step is Step.END:
            return found


@pytest.mark.parametrize(("units", "seconds"), [(1, 1.0), (100, 1e-9), (8, 1e-5), (10**9, 1e-6)])
@pytest.mark.parametrize("threads", [1, 2, 16])
def test_work_is_shared_out_by_its_cost(units: int, seconds: float, threads: int) -> None:
    kernels = (KernelEntry((Phase("f", units, seconds),)),)
    thunk = KernelThunk("k", 0, (BufferSlice(0, 0, 4), BufferSlice(0, 64, 4)), 1)
    table = build_table(
        [thunk], kernels, lambda _: 7, 8, lambda _: 0, no_exchange, threads=threads, allocations=1
    )
    _, (step, words), _ = steps(table.words.tolist())
    if threads == 1 or units == 1 or units * seconds < 1e-6:
        assert step is Step.ALONE and words[1:3] == [7, units]
        return
    assert step is Step.TOGETHER
    pieces = words[2]
    wanted = min(PIECES * threads, MOST_PIECES // threads * threads)
    assert min(units, wanted) <= pieces <= min(units, MOST_PIECES)
    assert pieces % threads == 0 or pieces == units
    assert words[4:6] == [7, units] and words[8] == pieces


@pytest.mark.parametrize("threads", [1, 2])
def test_the_table_of_a_large_program_takes_linear_time(threads: int) -> None:
    def work(count: int) -> int:
        draft = Draft()
        places = [draft.temporary() for _ in range(count + 2)]
        thunks = [kernel(ADD, places[n], places[n % 7], places[n + 2]) for n in range(count)]
        kernels = (KernelEntry((Phase("f", 10, 1e-6),)),)
        return lines_run(
            lambda: build_table(
                thunks,
                kernels,
                lambda _: 7,
                8,
                lambda _: 0,
                no_exchange,
                threads=threads,
                allocations=1,
            )
        )

    assert work(8000) < 10 * work(1000)
