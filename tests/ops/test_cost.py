"""Cost against XLA's HloCostAnalysis."""

import pytest
from tests.support import CORPUS, needs_shared, read_text

from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ops.cost import cost, module_cost
from lowtide.ops.quantities import Cost

CALLEES = """
red { a = f32[] parameter(0)
 b = f32[] parameter(1)
 m = f32[] multiply(a, b)
 ROOT r = f32[] add(m, b) }
body { a = f32[4] parameter(0)
 ROOT n = f32[4] exponential(a) }
cheap { a = f32[4] parameter(0)
 ROOT n = f32[4] negate(a) }
cond { a = f32[4] parameter(0)
 ROOT n = pred[] constant(0) }
cmp { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT r = pred[] compare(a, b), direction=LT }
loop { p0 = f32[64,8] parameter(0)
 p1 = f32[64,8] parameter(1)
 s = f32[4,8] slice(p0), slice={[0:4], [0:8]}
 t = f32[2,8] slice(p0), slice={[9:11], [0:8]}
 c = f32[4,8] slice(p1), slice={[1:5], [0:8]}
 u = f32[64,8] tanh(p1)
 v = f32[64,8] negate(p1)
 w = f32[64,8] add(u, v)
 d = f32[4,8] add(s, c)
 ROOT r = (f32[64,8], f32[4,8], f32[2,8]) tuple(w, d, t) }
update { p0 = f32[64,8] parameter(0)
 p1 = f32[1,8] parameter(1)
 p2 = s32[] parameter(2)
 n = f32[1,8] negate(p1)
 ROOT r = f32[64,8] dynamic-update-slice(p0, n, p2, p2) }
"""

A = "f32[4,6]"
CONV = "dim_labels=b01f_01io->b01f"
SCATTER = (
    "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
    "index_vector_dim=1, to_apply=red"
)
GATHER = (
    "offset_dims={1,2}, collapsed_slice_dims={0}, start_index_map={0,1}, index_vector_dim=1, "
    "slice_sizes={1,4,30}"
)

CASES = [
    ([A, A], f"({A},{A}) tuple(p0, p1)"),
    ([f"({A},{A})"], f"{A} get-tuple-element(p0), index=0"),
    ([A], "f32[6,4] transpose(p0), dimensions={1,0}"),
    ([A], "f32[6,4]{0,1} transpose(p0), dimensions={1,0}"),
    ([A], "f32[24] reshape(p0)"),
    ([A], "f32[4,6]{0,1} copy(p0)"),
    (["f32[4]"], "u8[4,4] bitcast-convert(p0)"),
    (["f32[4]"], "u32[4] bitcast(p0)"),
    (["f32[4]"], "bf16[4] convert(p0)"),
    ([A, A], f"{A} power(p0, p1)"),
    ([A, A], "pred[4,6] compare(p0, p1), direction=LT"),
    (["c64[4]"], "f32[4] abs(p0)"),
    ([A, "s64[]", "s64[]"], "f32[2,2] dynamic-slice(p0, p1, p2), dynamic_slice_sizes={2,2}"),
    ([A, "f32[2,2]", "s64[]", "s64[]"], f"{A} dynamic-update-slice(p0, p1, p2, p3)"),
    ([A], "f32[2,3] slice(p0), slice={[0:2],[0:3]}"),
    ([A, "f32[]"], "f32[5,7] pad(p0, p1), padding=1_0x1_0"),
    (["f32[10,20,30]", "s32[5,2]"], f"f32[5,4,30] gather(p0, p1), {GATHER}"),
    (["f32[10,20]", "s32[5,1]", "f32[5,20]"], f"f32[10,20] scatter(p0, p1, p2), {SCATTER}"),
    (
        ["f32[7,2,3]", "f32[7,3,4]"],
        "f32[7,2,4] dot(p0, p1), lhs_contracting_dims={2}, rhs_contracting_dims={1}, "
        "lhs_batch_dims={0}, rhs_batch_dims={0}",
    ),
    (
        ["f32[4,8,8,3]", "f32[3,3,3,5]"],
        f"f32[4,8,8,5] convolution(p0, p1), window={{size=3x3 pad=1_1x1_1}}, {CONV}",
    ),
    (
        ["f32[4,8,8,3]", "f32[3,3,3,5]"],
        "f32[4,15,6,5] convolution(p0, p1), "
        f"window={{size=3x3 lhs_dilate=2x1 pad=1_1x2_2 rhs_dilate=1x3}}, {CONV}",
    ),
    (
        ["f32[4,8,8,6]", "f32[3,3,3,4]"],
        "f32[4,3,3,4] convolution(p0, p1), window={size=3x3 stride=2x2}, "
        f"feature_group_count=2, {CONV}",
    ),
    (
        ["f32[4,8,8,6]", "f32[3,3,6,4]"],
        f"f32[2,6,6,4] convolution(p0, p1), window={{size=3x3}}, batch_group_count=2, {CONV}",
    ),
    ([A, "f32[]"], "f32[4] reduce(p0, p1), dimensions={1}, to_apply=red"),
    (
        ["f32[8,8]", "f32[]"],
        "f32[4,4] reduce-window(p0, p1), window={size=2x2 stride=2x2}, to_apply=red",
    ),
    (["f32[8]", "f32[]"], "f32[8] reduce-window(p0, p1), window={size=8 pad=7_0}, to_apply=red"),
    (["f32[8]", "f32[]"], "f32[8] reduce-window(p0, p1), window={size=15 pad=7_7}, to_apply=red"),
    (
        ["f32[8,8]", "f32[4,4]", "f32[]"],
        "f32[8,8] select-and-scatter(p0, p1, p2), window={size=2x2 stride=2x2}, "
        "select=cmp, scatter=red",
    ),
    (["f32[4]", "f32[4]"], "f32[4] map(p0, p1), dimensions={0}, to_apply=red"),
    ([A], f"{A} sort(p0), dimensions={{1}}, to_apply=cmp"),
    (["f32[10]"], "(f32[3],s32[3]) topk(p0), k=3"),
    (["f32[8,12]"], "c64[8,7] fft(p0), fft_type=RFFT, fft_length={12}"),
    (["c64[8,7]"], "f32[8,12] fft(p0), fft_type=IRFFT, fft_length={12}"),
    (["f32[5,4,4]"], "f32[5,4,4] cholesky(p0)"),
    (["f32[5,4,4]", "f32[5,4,3]"], "f32[5,4,3] triangular-solve(p0, p1), left_side=true"),
    (["f32[]", "f32[]"], "f32[10] rng(p0, p1), distribution=rng_uniform"),
    (["u64[2]"], "(u64[2],u32[10]) rng-bit-generator(p0), algorithm=rng_three_fry"),
    ([], "f32[10] iota(), iota_dimension=0"),
    (["f32[4]"], "f32[4] while(p0), condition=cond, body=body"),
    (["f32[4]"], "f32[4] call(p0), to_apply=body"),
    (
        ["pred[]", "f32[4]"],
        "f32[4] conditional(p0, p1, p1), true_computation=body, false_computation=cheap",
    ),
    ([A, A], f"({A},{A}) all-reduce(p0, p1), to_apply=red"),
    (["f32[4]"], "(f32[4],f32[8]) all-gather-start(p0), dimensions={0}"),
    (["f32[4]", "token[]"], "(f32[4],u32[],token[]) send(p0, p1), channel_id=1"),
    (["token[]"], "((f32[4],s32[2]),token[]) infeed(p0)"),
    (["(f32[4],s32[2])", "token[]"], "token[] outfeed(p0, p1)"),
    (["f32[4]"], "((f32[4]),f32[4],u32[]) async-start(p0), calls=body"),
    (
        ["f32[64,8]", "f32[64,8]"],
        "(f32[64,8],f32[4,8],f32[2,8]) fusion(p0, p1), kind=kLoop, calls=loop",
    ),
    (["f32[64,8]", "f32[1,8]", "s32[]"], "f32[64,8] fusion(p0, p1, p2), kind=kLoop, calls=update"),
]


def by_xla(text: str) -> Cost:
    jax = pytest.importorskip("jax")
    from jaxlib import _hlo, _jax

    client = jax.devices("cpu")[0].client
    found = _jax.hlo_module_cost_analysis(client, _hlo.hlo_module_from_text(text))
    keys = ("flops", "transcendentals", "bytes accessed")
    return Cost(*[found.get(key, 0) for key in keys])


@pytest.mark.parametrize(("parameters", "right_side"), CASES)
def test_one_operation_costs_what_xla_counts(parameters, right_side):
    lines = [f" p{i} = {shape} parameter({i})\n" for i, shape in enumerate(parameters)]
    text = f"HloModule m\n{CALLEES}\nENTRY e {{\n{''.join(lines)} ROOT r = {right_side}\n}}\n"
    module = parse_hlo(text)
    assert module_cost(module) == by_xla(text)
    assert cost(module.entry.root) == module_cost(module)


@needs_shared
def test_real_programs_cost_what_xla_counts():
    paths = sorted(CORPUS.iterdir(), key=lambda path: (path.stat().st_size, path.name))
    checked = 0
    for path in paths[:8]:
        text = read_text(path)
        found = module_cost(parse_hlo(text))
        if found.unknown:
            continue
        expected = by_xla(text)
        # XLA adds up in single precision
        assert found.flops == pytest.approx(expected.flops, rel=1e-5)
        assert found.transcendentals == pytest.approx(expected.transcendentals, rel=1e-5)
        assert found.bytes_accessed == pytest.approx(expected.bytes_accessed, rel=1e-5)
        checked += 1
    assert checked


def test_custom_calls_are_counted_as_unknown():
    module = parse_hlo("""HloModule m
inner { p = f32[4] parameter(0)
 ROOT c = f32[4] custom-call(p), custom_call_target="x" }
ENTRY e { p = f32[4] parameter(0)
 a = f32[4] call(p), to_apply=inner
 b = f32[4] call(a), to_apply=inner
 ROOT r = f32[4] negate(b) }
""")
    assert module_cost(module) == Cost(flops=4, bytes_accessed=32, unknown=2)


def test_deep_chains_of_calls_are_walked_without_recursion():
    depth = 3000
    parts = ["level0 { p = f32[4] parameter(0)\n ROOT r = f32[4] tanh(p) }\n"]
    parts += [
        f"level{i} {{ p = f32[4] parameter(0)\n ROOT r = f32[4] call(p), to_apply=level{i - 1} }}\n"
        for i in range(1, depth)
    ]
    text = "HloModule m\n" + "".join(parts)
    last = f"ROOT r = f32[4] call(p), to_apply=level{depth - 1}"
    text += f"ENTRY e {{ p = f32[4] parameter(0)\n {last} }}"
    assert module_cost(parse_hlo(text)) == Cost(transcendentals=4, bytes_accessed=32)
