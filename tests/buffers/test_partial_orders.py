"""Plans for programs whose instructions overlap in time, run with their events mixed at random."""

import pytest
from tests.buffers.test_acceptance import bits, programs, random_cases
from tests.support import needs_shared

from lowtide.buffers.copy_insertion import insert_copies
from lowtide.evaluator import evaluate
from lowtide.evaluator.in_arena import run_in_arena
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import Schedule
from lowtide.ir.clone import clone_module
from lowtide.scheduling.module_scheduler import schedule_module
from lowtide.testing.check_pass import seeded_arguments
from lowtide.transforms.flatten_call_graph import flatten_call_graph
from lowtide.transforms.optimize_input_output_alias import optimize_input_output_alias
from lowtide.xla.analysis.ordering import PredecessorOrdering
from lowtide.xla.assigners.modern import assign
from lowtide.xla.streams.launch_order import partial_orders


def assert_holds_however_mixed(module, arguments, seeds=2):
    """Plan a module for each order of its launches; run each plan with several interleavings."""
    expected = bits(evaluate(module, arguments))
    module = clone_module(module)
    flatten_call_graph(module)
    optimize_input_output_alias(module)
    insert_copies(module)
    module.schedule = schedule_module(module)
    inner = {x: y for x, y in module.schedule.sequences.items() if x is not module.entry}
    for name, order in partial_orders(module).items():
        ordering = PredecessorOrdering(module, order, schedule=Schedule(inner))
        plan = assign(module, ordering)
        for seed in range(seeds):
            result = run_in_arena(module, plan, arguments, order=order, sanitize=True, seed=seed)
            assert bits(result) == expected, f"{name} order, interleaving {seed}"


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_random_modules(first):
    for seed in range(first, first + 20):
        module = random_cases(seed)[0]
        assert_holds_however_mixed(module, seeded_arguments(module, seed))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(60, 560, 50))
def test_many_random_modules(first):
    for seed in range(first, first + 50):
        module = random_cases(seed)[0]
        assert_holds_however_mixed(module, seeded_arguments(module, seed), seeds=4)


@needs_shared
@pytest.mark.slow
def test_programs_in_jax():
    for program in programs().values():
        assert_holds_however_mixed(program.module(), program.arguments())


PASSED_ON = """HloModule m
passes {
  one = s8[] constant(1)
  minus = s8[] negate(one)
  p = s32[] parameter(0)
  ROOT results = (s8[], s8[], s32[]) tuple(minus, minus, p)
}
makes {
  p = s32[] parameter(0)
  low = s8[] convert(p)
  both = (s32[], s8[]) custom-call(p, low), custom_call_target="annotate_device_placement",
    output_to_operand_aliasing={{0}: (0, {}), {1}: (1, {})}
  one = s8[] constant(1)
  minus = s8[] negate(low)
  six = s32[] constant(6)
  ROOT results = (s8[], s8[], s32[]) tuple(one, minus, six)
}
body {
  state = (s32[], s32[], s32[]) parameter(0)
  a = s32[] get-tuple-element(state), index=1
  b = s32[] get-tuple-element(state), index=2
  clamped = s32[] clamp(a, a, b)
  which = pred[] convert(clamped)
  i = s32[] get-tuple-element(state), index=0
  either = (s8[], s8[], s32[]) conditional(which, i, b), true_computation=passes,
    false_computation=makes
  one = s32[] constant(1)
  next = s32[] add(i, one)
  ROOT new = (s32[], s32[], s32[]) tuple(next, b, a)
}
condition {
  state = (s32[], s32[], s32[]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  end = s32[] constant(3)
  ROOT less = pred[] compare(i, end), direction=LT
}
ENTRY main {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  zero = s32[] constant(0)
  start = (s32[], s32[], s32[]) tuple(zero, b, a)
  ROOT loop = (s32[], s32[], s32[]) while(start), condition=condition, body=body
}
"""


def test_what_a_branch_passes_on_is_overwritten_behind_the_conditional():
    """The counter of the loop, which nobody reads in the branch, is needed until that has ended."""
    module = parse_hlo(PASSED_ON)
    assert_holds_however_mixed(module, seeded_arguments(module, 0))
