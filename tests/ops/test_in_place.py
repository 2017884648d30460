import pytest

from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ops.in_place import in_place_pairs
from lowtide.ops.may_share import may_share, sharing_pairs
from lowtide.ops.overwriting import reads_other_elements

CALLEES = """
drawn { x = u32[8] parameter(0)
 y = u32[8] parameter(1)
 z = u32[8] xor(x, y)
 ROOT f = f32[8] convert(z) }
drawn_from_its_neighbour { x = u32[8] parameter(0)
 y = u32[8] parameter(1)
 r = u32[8] reverse(y), dimensions={0}
 z = u32[8] xor(x, r)
 ROOT f = f32[8] convert(z) }
red { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT r = f32[] add(a, b) }
red2 { a = f32[] parameter(0)
 b = f32[] parameter(1)
 c = f32[] parameter(2)
 d = f32[] parameter(3)
 ROOT r = (f32[], f32[]) tuple(a, b) }
cmp { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT r = pred[] compare(a, b), direction=LT }
cond { a = (f32[8], f32[8]) parameter(0)
 ROOT n = pred[] constant(0) }
body { ROOT a = (f32[8], f32[8]) parameter(0) }
neg { a = f32[8] parameter(0)
 ROOT r = f32[8] negate(a) }
update { p0 = f32[8] parameter(0)
 p1 = f32[2] parameter(1)
 p2 = s32[] parameter(2)
 ROOT r = f32[8] dynamic-update-slice(p0, p1, p2) }
update_of_bitcast { p0 = (f32[2,4], f32[8]) parameter(0)
 p1 = f32[2] parameter(1)
 p2 = s32[] parameter(2)
 g = f32[2,4] get-tuple-element(p0), index=0
 b = f32[8] bitcast(g)
 u = f32[8] dynamic-update-slice(b, p1, p2)
 h = f32[8] get-tuple-element(p0), index=1
 n = f32[8] negate(h)
 ROOT r = (f32[8], f32[8]) tuple(n, u) }
nested { p0 = f32[2] parameter(0)
 p1 = f32[8] parameter(1)
 p2 = s32[] parameter(2)
 f = f32[8] fusion(p1, p0, p2), kind=kLoop, calls=update
 ROOT r = f32[8] dynamic-update-slice(f, p0, p2) }
nested_read_before { p0 = f32[8] parameter(0)
 p1 = f32[2] parameter(1)
 p2 = s32[] parameter(2)
 s = f32[2] slice(p0), slice={[5:7]}
 f = f32[8] fusion(p0, s, p2), kind=kLoop, calls=update
 ROOT r = f32[8] dynamic-update-slice(f, p1, p2) }
with_itself { p0 = f32[8] parameter(0)
 p1 = s32[] parameter(1)
 ROOT r = f32[8] dynamic-update-slice(p0, p0, p1) }
difference { p0 = f32[8] parameter(0)
 p1 = f32[8] parameter(1)
 ROOT r = f32[8] subtract(p0, p1) }
updated_twice { p0 = f32[8] parameter(0)
 p1 = f32[2] parameter(1)
 p2 = s32[] parameter(2)
 r = f32[8] dynamic-update-slice(p0, p1, p2)
 ROOT t = (f32[8], f32[8]) tuple(r, r) }
slice_at_the_end { p0 = f32[8] parameter(0)
 z = s32[] constant(9)
 s = f32[2] slice(p0), slice={[6:8]}
 n = f32[2] negate(s)
 ROOT r = f32[8] dynamic-update-slice(p0, n, z) }
turned { p0 = f32[2,2] parameter(0)
 p1 = s32[] parameter(1)
 s = f32[2,2] dynamic-slice(p0, p1, p1), dynamic_slice_sizes={2,2}
 b = f32[2,2] broadcast(s), dimensions={1,0}
 ROOT r = f32[2,2] dynamic-update-slice(p0, b, p1, p1) }
computed { p0 = f32[8] parameter(0)
 p1 = f32[2] parameter(1)
 p2 = s32[] parameter(2)
 n = f32[8] negate(p0)
 ROOT r = f32[8] dynamic-update-slice(n, p1, p2) }
loop { p0 = f32[8] parameter(0)
 p1 = f32[8] parameter(1)
 n = f32[8] negate(p0)
 v = f32[8] reverse(p1), dimensions={0}
 ROOT r = f32[8] add(n, v) }
mirrored { p0 = f32[8] parameter(0)
 p1 = f32[2] parameter(1)
 p2 = s32[] parameter(2)
 v = f32[8] reverse(p0), dimensions={0}
 s = f32[2] dynamic-slice(v, p2), dynamic_slice_sizes={2}
 ROOT r = f32[8] dynamic-update-slice(p0, s, p2) }
own_slice { p0 = f32[8] parameter(0)
 p1 = f32[2] parameter(1)
 p2 = s32[] parameter(2)
 s = f32[2] dynamic-slice(p0, p2), dynamic_slice_sizes={2}
 a = f32[1,2] reshape(s)
 b = f32[2] reshape(a)
 ROOT r = f32[8] dynamic-update-slice(p0, b, p2) }
old_and_new { p0 = f32[8] parameter(0)
 p1 = f32[2] parameter(1)
 p2 = s32[] parameter(2)
 r = f32[8] dynamic-update-slice(p0, p1, p2)
 ROOT t = (f32[8], f32[8]) tuple(r, p0) }
scatter_of_itself { p0 = f32[8] parameter(0)
 p1 = s32[8,1] parameter(1)
 ROOT r = f32[8] scatter(p0, p1, p0), @scatter, to_apply=red }
two_scatters { p0 = f32[8] parameter(0)
 p1 = s32[8,1] parameter(1)
 p2 = f32[8] parameter(2)
 n = f32[8] negate(p2)
 ROOT r = (f32[8], f32[8]) scatter(p0, p2, p1, n, n), @scatter, to_apply=red2 }
affine_with_bias { p0 = f32[8,4] parameter(0)
 p1 = f32[4,4] parameter(1)
 p2 = f32[8,4] parameter(2)
 p3 = f32[8,4] parameter(3)
 d = f32[8,4] dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
 s = f32[8,4] add(p2, d)
 ROOT r = f32[8,4] add(s, p3) }
affine_read_again { p0 = f32[8,4] parameter(0)
 p1 = f32[4,4] parameter(1)
 p2 = f32[8,4] parameter(2)
 d = f32[8,4] dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
 s = f32[8,4] add(p2, d)
 e = f32[8,4] exponential(p2)
 ROOT r = f32[8,4] add(s, e) }
affine_sum_read_again { p0 = f32[8,4] parameter(0)
 p1 = f32[4,4] parameter(1)
 p2 = f32[8,4] parameter(2)
 d = f32[8,4] dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
 s = f32[8,4] add(p2, d)
 e = f32[8,4] exponential(s)
 ROOT r = f32[8,4] add(s, e) }
affine { p0 = f32[8,4] parameter(0)
 p1 = f32[4,4] parameter(1)
 p2 = f32[8,4] parameter(2)
 d = f32[8,4] dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
 ROOT r = f32[8,4] add(d, p2) }
"""

SCATTER = (
    "update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
    "index_vector_dim=1"
)
SCATTER_ROWS = SCATTER.replace("update_window_dims={}", "update_window_dims={1}")
CALLEES = CALLEES.replace("@scatter", SCATTER)
V = "f32[8]"
WITH_EPILOGUE = 'backend_config={"kernel":"epilogue"}'

MUST = [
    ([V, "f32[2]", "s32[]"], f"{V} dynamic-update-slice(p0, p1, p2)", [((0, ()), ())]),
    ([V, "s32[]"], "f32[<=8] set-dimension-size(p0, p1), dimensions={0}", [((0, ()), ())]),
    (
        [V, "s32[3,1]", "f32[3]"],
        f"{V} scatter(p0, p1, p2), {SCATTER}, to_apply=red",
        [((0, ()), ())],
    ),
    (
        [V, V, "s32[3,1]", "f32[3]", "f32[3]"],
        f"({V},{V}) scatter(p0, p1, p2, p3, p4), {SCATTER}, to_apply=red2",
        [((0, ()), (0,)), ((1, ()), (1,))],
    ),
    (
        [V, V],
        f"({V},{V}) all-reduce-start(p0, p1), to_apply=red",
        [((0, ()), (0,)), ((1, ()), (1,))],
    ),
    ([V], f"{V} all-reduce(p0), to_apply=red", []),
    ([V, V], f"{V} add(p0, p1)", []),
    (
        [V, V],
        f'({V},{V}) custom-call(p0, p1), custom_call_target="x", '
        "output_to_operand_aliasing={{1}: (0, {})}",
        [((0, ()), (1,))],
    ),
    ([V, "f32[2]", "s32[]"], f"{V} fusion(p0, p1, p2), kind=kLoop, calls=update", [((0, ()), ())]),
    (
        [f"(f32[2,4],{V})", "f32[2]", "s32[]"],
        f"({V},{V}) fusion(p0, p1, p2), kind=kLoop, calls=update_of_bitcast",
        [((0, (0,)), (1,))],
    ),
    (["f32[2]", V, "s32[]"], f"{V} fusion(p0, p1, p2), kind=kLoop, calls=nested", [((1, ()), ())]),
    ([V, "f32[2]", "s32[]"], f"{V} fusion(p0, p1, p2), kind=kLoop, calls=computed", []),
    ([V, "f32[2]", "s32[]"], f"{V} fusion(p0, p1, p2), kind=kLoop, calls=mirrored", []),
    ([V, "f32[2]", "s32[]"], f"{V} fusion(p0, p1, p2), kind=kLoop, calls=nested_read_before", []),
    ([V], f"{V} fusion(p0), kind=kLoop, calls=slice_at_the_end", [((0, ()), ())]),
    (["f32[2,2]", "s32[]"], "f32[2,2] fusion(p0, p1), kind=kLoop, calls=turned", []),
    ([V, "s32[]"], f"(({V},s32[]),{V},u32[]) async-start(p0, p1), calls=with_itself", []),
    (
        [V, "f32[2]", "s32[]"],
        f"({V},{V}) fusion(p0, p1, p2), kind=kLoop, calls=updated_twice",
        [((0, ()), (0,))],
    ),
    (
        ["f32[4,6]{0,1}", "s32[3,1]", "f32[3,6]"],
        f"f32[4,6]{{1,0}} scatter(p0, p1, p2), {SCATTER_ROWS}, to_apply=red",
        [],
    ),
    (
        [V, "f32[2]", "s32[]"],
        f"{V} fusion(p0, p1, p2), kind=kLoop, calls=own_slice",
        [((0, ()), ())],
    ),
    ([V, "f32[2]", "s32[]"], f"({V},{V}) fusion(p0, p1, p2), kind=kLoop, calls=old_and_new", []),
    ([V, "s32[8,1]"], f"{V} fusion(p0, p1), kind=kInput, calls=scatter_of_itself", []),
    (
        [V, "s32[8,1]", V],
        f"({V},{V}) fusion(p0, p1, p2), kind=kInput, calls=two_scatters",
        [((0, ()), (0,))],
    ),
    (
        ["f32[4,6]{0,1}", "f32[2,6]", "s32[]"],
        "f32[4,6]{1,0} dynamic-update-slice(p0, p1, p2, p2)",
        [],
    ),
    (
        ["f32[4,1]{0,1}", "f32[2,1]", "s32[]"],
        "f32[4,1]{1,0} dynamic-update-slice(p0, p1, p2, p2)",
        [((0, ()), ())],
    ),
    (
        [V, "f32[2]", "s32[]"],
        f"(({V},f32[2],s32[]),{V},u32[]) async-start(p0, p1, p2), calls=update",
        [((0, ()), (1,))],
    ),
]


def root_of(parameters, right_side):
    lines = [f" p{i} = {shape} parameter({i})\n" for i, shape in enumerate(parameters)]
    text = f"HloModule m\n{CALLEES}\nENTRY e {{\n{''.join(lines)} ROOT r = {right_side}\n}}\n"
    return parse_hlo(text).entry.root


@pytest.mark.parametrize(("parameters", "right_side", "pairs"), MUST)
def test_pairs_that_must_share(parameters, right_side, pairs):
    assert list(in_place_pairs(root_of(parameters, right_side))) == pairs


MAY = [
    ([V, V], f"{V} add(p0, p1)", [((0, ()), ()), ((1, ()), ())]),
    (["pred[]", V, V], f"{V} select(p0, p1, p2)", [((1, ()), ()), ((2, ()), ())]),
    ([V, "f32[8]{0:S(5)}"], f"{V} add(p0, p1)", [((0, ()), ())]),
    ([V], f"{V} copy(p0)", []),
    ([V], "s32[8] convert(p0)", []),
    ([V], f"{V} reverse(p0), dimensions={{0}}", []),
    ([V, "f32[2]", "s32[]"], f"{V} dynamic-update-slice(p0, p1, p2)", [((0, ()), ())]),
    (
        [f"({V},{V})"],
        f"({V},{V}) while(p0), condition=cond, body=body",
        [((0, (0,)), (0,)), ((0, (1,)), (1,))],
    ),
    (
        ["pred[]", V, V],
        f"{V} conditional(p0, p1, p2), true_computation=neg, false_computation=neg",
        [((1, ()), ()), ((2, ()), ())],
    ),
    (["f32[2,2]", "f32[2,2]"], "f32[2,2] triangular-solve(p0, p1)", [((1, ()), ())]),
    (
        [V, V],
        f"({V},{V}) sort(p0, p1), dimensions={{0}}, to_apply=cmp",
        [((0, ()), (0,)), ((1, ()), (1,))],
    ),
    (["f32[2,2]"], "f32[2,2] triangular-solve(p0, p0)", []),
    ([V], f"{V} call(p0), to_apply=neg", [((0, ()), ())]),
    ([V, V], f"{V} call(p0, p1), to_apply=difference", [((0, ()), ()), ((1, ()), ())]),
    ([V], f"{V} call(p0, p0), to_apply=difference", []),
    (
        ["f32[8,4]", "f32[4,4]", "f32[8,4]"],
        "f32[8,4] fusion(p0, p1, p2), kind=kOutput, calls=affine_read_again",
        [],
    ),
    (
        ["f32[8,4]", "f32[4,4]", "f32[8,4]"],
        "f32[8,4] fusion(p0, p1, p2), kind=kOutput, calls=affine_sum_read_again",
        [],
    ),
    ([V, V], f"{V} fusion(p0, p1), kind=kLoop, calls=loop", [((0, ()), ())]),
    ([V, V], f"{V} fusion(p0, p1), kind=kCustom, calls=loop", [((0, ()), ())]),
    (
        ["f32[8,4]", "f32[4,4]", "f32[8,4]"],
        "f32[8,4] fusion(p0, p1, p2), kind=kOutput, calls=affine",
        [((2, ()), ())],
    ),
    (
        ["f32[8,4]", "f32[4,4]", "f32[8,4]", "f32[8,4]"],
        "f32[8,4] fusion(p0, p1, p2, p3), kind=kOutput, calls=affine_with_bias",
        [((2, ()), ())],
    ),
    (
        ["f32[8,4]", "f32[4,4]", "f32[8,4]", "f32[8,4]"],
        f"f32[8,4] fusion(p0, p1, p2, p3), kind=kOutput, calls=affine_with_bias, {WITH_EPILOGUE}",
        [((2, ()), ()), ((3, ()), ())],
    ),
    (
        ["f32[8,4]", "f32[4,4]", "f32[8,4]"],
        f"f32[8,4] fusion(p0, p1, p2), kind=kOutput, calls=affine_read_again, {WITH_EPILOGUE}",
        [((2, ()), ())],
    ),
    ([V, "f32[2]", "s32[]"], f"{V} fusion(p0, p1, p2), kind=kLoop, calls=update", [((0, ()), ())]),
]


@pytest.mark.parametrize(("parameters", "right_side", "pairs"), MAY)
def test_pairs_that_may_share(parameters, right_side, pairs):
    assert list(may_share(root_of(parameters, right_side))) == pairs


BITS = "u32[8]"

ALIKE = [
    ([V], "s32[8] convert(p0)", [((0, ()), ())]),
    ([V], f"{BITS} bitcast-convert(p0)", [((0, ()), ())]),
    ([V], "s16[8] convert(p0)", []),
    (["f32[8]{0:S(5)}"], "s32[8] convert(p0)", []),
    (["f32[2,4]{0,1}"], "s32[2,4]{1,0} convert(p0)", []),
    (["pred[8]", "s8[8]", "s8[8]"], "s8[8] select(p0, p1, p2)", [1, 2, 0]),
    ([BITS, BITS], f"{V} fusion(p0, p1), kind=kLoop, calls=drawn", [0, 1]),
    ([BITS, BITS], f"{V} fusion(p0, p1), kind=kLoop, calls=drawn_from_its_neighbour", [0]),
    ([V, V], f"{V} add(p0, p1)", [0, 1]),
]
"""With numbers in place of pairs where each is of the whole operand and the result."""


@pytest.mark.parametrize(("parameters", "right_side", "pairs"), ALIKE)
def test_pairs_of_one_width_share_too(parameters, right_side, pairs):
    wanted = [((x, ()), ()) if isinstance(x, int) else x for x in pairs]
    assert list(sharing_pairs(root_of(parameters, right_side))) == wanted


def test_pairs_of_a_fusion_follow_its_body():
    root = root_of([BITS, BITS], f"{V} fusion(p0, p1), kind=kLoop, calls=drawn_from_its_neighbour")
    assert sharing_pairs(root) == (((0, ()), ()),)
    body = root.called_computations[0]
    result = body.root
    first, second = body.parameters
    for user in [*second.users]:
        user.set_operands(tuple([first if x is second else x for x in user.operands]))
    assert body.root is result
    assert ((1, ()), ()) in sharing_pairs(root)


def test_pairs_with_constants_are_not_those_without():
    root = root_of([V, V], f"{V} add(p0, p1)")
    assert len(sharing_pairs(root)) == 2
    root = parse_hlo("""ENTRY e { c = f32[8] constant({1, 2, 3, 4, 5, 6, 7, 8})
 p = f32[8] parameter(0)
 ROOT r = f32[8] add(c, p) }""").entry.root
    assert sharing_pairs(root) == (((1, ()), ()),)


def test_constants_are_never_overwritten():
    root = parse_hlo("""ENTRY e { c = f32[2] constant({1, 2})
 p = f32[2] parameter(0)
 ROOT r = f32[2] add(c, p) }""").entry.root
    assert may_share(root) == (((1, ()), ()),)


def test_an_operand_that_is_read_twice_is_not_updated_in_place_by_choice():
    root = parse_hlo("""ENTRY e { p = s32[] parameter(0)
 q = s32[4] parameter(1)
 ROOT r = (s32[4], s32[4]) sort(q, q), dimensions={0}, to_apply={
   a = s32[] parameter(0)
   b = s32[] parameter(1)
   c = s32[] parameter(2)
   d = s32[] parameter(3)
   ROOT l = pred[] compare(a, b), direction=LT
 } }""").entry.root
    assert may_share(root) == ()


FUSED = {
    "clamp bound": """f { p = f32[] parameter(0)
 q = f32[4] parameter(1)
 n = f32[] negate(p)
 c = f32[4] clamp(p, q, q)
 ROOT r = (f32[], f32[4]) tuple(n, c) }
ENTRY e { x = f32[] parameter(0)
 y = f32[4] parameter(1)
 ROOT z = (f32[], f32[4]) fusion(x, y), kind=kLoop, calls=f }""",
    "a sum of other rows": """sum { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT c = f32[] add(a, b) }
f { p = f32[2,3] parameter(0)
 z = f32[] constant(0)
 s = f32[2] reduce(p, z), dimensions={1}, to_apply=sum
 b = f32[2,3] broadcast(s), dimensions={0}
 d = f32[2,3] subtract(p, b)
 t = f32[] reduce(p, z), dimensions={0,1}, to_apply=sum
 ROOT r = (f32[2,3], f32[]) tuple(d, t) }
ENTRY e { x = f32[2,3] parameter(0)
 ROOT z = (f32[2,3], f32[]) fusion(x), kind=kLoop, calls=f, backend_config={"kernel":"rows"} }""",
    "sums along columns": """sum { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT c = f32[] add(a, b) }
f { p = f32[2,2] parameter(0)
 z = f32[] constant(0)
 s = f32[2] reduce(p, z), dimensions={1}, to_apply=sum
 b = f32[2,2] broadcast(s), dimensions={1}
 ROOT d = f32[2,2] subtract(p, b) }
ENTRY e { x = f32[2,2] parameter(0)
 ROOT z = f32[2,2] fusion(x), kind=kLoop, calls=f, backend_config={"kernel":"rows"} }""",
    "an update of another array that is read": """f { p = f32[4] parameter(0)
 q = f32[8] parameter(1)
 i = s32[] parameter(2)
 n = f32[4] negate(p)
 u = f32[8] dynamic-update-slice(q, n, i)
 s = f32[4] slice(u), slice={[2:6]}
 ROOT r = (f32[4], f32[4]) tuple(n, s) }
ENTRY e { x = f32[4] parameter(0)
 y = f32[8] parameter(1)
 i = s32[] parameter(2)
 ROOT z = (f32[4], f32[4]) fusion(x, y, i), kind=kLoop, calls=f,
  backend_config={"kernel":"one_pass"} }""",
    "width and back": """f { p = u8[4,4] parameter(0)
 a = f32[4] bitcast-convert(p)
 n = f32[4] negate(a)
 ROOT r = u8[4,4] bitcast-convert(n) }
ENTRY e { x = u8[4,4] parameter(0)
 ROOT z = u8[4,4] fusion(x), kind=kLoop, calls=f }""",
}


@pytest.mark.parametrize("text", FUSED.values(), ids=FUSED)
def test_a_fusion_that_reads_more_than_the_element_it_writes_is_not_in_place(text):
    root = parse_hlo(text).entry.root
    assert (0, ()) not in [operand for operand, _ in may_share(root)]


def test_results_of_other_sizes_are_computed_at_another_time():
    """They need of what is overwritten what is gone by then, though in the same order."""
    body = parse_hlo("""ENTRY e { p = f32[2,3] parameter(0)
 n = f32[2,3] negate(p)
 s = f32[3,2] reshape(p)
 ROOT r = (f32[2,3], f32[3,2]) tuple(n, s) }""").entry
    (parameter,) = body.parameters
    same, other = body.root.operands
    assert not reads_other_elements([same], parameter)
    assert reads_other_elements([same, other], parameter)
