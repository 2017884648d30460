"""Loops of independent steps: many at a time, the same bits, little memory; others stay."""

import numpy as np
import pytest
from tests.ways_to_run import run, run_emulated, run_native

from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import Opcode
from lowtide.ir.literal import DTYPES
from lowtide.transforms.control_flow import while_independent_steps
from lowtide.transforms.control_flow.while_independent_steps import run_steps_together
from lowtide.verifier import verify

SUM = "sum { a = f32[] parameter(0)\nb = f32[] parameter(1)\nROOT c = f32[] add(a, b) }"
LAST = "last { a = f32[] parameter(0)\nROOT b = f32[] parameter(1) }"


def _text(carried, step, results, given, *, count, outside="", start=0, by=1):
    """A loop of `count` steps over a counter and what `carried` says, all of it arguments.

    Element k is read as `b<k>` in a step, 0 is the counter; `results` are those from 1 on.
    """
    shapes = ["s32[]", *carried]
    state = f"({', '.join(shapes)})"
    read = [f"b{k} = {x} get-tuple-element(b), index={k}" for k, x in enumerate(shapes)]
    entry = [f"x{k} = {x} parameter({k - 1})" for k, x in enumerate(shapes) if k]
    return "\n".join(
        [
            "HloModule m",
            outside,
            f"more {{ c = {state} parameter(0)",
            "i = s32[] get-tuple-element(c), index=0",
            f"n = s32[] constant({start + by * count})",
            "ROOT r = pred[] compare(i, n), direction=NE }",
            f"body {{ b = {state} parameter(0)",
            *read,
            f"by = s32[] constant({by})",
            "next = s32[] add(b0, by)",
            "zero = s32[] constant(0)",
            step,
            f"ROOT r = {state} tuple(next, {results}) }}",
            "ENTRY main {",
            *entry,
            f"start = s32[] constant({start})",
            f"given = {state} tuple(start, {', '.join(f'x{k}' for k in range(1, len(shapes)))})",
            f"ROOT loop = {state} while(given), condition=more, body=body }}",
        ]
    )


def _arrays(text):
    """An argument of mixed numbers for each parameter, with a NaN and infinities among floats."""
    found = []
    for seed, x in enumerate(parse_hlo(text).entry.parameters):
        draw = np.random.default_rng(seed)
        if x.shape.element_type.is_floating:
            values = draw.standard_normal(x.shape.dimensions).astype(np.float32) * 3
            values.flat[:3] = [np.nan, np.inf, -np.inf][: values.size]
        else:
            values = draw.integers(-40, 40, x.shape.dimensions)
            values = values.astype(DTYPES[x.shape.element_type])
        found.append(values)
    return found


def _compare(text, *, exact=True, changes=1, runs=(run, run_native)):
    """The loop before and after the pass: the same arrays, in the evaluator and natively."""
    module, given = parse_hlo(text), _arrays(text)
    assert run_steps_together(module) == changes
    verify(module)
    with np.errstate(all="ignore"):
        expected = run(text, given)
        for way in runs:
            for a, b in zip(way(str(module), given), expected, strict=True):
                if exact or a.dtype != np.float32:
                    np.testing.assert_array_equal(a, b)
                else:
                    np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3)
    return module


def _loops(module):
    return [x for c in module.computations.values() for x in c.instructions.values() if _is_loop(x)]


def _is_loop(x):
    return x.opcode is Opcode.WHILE


POLYNOMIAL = """
s = f32[1] dynamic-slice(b2, b0), dynamic_slice_sizes={1}
a = f32[] reshape(s)
q = f32[] multiply(a, a)
p = f32[] multiply(q, a)
o = f32[] add(p, q)
e = f32[] divide(o, a)
f = f32[] subtract(e, p)
u = f32[1] reshape(f)
w = f32[N] dynamic-update-slice(b1, u, b0)
"""


@pytest.mark.parametrize("count", [2, 7, 64, 203, 3001])
def test_elementwise_steps_run_at_once_or_many_at_a_time(count):
    step = POLYNOMIAL.replace("N", str(count))
    shape = f"f32[{count}]"
    module = _compare(_text([shape, shape], step, "w, b2", 0, count=count))
    assert len(_loops(module)) == (count > 2000)


def test_steps_backwards_write_where_they_did():
    step = POLYNOMIAL.replace("N", "65")
    text = _text(["f32[65]", "f32[65]"], step, "w, b2", 0, count=65, start=64, by=-1)
    assert not _loops(_compare(text))


def test_steps_of_a_part_leave_the_rest():
    step = POLYNOMIAL.replace("N", "65")
    _compare(_text(["f32[65]", "f32[65]"], step, "w, b2", 0, count=50, start=9))


def test_a_slice_along_the_last_dimension_comes_from_there(monkeypatch):
    monkeypatch.setattr(while_independent_steps, "_GAIN", 0)
    step = """
    s = f32[5,1] dynamic-slice(b2, zero, b0), dynamic_slice_sizes={5,1}
    q = f32[5,1] multiply(s, s)
    o = f32[5,1] add(q, s)
    e = f32[5,1] divide(o, q)
    w = f32[5,33] dynamic-update-slice(b1, e, zero, b0)
    """
    _compare(_text(["f32[5,33]", "f32[5,33]"], step, "w, b2", 0, count=33))


# -- what a step reads of its own slice ------------------------------------------------------------

IN_PLACE = """
s = f32[1] dynamic-slice(b1, b0), dynamic_slice_sizes={1}
q = f32[1] multiply(s, s)
o = f32[1] add(q, s)
p = f32[1] multiply(o, s)
w = f32[N] dynamic-update-slice(b1, p, b0)
"""


@pytest.mark.parametrize(("count", "loops"), [(96, 0), (8192, 1)])
def test_steps_in_place_read_what_was_there(count, loops):
    step = IN_PLACE.replace("N", str(count))
    assert len(_loops(_compare(_text([f"f32[{count}]"], step, "w", 0, count=count)))) == loops


def test_steps_in_place_are_done_once():
    # A prime number of steps has no equal rounds, and none may be done twice.
    step = IN_PLACE.replace("N", "8191")
    _compare(_text(["f32[8191]"], step, "w", 0, count=8191), changes=0, runs=())


@pytest.mark.parametrize("place", ["zero", "by", "next"])
def test_a_step_that_reads_another_slice_stays(place):
    step = IN_PLACE.replace("N", "96").replace("slice(b1, b0)", f"slice(b1, {place})")
    _compare(_text(["f32[96]"], step, "w", 0, count=95), changes=0, runs=())


def test_a_step_that_needs_the_one_before_stays():
    step = POLYNOMIAL.replace("N", "64").replace("q = f32[] multiply(a, a)", "q = f32[] add(a, b3)")
    text = _text(["f32[64]", "f32[64]", "f32[]"], step, "w, b2, q", 0, count=64)
    _compare(text, changes=0, runs=())


def test_a_place_beyond_the_array_stays():
    # The last steps are clamped: they write one element again and again.
    step = POLYNOMIAL.replace("N", "64")
    _compare(_text(["f32[64]", "f32[64]"], step, "w, b2", 0, count=70), changes=0, runs=())


def test_an_overwriting_scatter_is_a_slice():
    step = """
    s = f32[1] dynamic-slice(b1, b0), dynamic_slice_sizes={1}
    a = f32[] reshape(s)
    q = f32[] multiply(a, a)
    o = f32[] add(q, a)
    p = f32[] divide(o, q)
    i = s32[1] broadcast(b0), dimensions={}
    w = f32[77] scatter(b1, i, p), update_window_dims={}, inserted_window_dims={0}, \
scatter_dims_to_operand_dims={0}, index_vector_dim=0, to_apply=last
    """
    assert not _loops(_compare(_text(["f32[77]"], step, "w", 0, count=77, outside=LAST)))


# -- sums over the steps ---------------------------------------------------------------------------


@pytest.mark.parametrize("opcode", ["add", "multiply", "and", "xor", "maximum", "minimum"])
@pytest.mark.parametrize("count", [60, 1200])
def test_totals_of_whole_numbers_are_exact(opcode, count):
    step = f"""
    s = s32[1] dynamic-slice(b1, b0), dynamic_slice_sizes={{1}}
    a = s32[] reshape(s)
    q = s32[] multiply(a, a)
    o = s32[] subtract(q, b0)
    t = s32[] {opcode}(b2, o)
    """
    _compare(_text([f"s32[{count}]", "s32[]"], step, "b1, t", 0, count=count))


def test_a_sum_of_floats_keeps_its_order():
    step = """
    s = f32[1] dynamic-slice(b1, b0), dynamic_slice_sizes={1}
    a = f32[] reshape(s)
    t = f32[] add(b2, a)
    """
    _compare(_text(["f32[64]", "f32[]"], step, "b1, t", 0, count=64), changes=0, runs=())


# -- operations of a step --------------------------------------------------------------------------

HEAVY = "y2 = f32[8] multiply(y, y)\ny3 = f32[8] multiply(y2, y)\ny4 = f32[8] subtract(y3, y)"
ROWS = [
    ("g = f32[8] reverse(v), dimensions={0}", True),
    ("g0 = f32[4] slice(v), slice={[0:8:2]}\nz = f32[] constant(1)\n"
     "g = f32[8] pad(g0, z), padding=1_3", True),
    ("g0 = f32[2,4] reshape(v)\ng1 = f32[4,2] transpose(g0), dimensions={1,0}\n"
     "g = f32[8] reshape(g1)", True),
    ("z = f32[] constant(0)\ng0 = f32[] reduce(v, z), dimensions={0}, to_apply=sum\n"
     "g = f32[8] broadcast(g0), dimensions={}", False),
    ("z = f32[] constant(0)\ng = f32[8] reduce-window(v, z), window={size=3 pad=1_1}, "
     "to_apply=sum", False),
    ("g = f32[8] dot(v, b3), lhs_contracting_dims={0}, rhs_contracting_dims={0}", False),
    ("g = f32[8] dot(b3, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}", False),
    ("m = f32[8,8] multiply(b3, b3)\nh = f32[8,8] broadcast(v), dimensions={0}\n"
     "k = f32[8,8] add(m, h)\n"
     "g = f32[8] dot(k, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}", False),
    ("c = s32[] multiply(b0, by)\nk = s32[] remainder(c, seven)\n"
     "g0 = f32[1,8] dynamic-slice(b3, k, zero), dynamic_slice_sizes={1,8}\n"
     "g = f32[8] reshape(g0)", True),
    ("k = s32[] remainder(b0, seven)\ng0 = f32[2] dynamic-slice(v, k), dynamic_slice_sizes={2}\n"
     "g1 = f32[2,4] broadcast(g0), dimensions={0}\ng = f32[8] reshape(g1)", True),
    ("k = s32[] remainder(b0, seven)\nj = s32[2] broadcast(k), dimensions={}\n"
     "g0 = f32[2,4] gather(b3, j), offset_dims={1}, collapsed_slice_dims={0}, "
     "start_index_map={0}, index_vector_dim=1, slice_sizes={1,4}\ng = f32[8] reshape(g0)", True),
    ("j = s32[8] constant({7, 0, 3, 3, 99, -5, 1, 2})\n"
     "g = f32[8] gather(v, j), offset_dims={}, collapsed_slice_dims={0}, "
     "start_index_map={0}, index_vector_dim=1, slice_sizes={1}", True),
    ("k = s32[] remainder(b0, seven)\nj = s32[8] broadcast(k), dimensions={}\n"
     "g = f32[8] gather(v, j), offset_dims={}, collapsed_slice_dims={0}, "
     "start_index_map={0}, index_vector_dim=1, slice_sizes={1}", True),
    ("t = pred[] compare(b0, seven), direction=LT\nn = f32[8] negate(v)\n"
     "t8 = pred[8] broadcast(t), dimensions={}\ng = f32[8] select(t8, n, v)", True),
    ("m = s32[] subtract(b0, b0)\nt = pred[] compare(m, b0), direction=GT\n"
     "k = s32[] add(b0, seven)\nj = s32[] select(t, k, b0)\n"
     "f = f32[] convert(j)\nf8 = f32[8] broadcast(f), dimensions={}\ng = f32[8] add(f8, v)", True),
]  # fmt: skip


@pytest.mark.parametrize("count", [33, 700])
@pytest.mark.parametrize("number", range(len(ROWS)))
def test_rows_of_a_step(number, count, monkeypatch):
    monkeypatch.setattr(while_independent_steps, "_GAIN", 0)  # also where the loop is as fast
    lines, exact = ROWS[number]
    step = f"""
    seven = s32[] constant(7)
    s = f32[1,8] dynamic-slice(b2, b0, zero), dynamic_slice_sizes={{1,8}}
    v = f32[8] reshape(s)
    {lines}
    y = f32[8] add(g, v)
    {HEAVY}
    u = f32[1,8] reshape(y4)
    w = f32[{count},8] dynamic-update-slice(b1, u, b0, zero)
    """
    rows = f"f32[{count},8]"
    text = _text([rows, rows, "f32[8,8]"], step, "w, b2, b3", 0, count=count, outside=SUM)
    _compare(text, exact=exact)


@pytest.mark.parametrize(
    ("update", "window", "inserted", "is_slice"),
    [
        ("f32[4]", "0", "0", True),
        ("f32[1,4]", "0,1", "", True),
        ("f32[4]", "0", "1", False),  # four rows of the first column
        ("f32[4,1]", "0,1", "", False),
    ],
)
def test_a_scatter_writes_a_slice_where_its_window_is_one(
    update, window, inserted, is_slice, monkeypatch
):
    monkeypatch.setattr(while_independent_steps, "_GAIN", 0)
    step = f"""
    s = f32[1,4] dynamic-slice(b2, b0, zero), dynamic_slice_sizes={{1,4}}
    q = f32[1,4] multiply(s, s)
    u = {update} reshape(q)
    j = s32[1] reshape(b0)
    w = f32[40,4] scatter(b1, j, u), update_window_dims={{{window}}}, inserted_window_dims={{{inserted}}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=0, to_apply=last
    """  # noqa: E501
    rows = ["f32[40,4]", "f32[40,4]"]
    text = _text(rows, step, "w, b2", 0, count=36, outside=LAST)
    _compare(text, changes=int(is_slice))


@pytest.mark.parametrize("type_", ["s8", "u8", "s16", "u16", "u32", "s64", "u64"])
@pytest.mark.parametrize("count", [17, 100])
def test_numbers_of_all_types_count_backwards(type_, count, monkeypatch):
    monkeypatch.setattr(while_independent_steps, "_GAIN", 0)
    monkeypatch.setattr(while_independent_steps, "_LEAST_BYTES", 64)
    step = f"""
    i = {type_}[] convert(b0)
    most = {type_}[] constant({count - 1})
    two = {type_}[] constant(2)
    far = {type_}[] constant({min(2 * count, 127)})
    j = {type_}[] subtract(most, i)
    s = f32[1] dynamic-slice(b2, j), dynamic_slice_sizes={{1}}
    k = {type_}[] subtract(far, i)
    f = f32[] convert(k)
    v = f32[1] reshape(f)
    y = f32[1] multiply(s, v)
    {HEAVY.replace("f32[8]", "f32[1]")}
    w = f32[{count}] dynamic-update-slice(b1, y4, j)
    """
    text = _text([f"f32[{count}]"] * 2, step, "w, b2", 0, count=count)
    _compare(text)


@pytest.mark.parametrize(
    ("result", "lines"),
    [
        ("u8[40,4]", "c = u8[4] bitcast-convert(e)\nu = u8[1,4] reshape(c)"),
        ("s32[40,1]", "c = s32[] bitcast-convert(e)\nu = s32[1,1] reshape(c)"),
        ("f32[40,1]", "h = u16[2] bitcast-convert(e)\nd = u16[2] add(h, h)\n"
         "c = f32[] bitcast-convert(d)\nu = f32[1,1] reshape(c)"),
    ],
)  # fmt: skip
def test_bits_of_a_step_are_read_otherwise(result, lines):
    step = f"""
    a = f32[] convert(b0)
    e0 = f32[] cosine(a)
    e1 = f32[] multiply(e0, a)
    e = f32[] cosine(e1)
    {lines}
    w = {result} dynamic-update-slice(b1, u, b0, zero)
    """
    assert not _loops(_compare(_text([result, "f32[40]"], step, "w, b2", 0, count=40)))


def test_a_map_of_a_step_stays():
    step = POLYNOMIAL.replace("N", "9") + "m = f32[1] map(u), dimensions={0}, to_apply=sin"
    step = step.replace("dynamic-update-slice(b1, u,", "dynamic-update-slice(b1, m,")
    *before, write, apply = step.strip().splitlines()
    outside = "sin { a = f32[] parameter(0)\nROOT b = f32[] sine(a) }"
    text = _text(
        ["f32[9]"] * 2, "\n".join([*before, apply, write]), "w, b2", 0, count=9, outside=outside
    )
    _compare(text, changes=0)


def test_what_nobody_knows_for_many_steps_stays():
    step = """
    s = f32[1,8] dynamic-slice(b2, b0, zero), dynamic_slice_sizes={1,8}
    v = f32[8] reshape(s)
    c = f32[8] custom-call(v), custom_call_target="unknown"
    u = f32[1,8] reshape(c)
    w = f32[33,8] dynamic-update-slice(b1, u, b0, zero)
    """
    module = parse_hlo(_text(["f32[33,8]", "f32[33,8]"], step, "w, b2", 0, count=33))
    assert run_steps_together(module) == 0


# -- loops within a step ---------------------------------------------------------------------------

HALVING = """
again { c = (f32[], s32[]) parameter(0)
  x = f32[] get-tuple-element(c), index=0
  n = s32[] get-tuple-element(c), index=1
  k = s32[] constant(50)
  a = pred[] compare(n, k), direction=LT
  t = f32[] constant(0.01)
  p = pred[] compare(x, t), direction=GT
  ROOT r = pred[] and(a, p) }
halve { c = (f32[], s32[]) parameter(0)
  x = f32[] get-tuple-element(c), index=0
  n = s32[] get-tuple-element(c), index=1
  one = s32[] constant(1)
  m = s32[] add(n, one)
  h = f32[] constant(0.6)
  y = f32[] multiply(x, h)
  ROOT r = (f32[], s32[]) tuple(y, m) }
"""


@pytest.mark.parametrize("ways", [(run, run_native), (run_emulated,)])
@pytest.mark.parametrize(("element", "type_"), [(0, "f32"), (1, "s32")])
@pytest.mark.parametrize("count", [5, 203])
def test_each_lane_goes_on_until_it_is_done(element, type_, count, ways):
    step = f"""
    s = f32[1] dynamic-slice(b2, b0), dynamic_slice_sizes={{1}}
    a = f32[] reshape(s)
    g = (f32[], s32[]) tuple(a, zero)
    l = (f32[], s32[]) while(g), condition=again, body=halve
    e = {type_}[] get-tuple-element(l), index={element}
    u = {type_}[1] reshape(e)
    w = {type_}[{count}] dynamic-update-slice(b1, u, b0)
    """
    carried = [f"{type_}[{count}]", f"f32[{count}]"]
    module = _compare(_text(carried, step, "w, b2", 0, count=count, outside=HALVING), runs=ways)
    assert len(_loops(module)) == 1


def test_a_loop_that_divides_whole_numbers_stays():
    # Such divisions are done lane by lane, those of lanes that are done too.
    outside = HALVING.replace("m = s32[] add(n, one)", "m = s32[] divide(n, one)")
    step = """
    s = f32[1] dynamic-slice(b2, b0), dynamic_slice_sizes={1}
    a = f32[] reshape(s)
    g = (f32[], s32[]) tuple(a, zero)
    l = (f32[], s32[]) while(g), condition=again, body=halve
    e = f32[] get-tuple-element(l), index=0
    u = f32[1] reshape(e)
    w = f32[9] dynamic-update-slice(b1, u, b0)
    """
    module = parse_hlo(_text(["f32[9]", "f32[9]"], step, "w, b2", 0, count=9, outside=outside))
    assert run_steps_together(module) == 0


# -- memory ----------------------------------------------------------------------------------------

STORED = """
s = f32[1,8] dynamic-slice(b2, b0, zero), dynamic_slice_sizes={1,8}
v = f32[8] reshape(s)
g = f32[8] dot(v, b3), lhs_contracting_dims={0}, rhs_contracting_dims={0}
y = f32[8] dot(g, b3), lhs_contracting_dims={0}, rhs_contracting_dims={0}
u = f32[1,8] reshape(y)
w = f32[N,8] dynamic-update-slice(b1, u, b0, zero)
"""


@pytest.mark.parametrize("count", [999, 1000])
def test_what_steps_store_is_a_small_part_of_what_is_carried(count, monkeypatch):
    monkeypatch.setattr(while_independent_steps, "_GAIN", 0)
    rows = f"f32[{count},8]"
    step = STORED.replace("N", str(count))
    text = _text([rows, rows, "f32[8,8]"], step, "w, b2, b3", 0, count=count)
    module = _compare(text, exact=False)
    (loop,) = _loops(module)
    body = loop.called_computations[1]
    most = max(1024, loop.shape.nbytes // 16)
    stored = [x.shape.nbytes for x in body.instructions.values() if x.opcode is Opcode.DOT]
    assert 0 < sum(stored) <= most


def test_large_rows_stay_a_loop():
    # A row fills vectors, and many of them at once would take memory.
    step = """
    s = f32[1,4096] dynamic-slice(b2, b0, zero), dynamic_slice_sizes={1,4096}
    q = f32[1,4096] multiply(s, s)
    p = f32[1,4096] multiply(q, s)
    w = f32[8,4096] dynamic-update-slice(b1, p, b0, zero)
    """
    text = _text(["f32[8,4096]", "f32[8,4096]"], step, "w, b2", 0, count=8)
    assert run_steps_together(parse_hlo(text)) == 0
