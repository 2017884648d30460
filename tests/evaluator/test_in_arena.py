"""Runs inside a plan: right plans give the evaluator's bits, wrong ones an error that says why."""

from dataclasses import replace

import numpy as np
import pytest
from tests.evaluator.arena_plans import hand_made, moved, only_values
from tests.random_modules import MEMORY, random_module

from lowtide import compiler
from lowtide.evaluator import evaluate
from lowtide.evaluator.in_arena import ArenaError, differing_leaves, run_in_arena
from lowtide.evaluator.in_arena.memory import ArenaMemory
from lowtide.evaluator.in_arena.sites import Sites
from lowtide.evaluator.in_arena.storage import reshaped, storage_of, transposed
from lowtide.evaluator.in_arena.watch import Watch, overlap
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import LowtideError, Opcode
from lowtide.ir.buffer import AllocationKind, BufferSlice
from lowtide.ir.schedule import PartialOrder
from lowtide.testing.check_pass import seeded_arguments


def same_as_the_evaluator(module, assignment, arguments, **options) -> None:
    expected = evaluate(module, arguments)
    for sanitize in (False, True):
        found = run_in_arena(module, assignment, arguments, sanitize=sanitize, **options)
        assert differing_leaves(module, found, expected) == []


def planned_runs_right(text, arguments=None) -> None:
    module = parse_hlo(text)
    planned = compiler.plan(module, compiler.PlanOptions("input"))
    arguments = seeded_arguments(module, 1) if arguments is None else arguments
    same_as_the_evaluator(planned.module, planned.assignment, arguments)


# -- right plans -------------------------------------------------------------------------------

CONTROL_FLOW = """HloModule m
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
body {
  p = (s32[], f32[4,3]{0,1}, f32[6,4,3]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[4,3]{0,1} get-tuple-element(p), index=1
  all = f32[6,4,3] get-tuple-element(p), index=2
  one = s32[] constant(1)
  zero = s32[] constant(0)
  next = s32[] add(i, one)
  y = f32[4,3]{0,1} sine(x)
  row = f32[1,4,3] reshape(y)
  new = f32[6,4,3] dynamic-update-slice(all, row, i, zero, zero)
  ROOT t = (s32[], f32[4,3]{0,1}, f32[6,4,3]) tuple(next, y, new)
}
condition {
  p = (s32[], f32[4,3]{0,1}, f32[6,4,3]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(6)
  ROOT c = pred[] compare(i, n), direction=LT
}
twice { p = f32[4,3]{0,1} parameter(0)  ROOT r = f32[4,3]{0,1} add(p, p) }
minus { p = f32[4,3]{0,1} parameter(0)  ROOT r = f32[4,3]{0,1} negate(p) }
ENTRY e {
  x = f32[4,3]{0,1} parameter(0)
  which = s32[] parameter(1)
  zero = s32[] constant(0)
  nil = f32[] constant(0)
  all = f32[6,4,3] broadcast(nil), dimensions={}
  start = (s32[], f32[4,3]{0,1}, f32[6,4,3]) tuple(zero, x, all)
  loop = (s32[], f32[4,3]{0,1}, f32[6,4,3]) while(start), condition=condition, body=body
  last = f32[4,3]{0,1} get-tuple-element(loop), index=1
  rows = f32[6,4,3] get-tuple-element(loop), index=2
  called = f32[4,3]{0,1} call(last), to_apply=twice
  again = f32[4,3]{0,1} call(called), to_apply=twice
  chosen = f32[4,3]{0,1} conditional(which, again, again), branch_computations={twice, minus}
  sum = f32[] reduce(rows, nil), dimensions={0,1,2}, to_apply=add
  ROOT out = (f32[4,3]{0,1}, f32[], f32[6,4,3]) tuple(chosen, sum, rows)
}"""


@pytest.mark.parametrize("which", [0, 1, 7])
def test_loops_calls_and_branches_run_in_their_slices(which: int) -> None:
    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
    planned_runs_right(CONTROL_FLOW, [x, np.int32(which)])


def test_random_modules_whose_values_want_each_others_places() -> None:
    for seed in range(24):
        module = random_module(seed, MEMORY)
        planned = compiler.plan(module, compiler.PlanOptions("input"))
        same_as_the_evaluator(planned.module, planned.assignment, seeded_arguments(module, seed))


ASYNC = """HloModule m
task { p = f32[8] parameter(0)  ROOT s = f32[8] sine(p) }
ENTRY e {
  x = f32[8] parameter(0)
  y = f32[8] negate(x)
  start = ((f32[8]), f32[8], u32[]) async-start(y), calls=task
  z = f32[8] add(x, x)
  done = f32[8] async-done(start), calls=task
  copy-start = (f32[8], f32[8], u32[]) copy-start(z)
  w = f32[8] multiply(done, x)
  copy-done = f32[8] copy-done(copy-start)
  ROOT r = f32[8] add(w, copy-done)
}"""


def test_asynchronous_operations() -> None:
    planned_runs_right(ASYNC)


@pytest.mark.parametrize(
    "body",
    [
        "a = s4[7]{0:E(4)} parameter(0)\n ROOT b = s4[7]{0:E(4)} add(a, a)",
        "a = s4[6] parameter(0)\n ROOT b = u4[6] bitcast(a)",
        "a = f32[2,6]{0,1} parameter(0)\n b = s32[6,2]{1,0} bitcast(a)\n"
        "ROOT c = s32[6,2]{0,1} not(b)",
        "a = f32[2,6] parameter(0)\n b = bf16[2,12] bitcast(a)\n ROOT c = bf16[2,12] negate(b)",
        "a = f32[2,1,6]{0,2,1} parameter(0)\n n = f32[2,1,6]{0,2,1} negate(a)\n"
        "b = f32[2,6]{0,1} reshape(n)\n ROOT c = f32[6,2]{1,0} transpose(b), dimensions={1,0}",
        "a = f32[0,6] parameter(0)\n b = s32[0,6] bitcast(a)\n ROOT c = s32[6,0] reshape(b)",
        "a = f32[<=8] parameter(0)\n ROOT c = f32[<=8] negate(a)",
    ],
)  # fmt: skip
def test_bytes_are_read_through_layouts(body: str) -> None:
    planned_runs_right(f"HloModule m\nENTRY e {{\n {body}\n}}")


def test_an_array_may_be_smaller_than_its_bound() -> None:
    text = "HloModule m\nENTRY e {\n a = f32[<=8] parameter(0)\n ROOT c = f32[<=8] negate(a)\n}"
    planned_runs_right(text, [np.arange(3, dtype=np.float32)])


LAYOUTS_DIFFER = """HloModule m
f {
  p = f32[3,5]{1,0} parameter(0)
  r = f32[1,3,5]{2,1,0} reshape(p)
  ROOT n = f32[1,3,5]{2,1,0} negate(r)
}
ENTRY e {
  x = f32[3,5]{0,1} parameter(0)
  y = f32[3,5]{0,1} sine(x)
  ROOT c = f32[1,3,5]{2,1,0} call(y), to_apply=f
}"""


def test_a_value_keeps_its_layout_across_the_border_of_a_call() -> None:
    planned_runs_right(LAYOUTS_DIFFER)


def test_nan_payloads_survive() -> None:
    text = """HloModule m
    ENTRY e {
      a = f32[2] parameter(0)
      ROOT b = f32[2] reverse(a), dimensions={0}
    }"""
    bits = np.array([0x7FC12345, 0xFF812345], np.uint32)
    planned = compiler.plan(parse_hlo(text), compiler.PlanOptions("input"))
    found = run_in_arena(planned.module, planned.assignment, [bits.view(np.float32)])
    assert found.view(np.uint32).tolist() == bits[::-1].tolist()


# -- storage -----------------------------------------------------------------------------------


def test_views_of_the_same_bytes() -> None:
    shape = parse_hlo("HloModule m\nENTRY e {\n ROOT a = f32[2,1,3]{0,2,1} parameter(0)\n}").entry
    storage = storage_of(shape.root.shape)
    array = np.arange(6, dtype=np.float32).reshape(2, 1, 3)
    raw = storage.to_bytes(array)
    assert raw.view(np.float32).tolist() == [0, 3, 1, 4, 2, 5]
    turned = transposed(storage, (2, 0, 1)).to_array(raw)
    assert np.array_equal(turned, array.transpose(2, 0, 1))
    smaller = reshaped(storage, (2, 3))
    assert smaller is not None
    assert np.array_equal(smaller.to_array(raw), array.reshape(2, 3))
    assert reshaped(storage, (3, 2)) is None
    assert smaller.to_array(raw).flags.c_contiguous


# -- wrong plans -------------------------------------------------------------------------------

CHAIN = """HloModule m, is_scheduled=true
ENTRY e {
  x = f32[16] parameter(0)
  a = f32[16] sine(x)
  b = f32[16] negate(x)
  c = f32[16] add(a, b)
  d = f32[16] multiply(a, c)
  ROOT r = f32[16] reverse(d), dimensions={0}
}"""
RIGHT = {"a": 0, "b": 64, "c": 64, "d": 0, "r": 64}
X = np.linspace(-1, 1, 16, dtype=np.float32)


def run_chain(offsets, size=128, *, sanitize=True, **options):
    module, assignment = hand_made(CHAIN, {**RIGHT, **offsets}, size, **options)
    found = run_in_arena(module, assignment, [X], sanitize=sanitize)
    return differing_leaves(module, found, evaluate(module, [X]))


def test_the_plan_made_by_hand_is_right() -> None:
    assert run_chain({}) == []
    assert run_chain({}, sanitize=False) == []


def test_the_guilty_pair_is_named_with_places_and_live_ranges() -> None:
    with pytest.raises(ArenaError) as caught:
        run_chain({"b": 32, "c": 128, "r": 128}, 192)
    damaged, written = caught.value.damaged, caught.value.written
    assert (damaged.name, damaged.place, damaged.live) == ("%a", BufferSlice(1, 0, 64), (1, 4))
    assert (written.name, written.place, written.live) == ("%b", BufferSlice(1, 32, 64), (2, 3))
    assert damaged.reader == "d"
    assert str(caught.value) == (
        "%b was written over %a, which %c in %e reads\n"
        "  damaged: %a in %e: allocation 1, bytes 0 to 63; live from position 1 to 4 (%d)\n"
        "  written: %b in %e: allocation 1, bytes 32 to 95; live from position 2 to 3 (%c)"
    )


def test_without_sanitize_the_outputs_are_those_in_the_arena() -> None:
    assert run_chain({"b": 32, "c": 128, "r": 128}, 192, sanitize=False) == [()]


def test_equal_bytes_do_not_hide_that_a_value_was_overwritten() -> None:
    text = """HloModule m, is_scheduled=true
    ENTRY e {
      x = f32[16] parameter(0)
      a = f32[16] negate(x)
      b = f32[16] negate(x)
      ROOT c = f32[16] add(a, b)
    }"""
    module, assignment = hand_made(text, {"a": 0, "b": 0, "c": 64}, 128)
    expected = evaluate(module, [X])
    assert not differing_leaves(module, run_in_arena(module, assignment, [X]), expected)
    with pytest.raises(ArenaError, match="%b was written over %a"):
        run_in_arena(module, assignment, [X], sanitize=True)


@pytest.mark.parametrize("operation", ["cosine(x)", "copy(x)"])
def test_what_nobody_reads_is_written_too(operation) -> None:
    text = CHAIN.replace("c = f32[16] add", f"dead = f32[16] {operation}\n  c = f32[16] add")
    module, assignment = hand_made(text, {**RIGHT, "dead": 0}, 128)
    with pytest.raises(ArenaError, match="%dead was written over %a"):
        run_in_arena(module, assignment, [X], sanitize=True)


@pytest.mark.parametrize(
    ("offsets", "size", "message"),
    [
        ({"r": 0}, 128, "%r is written over its operand %d, which it reads while it writes"),
        ({"c": 32}, 128, "%c is written over its operand %a"),
        ({"b": 96}, 128, "%b lies outside of its allocation, which has 128 bytes"),
        ({"b": -64}, 128, "%b lies outside of its allocation"),
    ],
)
def test_places_that_cannot_be(offsets, size, message) -> None:
    for sanitize in (False, True):
        with pytest.raises(ArenaError, match=message):
            run_chain(offsets, size, sanitize=sanitize)


def broken(assignment, name, place):
    """The plan of a module without calls in which an instruction lies elsewhere."""
    site = assignment.call_sites[0]
    instruction = site.computation.instructions[name]
    return replace(
        assignment, call_sites=(replace(site, slices={**site.slices, instruction: (place,)}),)
    )


@pytest.mark.parametrize(
    ("name", "place", "message"),
    [
        ("b", BufferSlice(1, 64, 60), "%b has 64 bytes, the plan gives it 60"),
        ("b", BufferSlice(7, 0, 64), "%b lies in allocation 7, of 2"),
        ("b", BufferSlice(0, 0, 64), "%b is written where nothing may be written: allocation 0"),
        (
            "x",
            BufferSlice(1, 0, 64),
            "%x is an argument, and lies in an allocation which is not its own",
        ),
        ("b", None, "the plan has no place for %b in %e"),
        ("r", BufferSlice(1, 0, 64), "%r is written over its operand %d"),
    ],
)
def test_slices_that_do_not_fit(name, place, message) -> None:
    module, assignment = hand_made(CHAIN, RIGHT, 128)
    with pytest.raises(ArenaError, match=message):
        run_in_arena(module, broken(assignment, name, place), [X])


def test_outputs_have_to_be_where_the_plan_says() -> None:
    module, assignment = hand_made(CHAIN, RIGHT, 128)
    assignment = replace(assignment, outputs=(BufferSlice(1, 0, 64),))
    with pytest.raises(ArenaError, match="output 0 is %r: the former at allocation 1, bytes 0 to"):
        run_in_arena(module, assignment, [X])


def test_an_argument_may_be_overwritten_only_for_its_output() -> None:
    text = "HloModule m\nENTRY e {\n x = f32[16] parameter(0)\n ROOT a = f32[16] negate(x)\n}"
    for aliased in (None, 0):
        module, assignment = hand_made(text, {"a": 0}, 64, aliased=aliased)
        in_place = replace(
            broken(assignment, "a", BufferSlice(0, 0, 64)), outputs=(BufferSlice(0, 0, 64),)
        )
        if aliased == 0:
            same_as_the_evaluator(module, in_place, [X])
            continue
        with pytest.raises(ArenaError, match="%a is written where nothing may be written"):
            run_in_arena(module, in_place, [X])


def test_a_loop_whose_state_lies_in_two_places() -> None:
    module, assignment = only_values(CONTROL_FLOW)
    start = module.entry.instructions["loop"].operands[0].operands[1]
    value = next(x for x in assignment.values if x.instruction is start)
    sites = list(assignment.call_sites)
    far = BufferSlice(value.place.allocation, assignment.arena_bytes, value.place.nbytes)
    sites[0] = replace(sites[0], slices={**sites[0].slices, start: (far,)})
    grown = [replace(x, nbytes=x.nbytes + 512) for x in assignment.allocations]
    assignment = replace(assignment, call_sites=tuple(sites), allocations=tuple(grown))
    arguments = seeded_arguments(module, 1)
    with pytest.raises(ArenaError, match=r"loop state \{1\} of %loop: initial value %copy.* at"):
        run_in_arena(module, assignment, arguments)


def test_the_result_of_a_branch_lies_where_that_of_the_conditional_does() -> None:
    module, assignment = only_values(CONTROL_FLOW)
    sites = list(assignment.call_sites)
    number = next(i for i, x in enumerate(sites) if x.computation.name == "minus")
    root = sites[number].computation.root
    place = sites[number].slices[root][0]
    size = assignment.allocations[place.allocation].nbytes
    far = BufferSlice(place.allocation, size, place.nbytes)
    sites[number] = replace(sites[number], slices={**sites[number].slices, root: (far,)})
    grown = [replace(x, nbytes=x.nbytes + 512) for x in assignment.allocations]
    assignment = replace(assignment, call_sites=tuple(sites), allocations=tuple(grown))
    x = np.ones((4, 3), np.float32)
    run_in_arena(module, assignment, [x, np.int32(0)])
    with pytest.raises(ArenaError, match="the former at allocation"):
        run_in_arena(module, assignment, [x, np.int32(1)])


def test_an_asynchronous_operation_reads_its_operands_to_the_end() -> None:
    text = """HloModule m, is_scheduled=true
    ENTRY e {
      x = f32[16] parameter(0)
      a = f32[16] negate(x)
      s = (f32[16], f32[16], u32[]) copy-start(a)
      b = f32[16] sine(x)
      d = f32[16] copy-done(s)
      ROOT r = f32[16] add(b, d)
    }"""
    module, assignment = hand_made(text, {"a": 0, "b": 0, "r": 128}, 192)
    start = module.entry.instructions["s"]
    arena = len(assignment.allocations) - 1
    site = assignment.call_sites[0]
    places = (BufferSlice(arena, 64, 64), None, BufferSlice(arena, 128, 4))
    assignment = replace(
        assignment, call_sites=(replace(site, slices={**site.slices, start: places}),)
    )
    with pytest.raises(ArenaError, match="%a in %e changed before %d"):
        run_in_arena(module, assignment, [X])
    with pytest.raises(ArenaError, match="%b was written over %a, which %d in %e reads"):
        run_in_arena(module, assignment, [X], sanitize=True)


def test_a_declared_alias_has_to_be_one_place() -> None:
    text = """HloModule m, is_scheduled=true
    f { p = f32[16] parameter(0)  ROOT n = f32[16] negate(p) }
    ENTRY e {
      x = f32[16] parameter(0)
      a = f32[16] sine(x)
      ROOT r = f32[16] fusion(a), kind=kLoop, calls=f, output_to_operand_aliasing={{}: (0, {})}
    }"""
    module, assignment = hand_made(text, {"a": 0, "r": 0}, 128)
    same_as_the_evaluator(module, assignment, [X])
    module, assignment = hand_made(text, {"a": 0, "r": 64}, 128)
    with pytest.raises(ArenaError, match=r"%r has to overwrite %a: the former at .* 64 to 127"):
        run_in_arena(module, assignment, [X])


def test_bytes_between_and_behind_the_slices_are_watched() -> None:
    _, assignment = hand_made(CHAIN, RIGHT, 192)
    for position in (130, 192):
        memory = ArenaMemory(assignment.allocations)
        watch = Watch(memory, Sites(assignment))
        watch.finish()
        memory.bytes[1][position] = 1
        with pytest.raises(ArenaError, match=f"byte {position} of allocation 1 holds no value"):
            watch.finish()


def test_a_plan_of_another_module() -> None:
    module, assignment = hand_made(CHAIN, RIGHT, 128)
    with pytest.raises(ArenaError, match="the plan is not one of %e"):
        run_in_arena(parse_hlo(CHAIN), assignment, [X])
    with pytest.raises(ArenaError, match="no call site for the entry"):
        run_in_arena(module, replace(assignment, call_sites=()), [X])
    loop, planned = only_values(CONTROL_FLOW)
    cut = replace(planned, call_sites=planned.call_sites[:1])
    with pytest.raises(ArenaError, match="the plan has no call site in which %"):
        run_in_arena(loop, cut, seeded_arguments(loop, 1))


# -- broken at random --------------------------------------------------------------------------


def breakable(assignment):
    """Buffers in the arena that hold no output, with offsets at which they lie over another one."""
    arena = {x.index for x in assignment.allocations if x.kind is AllocationKind.ARENA}
    outputs = {(x.allocation, x.offset) for x in assignment.outputs}
    places: dict[int, BufferSlice] = {}
    for value in assignment.values:
        if value.place.allocation in arena:
            places.setdefault(value.buffer, value.place)
    for buffer, place in places.items():
        if (place.allocation, place.offset) in outputs:
            continue
        size = assignment.allocations[place.allocation].nbytes
        offsets = {min(x.offset, size - place.nbytes) for x in places.values()}
        for offset in sorted(offsets - {place.offset})[:4]:
            yield buffer, offset


def outcome(module, assignment, arguments, *, sanitize):
    try:
        return run_in_arena(module, assignment, arguments, sanitize=sanitize)
    except ArenaError as error:
        return error


def test_each_break_that_shows_is_caught_and_a_pair_is_named() -> None:
    named = shown = 0
    for seed in range(12):
        module = random_module(seed, MEMORY)
        arguments = seeded_arguments(module, seed)
        module, assignment = only_values(
            str(compiler.plan(module, compiler.PlanOptions("input")).module)
        )
        expected = evaluate(module, arguments)
        for buffer, offset in list(breakable(assignment))[:8]:
            wrong = moved(assignment, buffer, offset)
            plain = outcome(module, wrong, arguments, sanitize=False)
            found = outcome(module, wrong, arguments, sanitize=True)
            if isinstance(plain, ArenaError) or differing_leaves(module, plain, expected):
                shown += 1
                assert isinstance(found, ArenaError)
            if isinstance(found, ArenaError) and found.damaged is not None:
                named += 1
                assert overlap(found.damaged.place, found.written.place)
    assert shown >= 20
    assert named >= 15


# -- partial orders ----------------------------------------------------------------------------

WIDE = """HloModule m
ENTRY e {
  x = f32[16] parameter(0)
  a = f32[16] sine(x)
  b = f32[16] cosine(x)
  c = f32[16] negate(a)
  d = f32[16] negate(b)
  ROOT r = f32[16] add(c, d)
}"""


def dependency_order(module) -> PartialOrder:
    entry = module.entry
    return PartialOrder(entry, {x: tuple(x.operands) for x in entry.instructions.values()})


def test_events_of_unordered_operations_are_mixed() -> None:
    apart = {"a": 0, "b": 64, "c": 128, "d": 192, "r": 256}
    module, assignment = hand_made(WIDE, apart, 320)
    order = dependency_order(module)
    expected = evaluate(module, [X])
    for seed in range(20):
        found = run_in_arena(module, assignment, [X], order=order, sanitize=True, seed=seed)
        assert not differing_leaves(module, found, expected)


def test_a_place_reused_between_unordered_operations_is_caught() -> None:
    module, assignment = hand_made(WIDE, {"a": 0, "b": 64, "c": 0, "d": 64, "r": 0}, 128)
    same_as_the_evaluator(module, assignment, [X])
    reused = {"a": 0, "b": 64, "c": 128, "d": 0, "r": 64}
    module, assignment = hand_made(WIDE, reused, 192)
    same_as_the_evaluator(module, assignment, [X])
    faults = set()
    for seed in range(30):
        try:
            run_in_arena(
                module, assignment, [X], order=dependency_order(module), sanitize=True, seed=seed
            )
        except ArenaError as error:
            faults.add((error.damaged.name, error.written.name))
    assert faults & {("%a", "%d"), ("%d", "%a")}


def test_whole_loops_run_within_a_partial_order() -> None:
    module, assignment = only_values(CONTROL_FLOW)
    order = module.schedule.sequence(module.entry)
    after = {x: (order[i - 1],) if i else () for i, x in enumerate(order)}
    same_as_the_evaluator(
        module, assignment, seeded_arguments(module, 3), order=PartialOrder(module.entry, after)
    )


def test_a_partial_order_with_a_cycle() -> None:
    module, assignment = hand_made(WIDE, {"a": 0, "b": 64, "c": 128, "d": 192, "r": 256}, 320)
    entry = module.entry.instructions
    order = PartialOrder(module.entry, {entry["a"]: (entry["d"],), entry["b"]: (entry["c"],)})
    with pytest.raises(LowtideError, match="the partial order of %e has a cycle"):
        run_in_arena(module, assignment, [X], order=order)


def test_random_numbers_come_in_sequence() -> None:
    text = """HloModule m
    ENTRY e {
      l = f32[] constant(0)
      h = f32[] constant(1)
      a = f32[16] rng(l, h), distribution=rng_uniform
      b = f32[16] rng(l, h), distribution=rng_uniform
      ROOT t = (f32[16], f32[16]) tuple(a, b)
    }"""
    planned = compiler.plan(parse_hlo(text), compiler.PlanOptions("input"))
    module = planned.module
    assert [x.opcode for x in module.entry.instructions.values()].count(Opcode.RNG) == 2
    for seed in range(8):
        found = run_in_arena(
            module, planned.assignment, [], order=dependency_order(module), seed=seed
        )
        assert not differing_leaves(module, found, evaluate(module, [], seed=seed))
