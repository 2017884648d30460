"""Results cut out of an arena: plans that still hold, no larger, and arrays that are their own."""

import gc
import resource

import numpy as np
import pytest
from tests.random_modules import MEMORY, random_module
from tests.runtime.cpu.handmade import ADD, UNIT, Draft, kernel

import lowtide
from lowtide import compiler
from lowtide.checking.plan import check_plan
from lowtide.evaluator import evaluate
from lowtide.evaluator.in_arena import differing_leaves, run_in_arena
from lowtide.ir.buffer import Allocation, AllocationKind, BufferAssignment, BufferSlice, CallSite
from lowtide.runtime.cpu import pages
from lowtide.runtime.cpu.arena import LINE
from lowtide.runtime.cpu.call import CallOptions, load
from lowtide.runtime.cpu.entry import Fill
from lowtide.runtime.cpu.own_results import with_own_results
from lowtide.runtime.cpu.program import Memory
from lowtide.runtime.cpu.results import MOVED_BYTES, PLACED_BYTES
from lowtide.testing.check_pass import seeded_arguments


def assignment_of(
    nbytes: int, outputs: list[tuple[int, int]], others: list[tuple[int, int]]
) -> BufferAssignment:
    """An assignment of one arena, with outputs and tables at offsets with bytes."""
    module = lowtide.parse_hlo("HloModule m ENTRY e { ROOT p = f32[] parameter(0) }")
    root = module.entry.root
    slices = {(root, (n,)): BufferSlice(0, *x) for n, x in enumerate(others)}
    return BufferAssignment(
        (Allocation(0, AllocationKind.ARENA, nbytes),),
        (CallSite(module.entry, None, -1, {}, slices),),
        tuple([BufferSlice(0, *x) for x in outputs]),
        kept_bytes=sum([size for _, size in outputs]),
    )


def cut(nbytes, outputs, others=(), least=1):
    """What became of outputs and others, as triples, and the bytes of all allocations."""
    found = with_own_results(assignment_of(nbytes, outputs, list(others)), least)
    places = [*found.outputs, *found.call_sites[0].tables.values()]
    triples = [(x.allocation, x.offset, x.nbytes) for x in places]
    return triples, [x.nbytes for x in found.allocations]


@pytest.mark.parametrize(
    ("nbytes", "outputs", "others", "places", "sizes"),
    [
        (256, [(0, 256)], [], [(1, 0, 256)], [0, 256]),
        (
            256,
            [(64, 128)],
            [(0, 64), (192, 64)],
            [(1, 0, 128), (0, 0, 64), (0, 64, 64)],
            [128, 128],
        ),
        (256, [(64, 128)], [(64, 64), (128, 4)], [(1, 0, 128), (1, 0, 64), (1, 64, 4)], [128, 128]),
        (256, [(0, 100)], [(128, 64)], [(1, 0, 100), (0, 64, 64)], [192, 100]),
        (256, [(0, 128), (128, 128)], [], [(1, 0, 128), (2, 0, 128)], [0, 128, 128]),
        (256, [(0, 128), (0, 128)], [], [(1, 0, 128), (1, 0, 128)], [128, 128]),
        (256, [(0, 128), (64, 64)], [], [(1, 0, 128), (1, 64, 64)], [128, 128]),
    ],
)
def test_results_that_leave(nbytes, outputs, others, places, sizes) -> None:
    assert cut(nbytes, outputs, others) == (places, sizes)


@pytest.mark.parametrize(
    ("outputs", "others", "least"),
    [
        ([(0, 128)], [(64, 128)], 1),
        ([(64, 128)], [(0, 65)], 1),
        ([(64, 128)], [(0, 256)], 1),
        ([(32, 96)], [], 1),
        ([(0, 127)], [], 128),
        ([(0, 128)], [(64, 65)], 1),
    ],
)
def test_results_that_stay(outputs, others, least) -> None:
    given = assignment_of(256, outputs, others)
    assert with_own_results(given, least) is given


def test_nothing_at_an_offset_of_a_result_is_not_in_it() -> None:
    assert cut(256, [(64, 128)], [(128, 0)])[0] == [(1, 0, 128), (0, 128, 0)]


def test_random_plans_still_hold() -> None:
    cuts = 0
    for seed in range(40):
        module = random_module(seed, MEMORY)
        planned = compiler.plan(module, compiler.PlanOptions("input"))
        found = with_own_results(planned.assignment, 1)
        grown = len(found.allocations) - len(planned.assignment.allocations)
        cuts += grown
        before = sum([x.nbytes for x in planned.assignment.allocations])
        after = sum([x.nbytes for x in found.allocations])
        assert before <= after < before + LINE * grown or not grown
        assert check_plan(planned.module, found) == ()
        arguments = seeded_arguments(module, seed)
        results = run_in_arena(planned.module, found, arguments, sanitize=True)
        assert differing_leaves(planned.module, results, evaluate(module, arguments)) == []
    assert cuts > 20


COUNTS = [PLACED_BYTES // 4 - 1, PLACED_BYTES // 4, MOVED_BYTES // 4 - 1, MOVED_BYTES // 4 + 3]


@pytest.mark.parametrize("count", COUNTS)
def test_results_are_their_own_while_they_live(count: int) -> None:
    run = lowtide.jit(lambda x, y: (x + y, x - y))
    x = np.arange(count, dtype=np.float32)
    kept = []
    for k in range(9):
        total, less = run(x, np.full_like(x, k))
        assert total.flags.writeable
        assert total.flags.c_contiguous
        if k % 2:
            kept.append((k, total, less))
        else:
            total[:], less[:] = -1, -2  # Pages of results that are gone are used again.
    del total, less
    gc.collect()
    for k, total, less in kept:
        np.testing.assert_array_equal(total, x + np.float32(k))
        np.testing.assert_array_equal(less, x - np.float32(k))


def test_pages_of_many_results_of_one_size_are_used_again() -> None:
    """As many as a call has of them wait for the next call, though more than arenas do."""
    count = CallOptions().idle_arenas + 4
    run = lowtide.jit(lambda x: tuple([x + k for k in range(count)]))
    x = np.zeros(MOVED_BYTES // 4, np.float32)
    faults = []
    for _ in range(6):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        run(x)
        faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
    assert min(faults[2:]) < MOVED_BYTES // pages.PAGE


def test_a_result_that_is_returned_twice_is_two_arrays() -> None:
    def function(x):
        total = x + 1
        return total, total, x, total[:, ::-1]

    run = lowtide.jit(function)
    x = np.random.default_rng(0).random((512, PLACED_BYTES // 1024), np.float32)
    found = [run(x), run(x)]
    for results in found:
        for result, expected in zip(results, (x + 1, x + 1, x, (x + 1)[:, ::-1]), strict=True):
            np.testing.assert_array_equal(result, expected)
    arrays = [x, *found[0], *found[1]]
    for number, array in enumerate(arrays):
        assert not any(np.shares_memory(array, other) for other in arrays[:number])


@pytest.mark.parametrize("megabytes", [0.25, 3])
def test_an_arena_has_no_bytes_of_results_that_are_placed(megabytes: float) -> None:
    draft = Draft(units=int(megabytes * 2**20) // (4 * UNIT))
    a, b = draft.argument(), draft.argument()
    draft.memories.append(Memory(AllocationKind.OUTPUT, a.nbytes))
    c = BufferSlice(len(draft.memories) - 1, 0, a.nbytes)
    draft.result(c)
    program = draft.program([kernel(ADD, a, b, c)])
    run = load(program, options=CallOptions())
    plan = run.launch_plan()
    assert plan.results[0].fill is Fill.PLACE
    assert plan.arena.nbytes == 0
    x = np.random.default_rng(0).random(draft.count, np.float32)
    results = [run(x, np.full_like(x, k)) for k in range(6)]
    for k, result in enumerate(results):
        assert result.ctypes.data % LINE == 0
        np.testing.assert_array_equal(result, x + np.float32(k))
    profiled, _ = run.profile(x, x)
    np.testing.assert_array_equal(profiled, x + x)
    del results, result
    addresses = {run(x, x).ctypes.data for _ in range(8)}
    assert megabytes < 1 or len(addresses) <= 2
    run.empty()
    assert run.idle_bytes == 0


@pytest.mark.parametrize("huge", [True, False])
def test_pages_of_results_are_huge_only_where_calls_may_have_such(huge, monkeypatch) -> None:
    asked = []
    take = pages.take
    monkeypatch.setattr(
        pages, "take", lambda nbytes, *, huge: asked.append(huge) or take(nbytes, huge=huge)
    )
    draft = Draft(units=4 * 2**20 // (4 * UNIT))
    a, b = draft.argument(), draft.argument()
    draft.memories.append(Memory(AllocationKind.OUTPUT, a.nbytes))
    c = BufferSlice(len(draft.memories) - 1, 0, a.nbytes)
    draft.result(c)
    run = load(draft.program([kernel(ADD, a, b, c)]), options=CallOptions(huge_pages=huge))
    x = np.ones(draft.count, np.float32)
    assert (run(x, x) == 2).all()
    assert asked == [huge]
