"""Modules planned by NNVM: run in the storage pool, they compute what the evaluator does."""

import numpy as np
import pytest
from tests.buffers.nnvm_runner import PoolRun
from tests.random_modules import MEMORY, Recipe, SeededChoices, random_module, random_schedule
from tests.support import EXAMPLES, read_text

from lowtide.buffers.nnvm import NO_ENTRY, nnvm_graph, plan_module
from lowtide.evaluator import evaluate, value_leaves
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import UnsupportedOpError
from lowtide.planning.nnvm import COPY, IN_PLACE, NEVER_READ, Pattern
from lowtide.testing.check_pass import seeded_arguments


def bits(value):
    return [leaf.tobytes() for leaf in value_leaves(value) if isinstance(leaf, np.ndarray)]


def assert_runs(module, seed=0, **options):
    arguments = seeded_arguments(module, seed)
    planned = plan_module(module, **options)
    assert bits(PoolRun(module, planned).run(arguments)) == bits(evaluate(module, arguments))
    return planned


RECIPES = (
    Recipe(),
    Recipe(shared_results=True, layouts=True, is_scheduled=True),
    MEMORY,
    Recipe(("elementwise", "data movement", "tuples", "in place"), 30, shared_results=True),
)
OPTIONS = (
    {},
    {"auto_search_match_range": True, "num_temp": 3},
    {"match_range": 0},
    {"variant": "tvm"},
    {"variant": "relay"},
)


def random_case(seed):
    module = random_module(seed, RECIPES[seed % len(RECIPES)])
    if seed % 3 == 0 and not module.is_scheduled:
        module.schedule = random_schedule(module, SeededChoices(seed))
    return module


@pytest.mark.parametrize("first", range(0, 240, 40))
def test_random_modules(first):
    in_place = assigned = 0
    for seed in range(first, first + 40):
        planned = assert_runs(random_case(seed), seed, **OPTIONS[seed % len(OPTIONS)])
        in_place += sum(position >= 0 for position in planned.plan.inplace_index)
        assigned += planned.decorated.assign_flags.count(IN_PLACE)
    assert in_place
    assert assigned


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 4000, 100))
def test_many_random_modules(first):
    for seed in range(first, first + 100):
        assert_runs(random_case(seed), seed, **OPTIONS[seed % len(OPTIONS)])


def test_flags_of_the_original_compute_something_else():
    wrong = 0
    for seed in range(120):
        module = random_case(seed)
        planned = plan_module(module, original=True)
        arguments = seeded_arguments(module, seed)
        same = bits(PoolRun(module, planned).run(arguments)) == bits(evaluate(module, arguments))
        assert same or planned.decorated.hazards
        wrong += not same
    assert wrong


@pytest.mark.parametrize("name", ["mlp", "mnist_cnn"])
def test_examples(name):
    module = parse_hlo(read_text(EXAMPLES / f"{name}.hlo.xz"))
    planned = assert_runs(module)
    assert planned.plan.bytes < 4 * sum(
        size for node in planned.source.graph.nodes for size in node.sizes
    )


# -- what is what ------------------------------------------------------------------------------


def entry_of(body, aliases=""):
    return parse_hlo(f"HloModule m{aliases}\n\nENTRY e {{\n{body}\n}}\n")


STEP = """
  p = f32[4] parameter(0)
  g = f32[4] parameter(1)
  r = f32[4] constant({1, 2, 3, 4})
  step = f32[4] multiply(r, g)
  ROOT new = f32[4] subtract(p, step)
"""


def test_an_aliased_output_is_an_assignment_in_place():
    module = entry_of(STEP, ", input_output_alias={ {}: (0, {}, may-alias) }")
    planned = assert_runs(module)
    nodes = planned.source.graph.nodes
    assert [node.op for node in nodes] == [None, None, None, "multiply", "subtract", "_assign"]
    assert planned.decorated.assign_flags[-1] == IN_PLACE
    ids = planned.decorated.storage_id
    assert ids[0] == ids[4] == ids[5]
    assert planned.source.results == (5,)
    run = PoolRun(module, planned)
    arguments = [np.full(4, 10, np.float32), np.ones(4, np.float32)]
    run.run(arguments)
    assert run.pool.views[0].tolist() == [9, 8, 7, 6]


SWAP = """
  p = f32[4] parameter(0)
  q = f32[4] parameter(1)
  ROOT t = (f32[4], f32[4], f32[4]) tuple(q, p, p)
"""


def test_arguments_that_change_places_are_copied_first():
    aliases = ", input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {}, may-alias) }"
    planned = assert_runs(entry_of(SWAP, aliases))
    nodes = planned.source.graph.nodes
    assert [node.op for node in nodes] == [None, None, "copy", "copy", "_assign", "_assign"]
    assert [*planned.decorated.assign_flags[4:]] == [COPY, IN_PLACE] or [
        *planned.decorated.assign_flags[4:]
    ] == [COPY, COPY]


def test_an_argument_that_is_its_own_output_stays():
    body = "  ROOT p = f32[4] parameter(0)"
    planned = assert_runs(entry_of(body, ", input_output_alias={ {}: (0, {}, may-alias) }"))
    assert len(planned.source.graph.nodes) == 1
    assert planned.source.results == (0,)


def test_an_output_behind_a_bitcast_is_copied_into_its_argument():
    body = """
  p = f32[2,2] parameter(0)
  x = f32[4] parameter(1)
  e = f32[4] negate(x)
  ROOT b = f32[2,2] bitcast(e)
"""
    module = entry_of(body, ", input_output_alias={ {}: (0, {}, may-alias) }")
    assert [n.op for n in assert_runs(module).source.graph.nodes][2:] == ["negate", "_assign"]
    body = body.replace("f32[2,2]", "s8[4,4]")
    module = entry_of(body, ", input_output_alias={ {}: (0, {}, may-alias) }")
    assert [n.op for n in assert_runs(module).source.graph.nodes][2:] == [
        "negate",
        "copy",
        "_assign",
    ]


LOOP = """HloModule m

body {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[4] add(x, x)
  ROOT r = (s32[], f32[4]) tuple(j, y)
}

condition {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT less = pred[] compare(i, n), direction=LT
}

ENTRY e {
  p = f32[4] parameter(0)
  zero = s32[] constant(0)
  x = f32[4] negate(p)
  init = (s32[], f32[4]) tuple(zero, x)
  loop = (s32[], f32[4]) while(init), condition=condition, body=body
  y = f32[4] get-tuple-element(loop), index=1
  ROOT z = f32[4] negate(y)
}
"""


def test_a_loop_is_one_operation():
    planned = assert_runs(parse_hlo(LOOP))
    graph = planned.source.graph
    assert [node.op for node in graph.nodes] == [None, None, "negate", "while", "negate"]
    loop = graph.nodes[3]
    assert loop.own.inplace_pairs == ((0, 0), (1, 1))
    assert loop.own.pattern is Pattern.OPAQUE
    ids = planned.plan.storage_id
    assert planned.plan.inplace_index[graph.first_entry[3]] == NEVER_READ
    assert ids[2] == ids[graph.first_entry[3] + 1] == ids[graph.first_entry[4]]


def test_tokens_take_no_memory():
    body = """
  p = f32[4] parameter(0)
  t = token[] after-all()
  q = f32[4] add-dependency(p, t)
  ROOT r = (f32[4], token[]) tuple(q, t)
"""
    source = nnvm_graph(entry_of(body))
    assert source.results == (0, NO_ENTRY)
    assert source.graph.outputs == ((0, 0),)


def test_results_in_several_memory_spaces():
    body = """
  p = f32[4] parameter(0)
  ROOT c = (f32[4], f32[4]{0:S(1)}) custom-call(p), custom_call_target="both"
"""
    with pytest.raises(UnsupportedOpError, match=r"%c: results in memory spaces \[0, 1\]"):
        nnvm_graph(entry_of(body))
