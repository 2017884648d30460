"""Rules of today's assigner in XLA, one small module each, and random modules in their plans."""

import pytest
from tests.buffers.test_acceptance import bits, random_cases
from tests.support import EXAMPLES, read_text

from lowtide import parse_hlo
from lowtide.buffers.copy_insertion import insert_copies
from lowtide.checking import check_plan
from lowtide.evaluator import evaluate
from lowtide.evaluator.in_arena import run_in_arena
from lowtide.ir import LowtideError, Schedule
from lowtide.ir.buffer import AllocationKind
from lowtide.ir.clone import clone_module
from lowtide.scheduling.module_scheduler import schedule_module
from lowtide.testing.check_pass import seeded_arguments
from lowtide.transforms.flatten_call_graph import flatten_call_graph
from lowtide.transforms.optimize_input_output_alias import optimize_input_output_alias
from lowtide.xla.analysis.gpu_ordering import gpu_ordering
from lowtide.xla.analysis.ordering import (
    DependencyOrdering,
    PredecessorOrdering,
    SequentialOrdering,
)
from lowtide.xla.assigners import ASSIGNERS, AssignerOptions, BufferOrder, Preset, assign
from lowtide.xla.assigners.options import ALGORITHMS
from lowtide.xla.streams.launch_order import partial_orders
from lowtide.xla.streams.streams import assign_streams


def planned(entry, header="", ordering=SequentialOrdering, **options):
    """The plan of a scheduled module with these lines as its entry, and the places by name."""
    computations, _, body = entry.rpartition("---")
    text = f"HloModule m, is_scheduled=true{header}\n{computations}\nENTRY e {{\n{body}\n}}\n"
    module = parse_hlo(text)
    plan = assign(module, ordering(module), AssignerOptions(**options))
    assert not check_plan(module, plan)
    places = {(x.instruction.name, x.index): x.place for x in plan.values}
    return plan, places


def allocation(plan, places, name, index=()):
    return plan.allocations[places[name, index].allocation]


def test_a_total_order_lets_a_value_take_the_place_of_one_that_is_over():
    lines = """p = f32[64] parameter(0)
      a = f32[64] negate(p)
      b = f32[64] reverse(a), dimensions={0}
      c = f32[64] reverse(b), dimensions={0}
      d = f32[64] reverse(c), dimensions={0}
      ROOT s = f32[1] slice(d), slice={[0:1]}"""
    plan, places = planned(lines)
    assert places["a", ()] == places["c", ()]
    assert plan.temp_bytes == 2 * 256


def test_unordered_values_share_nothing():
    lines = """p = f32[64] parameter(0)
      a = f32[64] negate(p)
      x = f32[1] slice(a), slice={[0:1]}
      b = f32[64] exponential(p)
      y = f32[1] slice(b), slice={[0:1]}
      ROOT s = f32[1] add(x, y)"""
    assert planned(lines)[0].temp_bytes < planned(lines, ordering=DependencyOrdering)[0].temp_bytes


def test_an_elementwise_result_takes_the_place_of_its_last_operand():
    lines = """p = f32[64] parameter(0)
      a = f32[64] reverse(p), dimensions={0}
      b = f32[64] negate(a)
      ROOT s = f32[1] slice(b), slice={[0:1]}"""
    plan, places = planned(lines)
    assert places["a", ()] == places["b", ()]
    (trace,) = plan.heap_traces
    assert [x.kind.value for x in trace.events] == ["alloc", "free", "share", "free"]


def test_a_copy_never_lies_on_its_operand():
    lines = """p = f32[64] parameter(0)
      a = f32[64] reverse(p), dimensions={0}
      b = f32[64] copy(a)
      ROOT s = f32[1] slice(b), slice={[0:1]}"""
    _, places = planned(lines)
    assert places["a", ()] != places["b", ()]


def test_a_donated_argument_is_scratch_when_it_is_read_no_more():
    lines = """p = f32[64] parameter(0)
      a = f32[16] slice(p), slice={[0:16]}
      b = f32[16] reverse(a), dimensions={0}
      c = f32[1] slice(b), slice={[0:1]}
      z = f32[] constant(0)
      ROOT r = f32[64] pad(c, z), padding=0_63"""
    plan, places = planned(lines, ", input_output_alias={ {}: (0, {}, may-alias) }")
    donated = allocation(plan, places, "p")
    assert donated.kind is AllocationKind.ARGUMENT
    assert donated.output == ()
    assert allocation(plan, places, "b") is donated
    plan, places = planned(lines)
    assert allocation(plan, places, "b").kind is AllocationKind.ARENA


def test_an_argument_that_no_output_overwrites_holds_nothing_else():
    lines = """p = f32[64] parameter(0)
      a = f32[64] negate(p)
      ROOT b = f32[64] negate(a)"""
    plan, places = planned(lines)
    owner = allocation(plan, places, "p")
    assert [name for (name, _), place in places.items() if place.allocation == owner.index] == ["p"]


def test_a_temporary_lies_in_a_larger_output_until_that_is_written():
    lines = """p = f32[64] parameter(0)
      a = f32[16] slice(p), slice={[0:16]}
      b = f32[8] slice(a), slice={[0:8]}
      z = f32[] constant(0)
      ROOT r = f32[64] pad(b, z), padding=0_56"""
    plan, places = planned(lines)
    assert allocation(plan, places, "a") is allocation(plan, places, "r")
    plan, places = planned(lines, must_not_live_out=lambda instruction, _: instruction.name == "a")
    assert allocation(plan, places, "a").kind is AllocationKind.ARENA


def test_an_output_needs_an_allocation_of_exactly_its_size():
    lines = """p = f32[64] parameter(0)
      a = f32[64] negate(p)
      b = f32[16] slice(p), slice={[0:16]}
      ROOT r = (f32[64], f32[16]) tuple(a, b)"""
    plan, places = planned(lines, ordering=DependencyOrdering)
    sizes = [allocation(plan, places, name).nbytes for name in ("a", "b", "r")]
    assert sizes == [256, 64, 16]


def test_constants_and_tuples_have_allocations_of_their_own():
    lines = """c = f32[] constant(1)
      p = f32[] parameter(0)
      a = f32[] add(p, c)
      b = f32[] negate(a)
      ROOT r = (f32[], f32[]) tuple(a, b)"""
    plan, places = planned(lines)
    assert allocation(plan, places, "c").constant.name == "c"
    assert allocation(plan, places, "r").is_tuple
    assert plan.call_sites[0].tables
    plan, places = planned(lines, tables=False)
    assert not plan.call_sites[0].tables
    assert not any(x.is_tuple for x in plan.allocations)


def test_what_runs_per_element_has_memory_of_its_thread():
    lines = """add {
        x = f32[] parameter(0)
        y = f32[] parameter(1)
        ROOT s = f32[] add(x, y)
      }
      ---
      z = f32[] constant(0)
      p = f32[64] parameter(0)
      ROOT r = f32[] reduce(p, z), dimensions={0}, to_apply=add"""
    plan, places = planned(lines)
    for name in "xys":
        assert allocation(plan, places, name).kind is AllocationKind.THREAD_LOCAL
    assert [x.site for x in plan.values if x.instruction.name == "s"] == [-1]


def test_a_fused_value_has_no_memory():
    lines = """fused {
        x = f32[64] parameter(0)
        y = f32[64] negate(x)
        ROOT s = f32[64] exponential(y)
      }
      ---
      p = f32[64] parameter(0)
      ROOT r = f32[64] fusion(p), kind=kLoop, calls=fused"""
    _, places = planned(lines)
    assert sorted(name for name, _ in places) == ["p", "r"]


CALLS = """callee {
    x = f32[64] parameter(0)
    a = f32[64] reverse(x), dimensions={0}
    b = f32[64] reverse(a), dimensions={0}
    ROOT c = f32[1] slice(b), slice={[0:1]}
  }
  other {
    x = f32[64] parameter(0)
    a = f32[64] reverse(x), dimensions={0}
    b = f32[64] reverse(a), dimensions={0}
    ROOT c = f32[1] slice(b), slice={[0:1]}
  }
  ---
  p = f32[64] parameter(0)
  f = f32[1] call(p), to_apply=callee
  g = f32[1] call(p), to_apply=other
  ROOT r = f32[1] add(f, g)"""


def test_callees_that_never_run_together_share_the_heap_of_the_module():
    whole = planned(CALLS)[0]
    apart = planned(CALLS, whole_module=False)[0]
    assert [x.whole_module for x in whole.heap_traces] == [True]
    assert [x.whole_module for x in apart.heap_traces] == [False, False]
    assert (whole.temp_bytes, apart.temp_bytes) == (2 * 256 + 4, 4 * 256)


def test_temporaries_of_a_colour_are_one_allocation_behind_all_others():
    def colour(value):
        return int(value.instruction.name in ("a", "b"))

    lines = """p = f32[64] parameter(0)
      a = f32[64] reverse(p), dimensions={0}
      b = f32[64] reverse(a), dimensions={0}
      c = f32[64] reverse(b), dimensions={0}
      d = f32[64] reverse(c), dimensions={0}
      ROOT s = f32[1] slice(d), slice={[0:1]}"""
    plan, places = planned(lines, colorer=colour)
    assert [(x.kind, x.colour, x.nbytes) for x in plan.allocations[-2:]] == [
        (AllocationKind.ARENA, 0, 512),
        (AllocationKind.ARENA, 1, 512),
    ]
    assert places["b", ()].allocation != places["c", ()].allocation


def test_values_of_one_buffer_need_one_colour():
    lines = """p = f32[64] parameter(0)
      u = f32[1] parameter(1)
      i = s32[] constant(3)
      a = f32[64] copy(p)
      ROOT d = f32[64] dynamic-update-slice(a, u, i)"""
    with pytest.raises(LowtideError, match="one colour"):
        planned(lines, colorer=lambda value: int(value.instruction.name == "a"))


def test_offsets_are_multiples_of_the_alignment_of_their_colour():
    lines = """p = f32[3] parameter(0)
      a = f32[3] reverse(p), dimensions={0}
      b = f32[3] reverse(a), dimensions={0}
      c = f32[3] add(a, b)
      ROOT s = f32[1] slice(c), slice={[0:1]}"""
    for alignment in (16, 256):
        plan, places = planned(lines, alignment=lambda _, alignment=alignment: alignment)
        assert {places[x, ()].offset for x in "ab"} == {0, alignment}
        assert plan.temp_bytes == alignment + 12


def test_presets_are_kept():
    text = """HloModule m, is_scheduled=true
    ENTRY e {
      p = f32[64] parameter(0)
      a = f32[64] reverse(p), dimensions={0}
      ROOT s = f32[1] slice(a), slice={[0:1]}
    }"""
    module = parse_hlo(text)
    a = module.entry.instructions["a"]
    for offset in (0, 1024):
        options = AssignerOptions(presets=[Preset(a, (), offset)])
        plan = assign(module, SequentialOrdering(module), options)
        assert [x.place.offset for x in plan.values if x.instruction is a] == [offset]
        assert plan.temp_bytes == offset + 256
    with pytest.raises(LowtideError, match="not aligned"):
        assign(module, SequentialOrdering(module), AssignerOptions(presets=[Preset(a, (), 3)]))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("order", BufferOrder)
def test_every_algorithm_and_order_gives_a_plan(algorithm, order):
    module, arguments = prepared(7)
    options = AssignerOptions(algorithm=algorithm, buffer_order=order)
    plan = assign(module, SequentialOrdering(module), options)
    result = run_in_arena(module, plan, arguments, sanitize=True)
    assert bits(result) == bits(evaluate(module, arguments))


def test_an_unknown_algorithm_is_named():
    with pytest.raises(LowtideError, match="no heap algorithm 'worst-fit'; there are: best-of"):
        planned(
            """p = f32[4] parameter(0)
            a = f32[4] negate(p)
            ROOT b = f32[1] slice(a), slice={[0:1]}""",
            algorithm="worst-fit",
        )


def test_a_limited_heap_becomes_several():
    lines = """p = f32[64] parameter(0)
      a = f32[64] reverse(p), dimensions={0}
      b = f32[64] reverse(p), dimensions={0}
      c = f32[64] add(a, b)
      ROOT s = f32[1] slice(c), slice={[0:1]}"""
    plan, _ = planned(lines, memory_limit={0: 256})
    assert sorted(len(x.events) for x in plan.heap_traces) == [2, 4]


@pytest.mark.parametrize("example", ["lstm", "mlp", "mnist_cnn"])
@pytest.mark.parametrize("assigner", ASSIGNERS)
def test_the_less_is_ordered_the_more_memory_is_needed(assigner, example):
    module = parse_hlo(read_text(EXAMPLES / f"{example}.hlo.xz"))
    flatten_call_graph(module)
    insert_copies(module)
    module.schedule = schedule_module(module)
    streams = assign_streams(module).streams
    launches = module.schedule.sequence(module.entry)
    needed = [
        ASSIGNERS[assigner](module, ordering).temp_bytes
        for ordering in (
            SequentialOrdering(module),
            gpu_ordering(module, launches, streams, module.schedule),
            DependencyOrdering(module),
        )
    ]
    assert needed == sorted(needed)


# -- random modules ----------------------------------------------------------------------------


def prepared(seed):
    """A random module ready for assignment, and arguments."""
    module = clone_module(random_cases(seed)[0])
    flatten_call_graph(module)
    optimize_input_output_alias(module)
    insert_copies(module)
    module.schedule = schedule_module(module)
    return module, seeded_arguments(module, seed)


def assert_holds(seed):
    module, arguments = prepared(seed)
    expected = bits(evaluate(module, arguments))
    inner = {x: y for x, y in module.schedule.sequences.items() if x is not module.entry}
    cases = [(None, SequentialOrdering(module))]
    cases += [
        (order, PredecessorOrdering(module, order, schedule=Schedule(inner)))
        for order in partial_orders(module, follow_schedule=True).values()
    ]
    for name, assigner in ASSIGNERS.items():
        for order, ordering in cases:
            plan = assigner(module, ordering)
            result = run_in_arena(module, plan, arguments, order=order, sanitize=True, seed=seed)
            assert bits(result) == expected, name


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_random_modules_run_in_their_plans(first):
    for seed in range(first, first + 10):
        assert_holds(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 1400, 50))
def test_many_random_modules_run_in_their_plans(first):
    for seed in range(first, first + 50):
        assert_holds(seed)
