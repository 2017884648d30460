"""Rules of TensorFlow 1.14's assigner, one small module each."""

from itertools import product

import pytest

from lowtide import parse_hlo
from lowtide.checking import check_plan
from lowtide.ir.buffer import AllocationKind
from lowtide.xla.analysis.ordering import DependencyOrdering, SequentialOrdering
from lowtide.xla.analysis.points_to import points_to_analysis
from lowtide.xla.assigners import AssignerOptions, assign_classic
from lowtide.xla.assigners.buffer_liveness import BufferLiveness
from lowtide.xla.assigners.colocated_sets import colocated_sets, coloured, merged_sets

DIAMOND = """HloModule m, is_scheduled=true, input_output_alias={ {1}: (0, {}, may-alias) }
ENTRY e {
  p = f32[64] parameter(0)
  a = f32[64] negate(p)
  b = f32[64] exponential(p)
  c = f32[64] add(a, b)
  d = f32[64] negate(c)
  ROOT t = (f32[64], f32[64]) tuple(c, d)
}"""

LOOPS = """HloModule m, is_scheduled=true
cond {
  s = (s32[], f32[64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT less = pred[] compare(i, n), direction=LT
}
body {
  s = (s32[], f32[64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  x = f32[64] get-tuple-element(s), index=1
  y = f32[64] sine(x)
  ROOT t = (s32[], f32[64]) tuple(next, y)
}
cond.1 {
  s = (s32[], f32[64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT less = pred[] compare(i, n), direction=LT
}
body.1 {
  s = (s32[], f32[64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  x = f32[64] get-tuple-element(s), index=1
  y = f32[64] cosine(x)
  ROOT t = (s32[], f32[64]) tuple(next, y)
}
ENTRY e {
  p = f32[64] parameter(0)
  zero = s32[] constant(0)
  i = s32[] copy(zero)
  x = f32[64] copy(p)
  s = (s32[], f32[64]) tuple(i, x)
  w = (s32[], f32[64]) while(s), condition=cond, body=body
  y = f32[64] get-tuple-element(w), index=1
  f = f32[1] slice(y), slice={[0:1]}
  j = s32[] copy(zero)
  z = f32[64] copy(p)
  u = (s32[], f32[64]) tuple(j, z)
  v = (s32[], f32[64]) while(u), condition=cond.1, body=body.1
  q = f32[64] get-tuple-element(v), index=1
  g = f32[1] slice(q), slice={[0:1]}
  ROOT r = f32[1] add(f, g)
}"""


def analysed(text, ordering=SequentialOrdering):
    module = parse_hlo(text)
    points_to = points_to_analysis(module)
    computations = list(module.computations.values())
    buffers = [x for x in points_to.buffers if x.nbytes]
    return (
        module,
        points_to,
        computations,
        BufferLiveness(module, ordering(module), points_to, buffers),
    )


def named(buffers):
    return sorted(f"{x.instruction.name}{list(x.index) or ''}" for x in buffers)


def planned(text, ordering=SequentialOrdering, **options):
    module = parse_hlo(text)
    options.setdefault("algorithm", "best-of-runs-and-spatial")
    plan = assign_classic(module, ordering(module), AssignerOptions(**options))
    assert not check_plan(module, plan)
    return plan, {(x.instruction.name, x.index): x.place for x in plan.values}


def test_unordered_readers_of_an_argument_interfere_with_it():
    """In a total order the last reader may take over the argument, in a partial one it may not."""
    for ordering, expected in ((SequentialOrdering, False), (DependencyOrdering, True)):
        module, points_to, _, liveness = analysed(DIAMOND, ordering)
        p, b = [points_to.buffers_defined_by(module.entry.instructions[x])[0] for x in "pb"]
        assert liveness.may_interfere(p, b) is expected
        assert liveness.may_interfere(b, p) is expected


def test_what_leaves_the_program_is_live_to_the_end():
    _, _, _, liveness = analysed(DIAMOND)
    assert named(liveness.live_out) == ["c", "d", "t"]
    values = {x.instruction.name: x for x in liveness.values}
    assert liveness.may_interfere(values["c"], values["d"])


def test_an_output_is_colocated_with_the_argument_that_it_overwrites():
    module, points_to, computations, _ = analysed(DIAMOND)
    assert [named(x) for x in colocated_sets(module, points_to, computations)] == [["d", "p"]]


def test_the_state_of_a_loop_is_colocated_at_each_index():
    module, points_to, computations, _ = analysed(LOOPS)
    sets = [named(x) for x in colocated_sets(module, points_to, computations)]
    assert sets == [
        ["s", "s.1", "s.4", "t", "w"],
        ["i.4", "next", "s.1[0]", "s[0]", "w[0]"],
        ["s.1[1]", "s[1]", "w[1]", "x.2", "y"],
        ["s.2", "s.3", "t.1", "u", "v"],
        ["j", "next.1", "s.2[0]", "s.3[0]", "v[0]"],
        ["s.2[1]", "s.3[1]", "v[1]", "y.1", "z"],
    ]


def test_sets_that_never_interfere_are_merged_whole():
    module, points_to, computations, liveness = analysed(LOOPS)
    sets = colocated_sets(module, points_to, computations)
    merged = merged_sets(sets, liveness, module)
    assert len(merged) == 3
    assert sorted(x.number for members in merged for x in members) == sorted(
        x.number for members in sets for x in members
    )
    assert all(("v[1]" in names) == ("w[1]" in names) for names in map(named, merged))


def test_sets_with_arguments_or_outputs_are_never_merged():
    text = LOOPS.replace("ROOT r = f32[1] add(f, g)", "ROOT r = (f32[64], f32[1]) tuple(y, g)")
    module, points_to, computations, liveness = analysed(text)
    merged = merged_sets(colocated_sets(module, points_to, computations), liveness, module)
    (live_out,) = [named(x) for x in merged if "w[1]" in named(x)]
    assert "v[1]" not in live_out


@pytest.mark.parametrize(
    ("neighbours", "expected"),
    [
        ([], []),
        ([[], [], []], [0, 0, 0]),
        ([[1], [0, 2], [1]], [1, 0, 1]),
        ([[1, 2], [0, 2], [0, 1]], [0, 1, 2]),
    ],
)
def test_a_node_gets_the_least_colour_that_no_neighbour_has(neighbours, expected):
    assert coloured(neighbours) == expected


def test_neighbours_differ_in_colour_and_no_colour_is_needless():
    for edges in product([0, 1], repeat=10):
        pairs = [(i, j) for i in range(5) for j in range(i)]
        chosen = [pair for pair, kept in zip(pairs, edges, strict=True) if kept]
        neighbours = [[b if a == i else a for a, b in chosen if i in (a, b)] for i in range(5)]
        colours = coloured(neighbours)
        for i, around in enumerate(neighbours):
            assert colours[i] not in {colours[j] for j in around}
            assert set(range(colours[i])) <= {colours[j] for j in around}


def test_each_colocated_set_has_an_allocation_of_its_own():
    _, places = planned(LOOPS)
    assert places["w", (1,)] == places["v", (1,)] == places["y", ()]
    assert places["w", (0,)] != places["w", (1,)]


def test_another_buffer_may_lie_in_a_colocated_allocation():
    text = """HloModule m, is_scheduled=true, input_output_alias={ {}: (0, {}, may-alias) }
    ENTRY e {
      p = f32[64] parameter(0)
      a = f32[16] slice(p), slice={[0:16]}
      b = f32[16] reverse(a), dimensions={0}
      c = f32[1] slice(b), slice={[0:1]}
      z = f32[] constant(0)
      ROOT r = f32[64] pad(c, z), padding=0_63
    }"""
    plan, places = planned(text)
    assert plan.allocations[places["b", ()].allocation].kind is AllocationKind.ARGUMENT
    plan, places = planned(text, reuse_colocated=False)
    assert plan.allocations[places["b", ()].allocation].kind is AllocationKind.ARENA


def test_an_output_that_overwrites_an_argument_lies_there():
    plan, places = planned(DIAMOND)
    assert places["d", ()] == places["p", ()]
    assert plan.allocations[places["p", ()].allocation].output == (1,)


def test_a_total_order_needs_no_more_than_dependencies_alone():
    sequential, dependency = planned(LOOPS)[0], planned(LOOPS, DependencyOrdering)[0]
    assert sequential.temp_bytes <= dependency.temp_bytes
    assert [x.whole_module for x in sequential.heap_traces] == [True]
    assert not dependency.heap_traces
