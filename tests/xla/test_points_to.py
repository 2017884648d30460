"""Logical buffers and points-to sets, the vocabulary of TensorFlow 1.14."""

from lowtide.frontend.hlo_text import parse_hlo
from lowtide.xla.analysis.points_to import maybe_live_out_buffers, points_to_analysis

TUPLES = """HloModule m
ENTRY e { p = f32[4] parameter(0)
  n = f32[4] negate(p)
  t = (f32[4], f32[4]) tuple(p, n)
  u = ((f32[4], f32[4]), f32[4]) tuple(t, n)
  g = (f32[4], f32[4]) get-tuple-element(u), index=0
  c = (f32[4], f32[4]) copy(g)
  b = (f32[4], f32[4]) opt-barrier(c)
  ROOT h = f32[4] get-tuple-element(b), index=1 }
"""


def analysed(text):
    module = parse_hlo(text)
    named = {x.name: x for c in module.computations.values() for x in c.instructions.values()}
    return points_to_analysis(module), named


def sets(points_to, instruction):
    """Per index of a result the defining positions of the buffers there."""
    elements = points_to.points_to_set(instruction).elements
    return {
        index: [(x.instruction.name, x.index) for x in found] for index, found in elements.items()
    }


def test_a_tuple_points_to_its_table_and_to_what_its_elements_point_to():
    points_to, named = analysed(TUPLES)
    assert sets(points_to, named["u"]) == {
        (): [("u", ())],
        (0,): [("t", ())],
        (0, 0): [("p", ())],
        (0, 1): [("n", ())],
        (1,): [("n", ())],
    }


def test_a_copy_of_a_tuple_is_shallow_and_a_barrier_passes_everything_on():
    points_to, named = analysed(TUPLES)
    expected = {(): [("c", ())], (0,): [("p", ())], (1,): [("n", ())]}
    assert sets(points_to, named["c"]) == expected
    assert sets(points_to, named["b"]) == expected


def test_buffers_are_defined_once_and_aliased_where_they_are_passed_on():
    points_to, named = analysed(TUPLES)
    defined = [x for i in named.values() for x in points_to.buffers_defined_by(i)]
    assert defined == sorted(defined, key=lambda x: x.number) == list(points_to.buffers)
    assert [str(x) for x in points_to.buffers_defined_by(named["n"])] == ["n[](#1 @0)"]
    (negated,) = points_to.buffers_defined_by(named["n"])
    places = [(x.instruction.name, x.index) for x in points_to.buffer_aliases(negated)]
    assert places == [
        *(("n", ()), ("t", (1,)), ("u", (0, 1)), ("u", (1,)), ("g", (1,)), ("c", (1,))),
        *(("b", (1,)), ("h", ())),
    ]


def test_a_set_is_distinct_where_no_buffer_is_in_it_twice():
    points_to, named = analysed(TUPLES)
    of_u, of_t = points_to.points_to_set(named["u"]), points_to.points_to_set(named["t"])
    assert of_t.is_distinct and not of_u.is_distinct
    assert not of_u.is_ambiguous
    names = [x.instruction.name for x in of_u.create_flattened_set()]
    assert names == ["u", "t", "p", "n"]
    assert of_t.element((1,)) == of_u.element((1,))


def test_what_the_result_of_the_entry_points_to_may_be_live_out():
    points_to, _ = analysed(TUPLES)
    live_out = maybe_live_out_buffers(points_to.module, points_to)
    assert [x.instruction.name for x in live_out] == ["n"]
    root = TUPLES.replace("ROOT h", "h").replace(
        "t = (f32[4], f32[4])", "ROOT t = (f32[4], f32[4])"
    )
    module = parse_hlo(root.split("  u =")[0] + "}")
    assert [str(x.instruction.name) for x in maybe_live_out_buffers(module)] == ["t", "p", "n"]


def test_nothing_flows_through_calls_and_loops():
    points_to, named = analysed(
        """HloModule m
f { x = f32[4] parameter(0)
  ROOT y = (f32[4], f32[4]) tuple(x, x) }
cond { s.c = (f32[4], f32[4]) parameter(0)
  ROOT k = pred[] constant(false) }
body { ROOT s.b = (f32[4], f32[4]) parameter(0) }
ENTRY e { p = f32[4] parameter(0)
  c = (f32[4], f32[4]) call(p), to_apply=f
  ROOT w = (f32[4], f32[4]) while(c), condition=cond, body=body }"""
    )
    for name in ("c", "w", "s.b", "s.c"):
        found = points_to.buffers_defined_by(named[name])
        assert [x.index for x in found] == [(), (0,), (1,)]
    assert points_to.buffers_defined_by(named["x"])


def test_async_start_keeps_its_operands_and_done_passes_the_result_on():
    points_to, named = analysed(
        """HloModule m
f { x = f32[4] parameter(0)
  ROOT y = f32[4] custom-call(x), custom_call_target="f" }
ENTRY e { p = f32[4] parameter(0)
  s = ((f32[4]), f32[4], u32[]) async-start(p), calls=f
  ROOT d = f32[4] async-done(s) }"""
    )
    assert sets(points_to, named["s"])[0, 0] == [("p", ())]
    assert sets(points_to, named["d"]) == {(): [("s", (1,))]}


def test_buffers_are_as_large_as_xla_says():
    points_to, named = analysed(TUPLES)
    sizes = {str(x): x.nbytes for i in ("u", "p") for x in points_to.buffers_defined_by(named[i])}
    assert sizes == {"u[](#3 @0)": 16, "p[](#0 @0)": 16}
    assert "u: {}: u[](#3 @0); {0}: t[](#2 @0); " in str(points_to)
