"""When values are live, as XLA's HloLiveRange has it: times include both ends."""

from itertools import pairwise

import pytest

from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import InvalidModuleError
from lowtide.xla.analysis.hlo_alias import hlo_alias_analysis
from lowtide.xla.analysis.hlo_live_range import hlo_live_range


def live(text):
    """The live ranges of a module, and per label (start, end)."""
    module = parse_hlo(text)
    ranges = hlo_live_range(module, hlo_alias_analysis(module))
    return ranges, {value.label: (x.start, x.end) for value, x in ranges.ranges.items()}


CHAIN = """HloModule m, is_scheduled=true{header}
ENTRY e {{ p = f32[8] parameter(0)
  q = f32[2] parameter(1)
  n = f32[8] negate(p)
  k = f32[8] constant({{1,2,3,4,5,6,7,8}})
  a = f32[8] add(n, k)
  b = f32[8] add(a, n)
  ROOT r = f32[8] negate(b) }}
"""


def test_a_value_lives_from_its_definition_to_its_last_use():
    _, times = live(CHAIN.format(header=""))
    assert times["n"] == (2, 5)
    assert times["a"] == (4, 5)


def test_an_argument_that_no_output_overwrites_lives_to_the_end():
    _, times = live(CHAIN.format(header=""))
    assert times["p"] == (0, 7)
    assert times["q"] == (0, 7)


def test_an_overwritten_argument_lives_to_its_last_use():
    _, times = live(CHAIN.format(header=", input_output_alias={ {}: (0, {}, may-alias) }"))
    assert times["p"] == (0, 2)
    assert times["q"] == (0, 7)


def test_a_constant_lives_to_its_last_use():
    _, times = live(CHAIN.format(header=""))
    assert times["k"] == (3, 4)


def test_a_result_of_the_entry_lives_to_the_time_behind_the_last_instruction():
    ranges, times = live(CHAIN.format(header=""))
    assert times["r"] == (6, 7)
    assert ranges.end == 7


def test_a_value_that_nobody_reads_lives_at_its_definition():
    _, times = live(CHAIN.format(header="").replace("add(a, n)", "add(n, n)"))
    assert times["a"] == (4, 4)


def test_a_position_extends_a_value_even_where_it_is_not_read_there():
    text = """HloModule m, is_scheduled=true
ENTRY e { p = f32[8] parameter(0)
  n = f32[8] negate(p)
  x = f32[8] exponential(p)
  t = (f32[8]) tuple(n)
  ROOT r = f32[8] negate(x) }"""
    _, times = live(text)
    assert times["n"] == (1, 3)
    assert times["t{}"] == (3, 3)


LOOP = """HloModule m, is_scheduled=true
cond { s.c = (s32[], f32[8]) parameter(0)
  i.c = s32[] get-tuple-element(s.c), index=0
  k.c = s32[] constant(3)
  ROOT l.c = pred[] compare(i.c, k.c), direction=LT }
body { s.b = (s32[], f32[8]) parameter(0)
  i.b = s32[] get-tuple-element(s.b), index=0
  x.b = f32[8] get-tuple-element(s.b), index=1
  k.b = s32[] constant(1)
  j.b = s32[] add(i.b, k.b)
  y.b = f32[8] add(x.b, x.b)
  ROOT r.b = (s32[], f32[8]) tuple(j.b, y.b) }
ENTRY e { p = f32[8] parameter(0)
  z = s32[] constant(0)
  zc = s32[] copy(z)
  pc = f32[8] copy(p)
  n = f32[8] negate(p)
  i = (s32[], f32[8]) tuple(zc, pc)
  w = (s32[], f32[8]) while(i), condition=cond, body=body
  x = f32[8] get-tuple-element(w), index=1
  ROOT r = f32[8] add(x, n) }
"""


def test_condition_and_body_stand_before_their_loop():
    ranges, _ = live(LOOP)
    names = [x.name for x in ranges.sequence.instructions]
    assert names.index("i") < names.index("s.c") < names.index("l.c") < names.index("s.b")
    assert names.index("r.b") + 1 == names.index("w")
    spans = {c.name: (x.start, x.end) for c, x in ranges.sequence.spans.items()}
    assert spans == {"cond": (6, 10), "body": (10, 17), "e": (0, 20)}


def test_an_initial_value_gives_way_to_the_state_and_that_to_the_result():
    _, times = live(LOOP)
    assert times["pc"] == (3, 6)
    assert times["s.c{1}"] == (6, 10)
    assert times["s.b{1}"] == (10, 15)
    assert times["y.b"] == (15, 17)
    assert times["w{1}"] == (17, 19)


def test_the_root_of_a_body_lives_to_the_loop():
    _, times = live(LOOP)
    assert times["r.b{}"] == (16, 17)


def test_a_value_used_behind_the_loop_lives_through_it():
    _, times = live(LOOP)
    assert times["n"] == (4, 19)


def test_values_of_one_buffer_touch_and_do_not_overlap():
    module = parse_hlo(LOOP)
    alias = hlo_alias_analysis(module)
    ranges = hlo_live_range(module, alias).ranges
    for buffer in alias.buffers:
        found = sorted([(ranges[v].start, ranges[v].end) for v in buffer.values if v in ranges])
        for before, after in pairwise(found):
            assert before[1] <= after[0]


def test_the_later_of_two_values_that_overlap_lasts_as_long_as_both():
    """`d` is written into `p`, which is read later: what is left is cut and handed over."""
    text = """HloModule m, is_scheduled=true, input_output_alias={ {}: (0, {}, may-alias) }
ENTRY e { p = f32[8] parameter(0)
  u = f32[2] parameter(1)
  i = s32[] constant(0)
  d = f32[8] dynamic-update-slice(p, u, i)
  n = f32[8] negate(d)
  ROOT r = f32[8] add(n, p) }"""
    _, times = live(text)
    assert times["p"] == (0, 3)
    assert times["d"] == (3, 5)
    assert times["r"] == (5, 6)


CALL = """HloModule m, is_scheduled=true
f { x.f = f32[8] parameter(0)
  a.f = f32[8] negate(x.f)
  ROOT b.f = f32[8] negate(a.f) }
ENTRY e { p = f32[8] parameter(0)
  n = f32[8] negate(p)
  c = f32[8] call(n), to_apply=f
  ROOT r = f32[8] negate(c) }
"""


def test_a_callee_stands_before_its_call_and_frees_the_operand_inside():
    ranges, times = live(CALL)
    assert [x.name for x in ranges.sequence.instructions] == [
        *("p", "n", "x.f", "a.f", "b.f", "c", "r")
    ]
    assert times["n"] == (1, 3)
    assert times["b.f"] == (4, 6)


def test_branches_stand_one_behind_the_other():
    text = """HloModule m, is_scheduled=true
one { x.1 = f32[8] parameter(0)
  ROOT y.1 = f32[8] negate(x.1) }
two { x.2 = f32[8] parameter(0)
  ROOT y.2 = f32[8] exponential(x.2) }
ENTRY e { p = f32[8] parameter(0)
  n = f32[8] negate(p)
  k = pred[] constant(true)
  ROOT c = f32[8] conditional(k, n, n), true_computation=one, false_computation=two }"""
    ranges, times = live(text)
    assert [x.name for x in ranges.sequence.instructions][3:] == [
        *("x.1", "y.1", "x.2", "y.2", "c")
    ]
    assert times["n"] == (1, 7)
    assert times["y.1"] == (4, 5)
    assert times["y.2"] == (6, 7)


def test_the_contexts_of_async_operations_live_to_the_done():
    text = """HloModule m, is_scheduled=true
f { x.f = f32[8] parameter(0)
  ROOT y.f = f32[8] custom-call(x.f), custom_call_target="f" }
ENTRY e { p = f32[8] parameter(0)
  s = ((f32[8]), f32[8], u32[]) async-start(p), calls=f
  n = f32[8] negate(p)
  u = ((f32[8]), f32[8], u32[]) async-update(s)
  m = f32[8] negate(n)
  d = f32[8] async-done(u)
  ROOT r = f32[8] add(d, m) }"""
    ranges, times = live(text)
    done = next(t for t, x in enumerate(ranges.sequence.instructions) if x.name == "d")
    assert times["s{2}"] == (3, done)
    assert times["y.f"] == (2, done + 1)


def test_computations_within_kernels_have_no_time():
    text = """HloModule m, is_scheduled=true
f { x.f = f32[8] parameter(0)
  ROOT y.f = f32[8] negate(x.f) }
ENTRY e { p = f32[8] parameter(0)
  ROOT c = f32[8] fusion(p), kind=kLoop, calls=f }"""
    ranges, times = live(text)
    assert set(times) == {"p", "c"}
    assert [x.name for x in ranges.sequence.instructions] == ["p", "c"]


def test_the_peak_is_the_earliest_time_of_most_bytes():
    ranges, _ = live(CHAIN.format(header=""))
    assert ranges.profile == (40, 40, 72, 104, 136, 136, 104, 72)
    assert ranges.peak_moment == 4
    assert [x.label for x in ranges.live_at(4)] == ["q", "p", "n", "k", "a"]


def test_the_text_is_that_of_xla():
    ranges, _ = live(CHAIN.format(header=""))
    assert str(ranges) == (
        "HloLiveRange (max 7):\n  InstructionSequence:\n"
        "    0:p\n    1:q\n    2:n\n    3:k\n    4:a\n    5:b\n    6:r\n"
        "  BufferLiveRange:\n    q{}:0-7\n    p{}:0-7\n    n{}:2-5\n    k{}:3-4\n    a{}:4-5\n"
        "    b{}:5-6\n    r{}:6-7\n"
        "  Live ranges at 4 (peak):\n    q{}: 8 bytes\n    p{}: 32 bytes\n    n{}: 32 bytes\n"
        "    k{}: 32 bytes\n    a{}: 32 bytes\n"
    )


def test_a_computation_without_an_order_is_an_error():
    module = parse_hlo(CALL.replace(", is_scheduled=true", ""))
    with pytest.raises(InvalidModuleError, match="computation e has no order of execution"):
        hlo_live_range(module, hlo_alias_analysis(module))


def test_a_callee_with_two_callers_is_an_error():
    text = CALL.replace("ROOT r = f32[8] negate(c)", "ROOT r = f32[8] call(c), to_apply=f")
    module = parse_hlo(text)
    with pytest.raises(InvalidModuleError, match="computation f runs from several places"):
        hlo_live_range(module, hlo_alias_analysis(module))
