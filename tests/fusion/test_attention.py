"""Two dots with a softmax between them are one kernel, in all forms in which softmax is written."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lowtide import compiler
from lowtide.checking import check_plan
from lowtide.compiler.stages import pipeline
from lowtide.evaluator import evaluate
from lowtide.evaluator.in_arena import differing_leaves, run_in_arena
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.fusion.attention import fuse_attention
from lowtide.fusion.priority_fusion import fuse_by_priority
from lowtide.ir import Instruction, Module, Opcode
from lowtide.ir.attributes import Fusion
from lowtide.ir.clone import clone_module
from lowtide.passes import run_pipeline
from lowtide.testing.check_pass import assert_same_values, seeded_arguments
from lowtide.verifier import verify

REDUCERS = """
greater { a = T[] parameter(0)  b = T[] parameter(1)  ROOT m = T[] maximum(a, b) }
plus { a = T[] parameter(0)  b = T[] parameter(1)  ROOT s = T[] add(a, b) }
"""
# Two sequences of three heads, eight queries and sixteen keys; heads of four and five numbers.
INPUTS = """
q = T[2,8,3,4] parameter(0)
k = T[2,16,3,4] parameter(1)
v = T[2,16,3,5] parameter(2)
low = T[] constant(-inf)
zero = T[] constant(0)
half = T[] constant(0.5)
halves = S broadcast(half), dimensions={}
never = S broadcast(low), dimensions={}
"""
FIRST = """
s = S dot(q, k), lhs_batch_dims={0,2}, rhs_batch_dims={0,2},
  lhs_contracting_dims={3}, rhs_contracting_dims={3}
"""
SOFTMAX = """
most = R reduce(x, low), dimensions={3}, to_apply=greater
wide = S broadcast(most), dimensions={0,1,2}
less = S subtract(x, wide)
e = S exponential(less)
sum = R reduce(e, zero), dimensions={3}, to_apply=plus
sums = S broadcast(sum), dimensions={0,1,2}
p = S divide(e, sums)
"""
SECOND = """
ROOT o = T[2,3,8,5] dot(p, v), lhs_batch_dims={0,1}, rhs_batch_dims={0,2},
  lhs_contracting_dims={3}, rhs_contracting_dims={1}
"""
PLAIN = FIRST.replace("s =", "x =") + SOFTMAX + SECOND
CAUSAL = """
row = s32[8] iota(), iota_dimension=0
column = s32[16] iota(), iota_dimension=0
rows = s32[8,16] broadcast(row), dimensions={0}
columns = s32[8,16] broadcast(column), dimensions={1}
seen = pred[8,16] compare(columns, rows), direction=LE
mask = pred[2,3,8,16] broadcast(seen), dimensions={2,3}
x = S select(mask, s, never)
"""

FORMED = {
    "plain": PLAIN,
    "scaled and capped": FIRST
    + "half_s = S multiply(s, halves)\nt = S tanh(half_s)\nx = S multiply(t, halves)"
    + SOFTMAX
    + SECOND,
    "causal": FIRST + CAUSAL + SOFTMAX + SECOND,
    "mask and bias of parameters": FIRST
    + """m = pred[2,16] parameter(3)
    mask = pred[2,3,8,16] broadcast(m), dimensions={0,3}
    b = T[3,8,16] parameter(4)
    bias = S broadcast(b), dimensions={1,2,3}
    biased = S add(s, bias)
    x = S select(mask, biased, never)"""
    + SOFTMAX
    + SECOND,
    "rows without keys": FIRST
    + CAUSAL
    + SOFTMAX.replace("broadcast(most)", "broadcast(known)").replace(
        "wide",
        "none = R broadcast(low), dimensions={}\nzeros = R broadcast(zero), dimensions={}\n"
        "empty = pred[2,3,8] compare(most, none), direction=EQ\n"
        "known = R select(empty, zeros, most)\nwide",
        1,
    )
    + SECOND,
    "a sink that is added": PLAIN.replace("broadcast(sum)", "broadcast(all)").replace(
        "sums",
        "sink = T[3] parameter(3)\nsinks = R broadcast(sink), dimensions={1}\n"
        "far = R subtract(sinks, most)\nrest = R exponential(far)\nall = R add(sum, rest)\nsums",
        1,
    ),
    "a sink as one more key": FIRST
    + """sink = T[3] parameter(3)
    sinks = T[2,3,8,1] broadcast(sink), dimensions={1}
    x = T[2,3,8,17] concatenate(s, sinks), dimensions={3}"""
    + SOFTMAX.replace("S ", "T[2,3,8,17] ").replace("p =", "p17 =")
    + "p = S slice(p17), slice={[0:2],[0:3],[0:8],[0:16]}"
    + SECOND,
    "division behind the second dot": FIRST.replace("s =", "x =")
    + SOFTMAX.split("sums")[0]
    + """
    y = T[2,3,8,5] dot(e, v), lhs_batch_dims={0,1}, rhs_batch_dims={0,2},
      lhs_contracting_dims={3}, rhs_contracting_dims={1}
    z = T[2,8,3,5] transpose(y), dimensions={0,2,1,3}
    by_query = T[2,8,3] transpose(sum), dimensions={0,2,1}
    divisor = T[2,8,3,5] broadcast(by_query), dimensions={0,1,2}
    ROOT o = T[2,8,3,5] divide(z, divisor)""",
    "keys on the left": """
    t = T[2,3,16,8] dot(k, q), lhs_batch_dims={0,2}, rhs_batch_dims={0,2},
      lhs_contracting_dims={3}, rhs_contracting_dims={3}
    most = R reduce(t, low), dimensions={2}, to_apply=greater
    wide = T[2,3,16,8] broadcast(most), dimensions={0,1,3}
    less = T[2,3,16,8] subtract(t, wide)
    e = T[2,3,16,8] exponential(less)
    sum = R reduce(e, zero), dimensions={2}, to_apply=plus
    flat = T[6,8] reshape(sum)
    sums = T[6,8,16] broadcast(flat), dimensions={0,1}
    turned = S transpose(e), dimensions={0,1,3,2}
    merged = T[6,8,16] reshape(turned)
    quotient = T[6,8,16] divide(merged, sums)
    p = S reshape(quotient)
    ROOT o = T[2,3,5,8] dot(v, p), lhs_batch_dims={0,2}, rhs_batch_dims={0,1},
      lhs_contracting_dims={1}, rhs_contracting_dims={3}
    """,
    "two dots make the scores": FIRST
    + """q2 = T[2,8,3,7] parameter(3)
    k2 = T[2,16,7] parameter(4)
    more = T[2,8,3,16] dot(q2, k2), lhs_batch_dims={0}, rhs_batch_dims={0},
      lhs_contracting_dims={3}, rhs_contracting_dims={2}
    turned = S transpose(more), dimensions={0,2,1,3}
    x = S add(s, turned)"""
    + SOFTMAX
    + SECOND,
    "a dot makes the bias": FIRST
    + """pair = T[8,16,7] parameter(3)
    w = T[7,3] parameter(4)
    b = T[8,16,3] dot(pair, w), lhs_contracting_dims={2}, rhs_contracting_dims={0}
    bias = S broadcast(b), dimensions={2,3,1}
    x = S add(s, bias)"""
    + SOFTMAX
    + SECOND,
    "gate and residual behind": PLAIN.replace("ROOT o", "o")
    + """g = T[2,8,3,5] parameter(3)
    r = T[2,8,15] parameter(4)
    turned = T[2,8,3,5] transpose(o), dimensions={0,2,1,3}
    gate = T[2,8,3,5] logistic(g)
    gated = T[2,8,3,5] multiply(turned, gate)
    flat = T[2,8,15] reshape(gated)
    ROOT out = T[2,8,15] add(flat, r)""",
    "keys given to more heads": PLAIN.replace("k = T[2,16,3,4] parameter(1)", "").replace(
        "x =",
        "one = T[2,16,4] parameter(1)\nk = T[2,16,3,4] broadcast(one), dimensions={0,1,3}\nx =",
        1,
    ),
    "one query": PLAIN.replace("[2,3,8,5]", "[2,3,1,5]"),
}

REFUSED = {
    "weights are a result": PLAIN.replace("ROOT o", "o")
    + "ROOT both = (T[2,3,8,5], S) tuple(o, p)",
    "scores are a result": PLAIN.replace("ROOT o", "o") + "ROOT both = (T[2,3,8,5], S) tuple(o, x)",
    "sums are a result": PLAIN.replace("ROOT o", "o") + "ROOT both = (T[2,3,8,5], R) tuple(o, sum)",
    "no reduction": FIRST + "p = S tanh(s)" + SECOND,
    "reductions along the queries": FIRST.replace("s =", "x =")
    + SOFTMAX.replace("R ", "T[2,3,16] ").replace("{3}", "{2}").replace("{0,1,2}", "{0,1,3}")
    + SECOND,
    "rows exchanged": PLAIN.replace("broadcast(most)", "broadcast(others)").replace(
        "wide",
        "mixed = T[2,8,3] reshape(most)\nothers = R transpose(mixed), dimensions={0,2,1}\nwide",
        1,
    ),
    "values made of the scores": FIRST.replace("s =", "x =")
    + SOFTMAX
    + """ROOT o = T[2,3,8,8] dot(p, e), lhs_batch_dims={0,1}, rhs_batch_dims={0,1},
      lhs_contracting_dims={3}, rhs_contracting_dims={3}""",
    "keys in another order": FIRST + "x = S reverse(s), dimensions={3}" + SOFTMAX + SECOND,
    "barrier": FIRST + "x = S opt-barrier(s)" + SOFTMAX + SECOND,
    "control edge": PLAIN.replace(
        "exponential(less)", "exponential(less), control-predecessors={v}"
    ),
}


def module_of(body: str) -> Module:
    inputs = INPUTS
    if "parameter(1)" in body:
        inputs = inputs.replace("k = T[2,16,3,4] parameter(1)", "")
    text = f"HloModule m\n{REDUCERS}\nENTRY main {{\n{inputs}{body}\n}}"
    queries = "1" if "[2,3,1,5]" in body else "8"
    text = re.sub(r"\bS\b", f"T[2,3,{queries},16]", text)
    text = re.sub(r"\bR\b", f"T[2,3,{queries}]", text)
    text = text.replace("T[2,8,3,4]", f"T[2,{queries},3,4]")
    module = parse_hlo(text.replace("T[", "f32["))
    verify(module)
    return module


def kernels(module: Module) -> list[Instruction]:
    return [
        x
        for computation in module.computations.values()
        for x in computation.instructions.values()
        if x.annotations.backend_config == '{"kernel":"attention"}'
    ]


def assert_is_one_kernel(module: Module, scores: int) -> None:
    """Fuse; no value of as many elements is left, and it computes the same, also in a plan."""
    original = clone_module(module)
    assert fuse_attention(module, least_bytes=0) == 1
    verify(module)
    (kernel,) = kernels(module)
    assert kernel.attributes_as(Fusion).kind == "kCustom"
    dots = [
        x for x in kernel.called_computations[0].instructions.values() if x.opcode is Opcode.DOT
    ]
    assert len(dots) >= 2
    assert not [
        x
        for x in module.entry.instructions.values()
        if x.shape.element_count == scores and x.opcode is not Opcode.PARAMETER
    ]
    assert fuse_attention(module, least_bytes=0) == 0
    assert_same_values(original, module, seeds=1)
    fuse_by_priority(module)
    plan = compiler.plan(module)
    assert check_plan(plan.module, plan.assignment) == ()
    arguments = seeded_arguments(module, 1)
    found = run_in_arena(plan.module, plan.assignment, arguments, sanitize=True)
    assert differing_leaves(plan.module, found, evaluate(original, arguments)) == []


@pytest.mark.parametrize("name", FORMED)
def test_attention_is_one_kernel(name: str) -> None:
    assert_is_one_kernel(module_of(FORMED[name]), 2 * 3 * 8 * 16)


@pytest.mark.parametrize("name", REFUSED)
def test_what_others_read_or_rows_share_is_left_alone(name: str) -> None:
    module = module_of(REFUSED[name])
    text = str(module)
    assert fuse_attention(module, least_bytes=0) == 0
    assert str(module) == text


def sized(queries: int, keys: int, width: int) -> Module:
    """Return attention of one head in f32."""
    shapes = {
        "T[2,8,3,4]": f"T[{queries},{width}]",
        "T[2,16,3,4]": f"T[{keys},{width}]",
        "T[2,16,3,5]": f"T[{keys},{width}]",
        "T[2,3,8,5]": f"T[{queries},{width}]",
    }
    text = f"HloModule m\n{REDUCERS}\nENTRY main {{\n{INPUTS}{PLAIN}\n}}"
    for old, new in shapes.items():
        text = text.replace(old, new)
    text = re.sub(r"[lr]hs_batch_dims=\{[0-9,]*\},\s*", "", text)
    text = text.replace("hs_contracting_dims={3}", "hs_contracting_dims={1}")
    text = text.replace("{3}", "{1}").replace("{0,1,2}", "{0}")
    text = text.replace("rhs_contracting_dims={1}\n}", "rhs_contracting_dims={0}\n}")
    text = re.sub(r"\bS\b", f"T[{queries},{keys}]", text)
    text = re.sub(r"\bR\b", f"T[{queries}]", text)
    return parse_hlo(text.replace("T[", "f32["))


@pytest.mark.parametrize(
    ("queries", "keys", "width", "formed"),
    [
        (512, 512, 64, True),
        (256, 256, 64, False),  # scores that fit the second-level cache
        (64, 1 << 16, 64, True),
        (64, (1 << 16) + 1, 64, False),  # a row that does not
        (64, 1 << 16, 256, False),  # keys that do not fit the last-level cache, for many rows
    ],
)
def test_sizes(queries: int, keys: int, width: int, formed: bool) -> None:
    module = sized(queries, keys, width)
    assert fuse_attention(module) == formed


def test_no_more_inputs_than_streams() -> None:
    def biased(count: int) -> Module:
        lines = [
            f"b{i} = T[3,8,16] parameter({i + 3})\nw{i} = S broadcast(b{i}), dimensions={{1,2,3}}\n"
            f"{'x' if i == count - 1 else f't{i}'} = S add({f't{i - 1}' if i else 's'}, w{i})"
            for i in range(count)
        ]
        return module_of(FIRST + "\n".join(lines) + SOFTMAX + SECOND)

    assert fuse_attention(biased(40), least_bytes=0) == 1
    assert fuse_attention(biased(50), least_bytes=0) == 0


def test_each_layer_of_a_chain_is_one_kernel() -> None:
    """Each layer's result is the queries, keys and values of the next one."""
    layers = 300
    start = "l0 = f32[16,4] parameter(0)\nlow = f32[] constant(-inf)\n"
    body = start + "".join(
        [
            f"t{i} = f32[16,16] dot(l{i}, l{i}), lhs_contracting_dims={{1}}, "
            f"rhs_contracting_dims={{1}}\n"
            f"m{i} = f32[16] reduce(t{i}, low), dimensions={{1}}, to_apply=greater\n"
            f"w{i} = f32[16,16] broadcast(m{i}), dimensions={{0}}\n"
            f"d{i} = f32[16,16] subtract(t{i}, w{i})\n"
            f"o{i} = f32[16,4] dot(d{i}, l{i}), lhs_contracting_dims={{1}}, "
            f"rhs_contracting_dims={{0}}\n"
            f"{'ROOT ' if i == layers - 1 else ''}l{i + 1} = f32[16,4] add(o{i}, l{i})\n"
            for i in range(layers)
        ]
    )
    text = f"HloModule m\n{REDUCERS}\nENTRY main {{\n{body}\n}}".replace("T[", "f32[")
    module = parse_hlo(text)
    assert fuse_attention(module, least_bytes=0) == layers
    assert len(module.entry.instructions) == layers + 1


# -- programs of frameworks --------------------------------------------------------------------


def _grouped(q: Any, k: Any, v: Any) -> Any:
    import jax

    return jax.nn.dot_product_attention(q, k[:, :, :2], v[:, :, :2], is_causal=True)


def _with_options(**options: Any) -> Callable[..., Any]:
    def attention(q: Any, k: Any, v: Any) -> Any:
        import jax

        return jax.nn.dot_product_attention(q, k, v, **options)

    return attention


def _masked(q: Any, k: Any, v: Any) -> Any:
    """As models write it: a mask of lengths, scores in f32, heads last."""
    import jax
    import jax.numpy as jnp

    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k, preferred_element_type=jnp.float32)
    seen = (jnp.arange(k.shape[1]) < 9)[None, None, None, :]
    scores = jnp.where(seen, scores * 0.5, jnp.finfo(jnp.float32).min)
    weights = jax.nn.softmax(scores, axis=-1).astype(v.dtype)
    return jnp.einsum("bhqk,bkhd->bqhd", weights, v)


PROGRAMS = {
    "dot_product_attention": _with_options(),
    "causal": _with_options(is_causal=True, scale=0.25),
    "sliding window": _with_options(local_window_size=(3, 1)),
    "lengths": _with_options(
        query_seq_lengths=np.array([5, 8], np.int32),
        key_value_seq_lengths=np.array([7, 11], np.int32),
    ),
    "mask and bias": _with_options(
        mask=np.tri(8, 12, 3, bool)[None, None], bias=np.ones((1, 4, 8, 12), np.float32)
    ),
    "grouped queries": _grouped,
    "einsum": _masked,
}


@pytest.mark.parametrize("element_type", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_jax_attention_is_one_kernel(name: str, element_type: str) -> None:
    jax = pytest.importorskip("jax")
    shapes = ((2, 8, 4, 6), (2, 12, 4, 6), (2, 12, 4, 6))
    arguments = [jax.ShapeDtypeStruct(shape, element_type) for shape in shapes]
    lowered = jax.jit(PROGRAMS[name]).lower(*arguments)
    module = parse_hlo(lowered.compiler_ir("hlo").as_hlo_text(print_large_constants=True))
    run_pipeline(module, pipeline("simplified"))
    assert_is_one_kernel(module, 2 * 4 * 8 * 12)


INTEGER_PARTS = """HloModule m
{reducers}
ENTRY main {{
q = {first}[512,64] parameter(0)
k = {first}[512,64] parameter(1)
v = {second}[512,64] parameter(2)
d = {sum}[512,512] dot(q, k), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
f = f32[512,512] convert(d)
zero = f32[] constant(0)
total = f32[512] reduce(f, zero), dimensions={{1}}, to_apply=add
totals = f32[512,512] broadcast(total), dimensions={{0}}
part = f32[512,512] divide(f, totals)
w = {second}[512,512] convert(part)
ROOT r = {last}[512,64] dot(w, v), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}
"""


@pytest.mark.parametrize(
    ("first", "total", "second", "last", "formed"),
    [
        ("f32", "f32", "f32", "f32", True),
        ("u8", "s32", "f32", "f32", False),
        ("f32", "f32", "u8", "s32", False),
        ("u8", "s32", "s8", "s32", False),
    ],
)
def test_dots_of_integers_have_kernels_of_their_own(
    first: str, total: str, second: str, last: str, formed: bool
) -> None:
    """The kernel of an attention has no quick way to add up integers."""
    kinds = {"first": first, "sum": total, "second": second, "last": last}
    adds = "add { x = f32[] parameter(0) y = f32[] parameter(1) ROOT s = f32[] add(x, y) }"
    module = parse_hlo(INTEGER_PARTS.format(reducers=adds, **kinds))
    assert fuse_attention(module, least_bytes=1 << 16) == formed
