"""Dots with what is fused into them, against the evaluator."""

import re

import numpy as np
import pytest
from tests.codegen.cpu.contraction.products import check, inputs_of, plan_of
from tests.codegen.running import Kernel

from lowtide import parse_hlo
from lowtide.codegen.cpu.contraction.dot import plan_fused_dot
from lowtide.evaluator import evaluate
from lowtide.ir import Opcode
from lowtide.llvm.target import host_target, restricted
from lowtide.ops.may_share import may_share

TARGETS = {"native": host_target(), "avx2": restricted(host_target(), "avx2")}


def fused(body: str, config: str = "") -> str:
    """A module whose root is a fusion with this body; a comma at an end of line joins lines."""
    text = re.sub(r",\n\s*", ", ", body.strip())
    lines = [x.strip() for x in text.splitlines()]
    parameters = [x for x in lines if " parameter(" in x]
    root = next(x for x in lines if x.startswith("ROOT"))
    end = "tuple(" if "tuple(" in root else " = "
    shape = root.split(" = ", 1)[1]
    shape = shape[: shape.index(") tuple") + 1] if end == "tuple(" else shape.split(" ")[0]
    names = ", ".join([x.split(" = ")[0] for x in parameters])
    more = f", backend_config={config}" if config else ""
    inside, outside = "\n  ".join(lines), "\n  ".join(parameters)
    return f"""HloModule fused

body {{
  {inside}
}}

ENTRY main {{
  {outside}
  ROOT fusion = {shape} fusion({names}), kind=kOutput, calls=body{more}
}}"""


CASES = {
    "bias_gelu": """
        a = f32[70,40] parameter(0)
        b = f32[40,50] parameter(1)
        c = f32[50] parameter(2)
        d = f32[70,50] dot(a,b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        e = f32[70,50] broadcast(c), dimensions={1}
        g = f32[70,50] add(d,e)
        ROOT h = f32[70,50] tanh(g)
    """,
    "prologues": """
        a = bf16[70,40] parameter(0)
        b = s8[50,40] parameter(1)
        c = f32[50] parameter(2)
        a1 = f32[70,40] convert(a)
        a2 = f32[70,40] exponential(a1)
        b1 = f32[50,40] convert(b)
        e = f32[50,40] broadcast(c), dimensions={0}
        b2 = f32[50,40] multiply(b1,e)
        b3 = f32[40,50] transpose(b2), dimensions={1,0}
        ROOT d = f32[70,50] dot(a2,b3), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    """,
    "columns in panels": """
        a = f32[33,40] parameter(0)
        b = f32[6,40,16] parameter(1)
        c = f32[96] parameter(2)
        b1 = f32[40,6,16] transpose(b), dimensions={1,0,2}
        b2 = f32[40,96] reshape(b1)
        d = f32[33,96] dot(a,b2), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        e = f32[33,96] broadcast(c), dimensions={1}
        ROOT h = f32[33,96] add(d,e)
    """,
    "some columns of panels": """
        a = f32[9,40] parameter(0)
        b = f32[6,40,16] parameter(1)
        b1 = f32[40,6,16] transpose(b), dimensions={1,0,2}
        b2 = f32[40,96] reshape(b1)
        b3 = f32[20,91] slice(b2), slice={[3:23], [2:93]}
        a1 = f32[9,20] slice(a), slice={[0:9], [1:40:2]}
        ROOT d = f32[9,91] dot(a1,b3), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    """,
    "steps in several runs": """
        a = f32[7,5,8,3] parameter(0)
        b = f32[8,5,30] parameter(1)
        a1 = f32[3,7,8,5] transpose(a), dimensions={3,0,2,1}
        a2 = f32[21,40] reshape(a1)
        b1 = f32[40,30] reshape(b)
        ROOT d = f32[21,30] dot(a2,b1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    """,
    "runs cut apart again": """
        a = f32[2,6,16] parameter(0)
        b = f32[16,2,30] parameter(1)
        a1 = f32[6,2,16] transpose(a), dimensions={1,0,2}
        a2 = f32[192] reshape(a1)
        a3 = f32[3,8,8] reshape(a2)
        a4 = f32[3,4,8,8] broadcast(a3), dimensions={0,2,3}
        a5 = f32[12,64] reshape(a4)
        b1 = f32[2,16,30] transpose(b), dimensions={1,0,2}
        b2 = f32[32,30] reshape(b1)
        b3 = f32[2,32,30] broadcast(b2), dimensions={1,2}
        b4 = f32[64,30] reshape(b3)
        ROOT d = f32[12,30] dot(a5,b4), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    """,
    "decode": """
        a = bf16[3,80] parameter(0)
        b = s8[80,150] parameter(1)
        c = bf16[150] parameter(2)
        b1 = bf16[80,150] convert(b)
        e = bf16[80,150] broadcast(c), dimensions={1}
        b2 = bf16[80,150] multiply(b1,e)
        ROOT d = bf16[3,150] dot(a,b2), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    """,
    "heads": """
        q = f32[2,24,4,16] parameter(0)
        k = f32[2,24,4,16] parameter(1)
        s = f32[] constant(0.25)
        q1 = f32[2,4,24,16] transpose(q), dimensions={0,2,1,3}
        k1 = f32[2,4,24,16] transpose(k), dimensions={0,2,1,3}
        d = f32[2,4,24,24] dot(q1,k1), lhs_batch_dims={0,1}, rhs_batch_dims={0,1},
          lhs_contracting_dims={3}, rhs_contracting_dims={3}
        sb = f32[2,4,24,24] broadcast(s), dimensions={}
        m = f32[2,4,24,24] multiply(d,sb)
        ROOT t = f32[4,2,24,24] transpose(m), dimensions={1,0,2,3}
    """,
    "context": """
        q = f32[2,4,24,24] parameter(0)
        k = f32[2,24,4,16] parameter(1)
        k1 = f32[2,4,24,16] transpose(k), dimensions={0,2,1,3}
        d = f32[2,4,24,16] dot(q,k1), lhs_batch_dims={0,1}, rhs_batch_dims={0,1},
          lhs_contracting_dims={3}, rhs_contracting_dims={2}
        ROOT t = f32[2,24,4,16] transpose(d), dimensions={0,2,1,3}
    """,
    "transposed_result": """
        a = f32[70,40] parameter(0)
        b = f32[40,50] parameter(1)
        c = f32[50,70] parameter(2)
        d = f32[70,50] dot(a,b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        t = f32[50,70] transpose(d), dimensions={1,0}
        ROOT h = f32[50,70] add(t,c)
    """,
    "several": """
        a = f32[33,40] parameter(0)
        b = f32[40,50] parameter(1)
        c = f32[33,50] parameter(2)
        d = f32[33,50] dot(a,b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        s = f32[33,50] add(d,c)
        n = bf16[33,50] convert(s)
        g = pred[33,50] compare(d,c), direction=GT
        q = f32[33,50] multiply(c,c)
        ROOT h = (f32[33,50], bf16[33,50], pred[33,50], f32[33,50]) tuple(s,n,g,q)
    """,
    "gathered": """
        a = f32[90,40] parameter(0)
        i = s32[33,1] parameter(1)
        b = f32[40,50] parameter(2)
        g = f32[33,40] gather(a,i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0},
          index_vector_dim=1, slice_sizes={1,40}
        ROOT d = f32[33,50] dot(g,b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    """,
    "merged_heads": """
        a = f32[3,4,21,16] parameter(0)
        b = f32[64,50] parameter(1)
        c = f32[50] parameter(2)
        t = f32[3,21,4,16] transpose(a), dimensions={0,2,1,3}
        r = f32[63,64] reshape(t)
        d = f32[63,50] dot(r,b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        e = f32[63,50] broadcast(c), dimensions={1}
        s = f32[63,50] add(d,e)
        ROOT o = f32[3,21,50] reshape(s)
    """,
    "split_heads": """
        x = f32[42,24] parameter(0)
        w = f32[24,96] parameter(1)
        c = f32[96] parameter(2)
        d = f32[42,96] dot(x,w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        e = f32[42,96] broadcast(c), dimensions={1}
        s = f32[42,96] add(d,e)
        r = f32[2,21,6,16] reshape(s)
        ROOT t = f32[2,6,21,16] transpose(r), dimensions={0,2,1,3}
    """,
    "sliced": """
        a = f32[50,90] parameter(0)
        b = f32[40,60] parameter(1)
        z = f32[] constant(0)
        a1 = f32[33,40] slice(a), slice={[3:36],[10:90:2]}
        b1 = f32[40,50] slice(b), slice={[0:40],[5:55]}
        d = f32[33,50] dot(a1,b1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        zb = f32[33,50] broadcast(z), dimensions={}
        ROOT m = f32[33,50] maximum(d,zb)
    """,
    "bigk": """
        a = f32[20,3000] parameter(0)
        b = f32[3000,70] parameter(1)
        d = f32[20,70] dot(a,b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        ROOT m = bf16[20,70] convert(d)
    """,
    "nan_padding": """
        a = f32[20,37] parameter(0)
        b = f32[37,19] parameter(1)
        a1 = f32[20,37] log(a)
        b1 = f32[37,19] log(b)
        ROOT d = f32[20,19] dot(a1,b1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    """,
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", CASES)
def test_fusions(name: str, target: str) -> None:
    config = '{"kernel":"epilogue"}' if "tuple(" in CASES[name] else ""

    def made_positive(inputs: list[np.ndarray]) -> None:
        for x in inputs:
            np.abs(x, out=x)

    change = made_positive if "log(" in CASES[name] else None
    check(fused(CASES[name], config), target=TARGETS[target], factor=2, change=change)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("types", [("f32", "f32", "f32"), ("u8", "s8", "s32")])
@pytest.mark.parametrize(
    ("m", "k", "n"),
    [(1, 64, 64), (1, 33, 67), (1, 128, 1000), (2, 96, 131), (3, 160, 512), (1, 2000, 3001)],
)
def test_few_rows_are_finished_by_spans(
    m: int, k: int, n: int, types: tuple[str, str, str], target: str
) -> None:
    left, right, total = types
    body = f"""
        a = {left}[{m},{k}] parameter(0)
        b = {right}[{n},{k}] parameter(1)
        s = f32[] parameter(2)
        c = f32[{n}] parameter(3)
        d = {total}[{m},{n}] dot(a,b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
        e = f32[{m},{n}] convert(d)
        one = f32[] constant(1)
        q = f32[] divide(one,s)
        w = f32[{m},{n}] broadcast(q), dimensions={{}}
        x = f32[{m},{n}] multiply(e,w)
        y = f32[{m},{n}] broadcast(c), dimensions={{1}}
        ROOT z = f32[{m},{n}] add(x,y)
    """
    check(fused(body), target=TARGETS[target], factor=2)


def test_what_all_columns_share_is_computed_once_for_several_vectors() -> None:
    body = """
        a = f32[1,64] parameter(0)
        b = f32[512,64] parameter(1)
        c = f32[512] parameter(2)
        d = f32[1,512] dot(a,b), lhs_contracting_dims={1}, rhs_contracting_dims={1}
        y = f32[1,512] reshape(c)
        ROOT z = f32[1,512] add(d,y)
    """
    computed = plan_of(parse_hlo(fused(body)), TARGETS["avx2"])
    assert computed is not None
    names = [x.name for x in computed.emit().functions]
    assert "finish_64" in names


VIEWS = ("heads", "context", "sliced", "split_heads")
"""Fusions whose operands are read where they lie."""


@pytest.mark.parametrize("name", VIEWS)
def test_what_only_moves_elements_is_not_packed(name: str) -> None:
    module = parse_hlo(fused(CASES[name]))
    plan = plan_of(module, host_target())
    assert plan is not None
    names = [x.name for x in plan.emit().functions]
    assert "pack_rows" not in names


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("steps", [64, 3000])
@pytest.mark.parametrize(
    "last",
    [
        "ROOT s = f32[50,70] add(c, d)",
        "u = f32[50,70] add(c, d)\n        ROOT s = f32[50,70] add(u, e)",
        "u = f32[50,70] add(d, e)\n        ROOT s = f32[50,70] add(c, u)",
        "u = f32[50,70] multiply(d, c)\n        ROOT s = f32[50,70] subtract(c, u)",
        "u = f32[50,70] multiply(d, c)\n        ROOT s = (f32[50,70], f32[50,70]) tuple(d, u)",
    ],
)
def test_a_result_may_take_the_place_of_what_only_an_epilogue_reads(
    last: str, steps: int, target: str
) -> None:
    """The buffers of an addend, or another operand, and of the first result are one."""
    body = f"""
        a = f32[50,{steps}] parameter(0)
        b = f32[{steps},70] parameter(1)
        c = f32[50,70] parameter(2)
        one = f32[] constant(1)
        e = f32[50,70] broadcast(one), dimensions={{}}
        d = f32[50,70] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
        {last}
    """
    module = parse_hlo(fused(body, '{"kernel":"epilogue"}'))
    root = module.entry.root
    first = (0,) if root.shape.is_tuple else ()
    assert ((2, ()), first) in may_share(root)
    plan = plan_of(module, TARGETS[target])
    assert plan is not None
    a, b, c = inputs_of(module)
    expected = evaluate(module, [a, b, c])
    shared, more = c.copy(), []
    if root.shape.is_tuple:
        expected, other = expected
        more = [np.zeros_like(c)]
    Kernel(plan, TARGETS[target])([a, b, shared, shared, *more])
    np.testing.assert_allclose(shared, np.asarray(expected), rtol=1e-4, atol=1e-3)
    for x in more:
        np.testing.assert_allclose(x, np.asarray(other), rtol=1e-4, atol=1e-3)


def test_other_results_may_take_the_place_of_what_only_an_epilogue_reads() -> None:
    body = """
        a = f32[50,40] parameter(0)
        b = f32[40,70] parameter(1)
        c = f32[50,70] parameter(2)
        d = f32[50,70] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        s = f32[50,70] add(d, c)
        t = f32[50,70] multiply(d, c)
        ROOT r = (f32[50,70], f32[50,70]) tuple(s, t)
    """
    module = parse_hlo(fused(body, '{"kernel":"epilogue"}'))
    plan = plan_of(module, host_target())
    assert plan is not None
    a, b, c = inputs_of(module)
    first, second = evaluate(module, [a, b, c])
    result, shared = np.zeros_like(c), c.copy()
    Kernel(plan, host_target())([a, b, shared, result, shared])
    np.testing.assert_allclose(result, np.asarray(first), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(shared, np.asarray(second), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "last",
    [
        "ROOT s = f32[9,10,8] broadcast(d), dimensions={0,2}",
        "ROOT s = f32[4,8] slice(d), slice={[0:4],[0:8]}",
        "ROOT s = f32[8,8] dot(d, d), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
    ],
)
def test_what_is_no_epilogue_is_left_to_others(last: str) -> None:
    body = f"""
        a = f32[9,7] parameter(0)
        b = f32[7,8] parameter(1)
        d = f32[9,8] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
        {last}
    """
    fusion = parse_hlo(fused(body)).entry.root
    assert fusion.opcode is Opcode.FUSION
    assert plan_fused_dot(fusion, host_target()) is None


@pytest.mark.parametrize("target", sorted(TARGETS))
@pytest.mark.parametrize(
    ("computed", "other", "inner"),
    [
        ("250,{m}", "250,40", (0, 0)),
        ("{m},250", "250,40", (1, 0)),
        ("{m},250", "40,250", (1, 1)),
        ("5,50,{m}", "5,50,40", ("0,1", "0,1")),
        ("{m},5,50", "40,5,50", ("1,2", "1,2")),
    ],
)
@pytest.mark.parametrize("is_right", [False, True])
def test_chained_operands_are_packed_several_vectors_at_a_time(
    computed: str, other: str, inner: tuple[int | str, int | str], is_right: bool, target: str
) -> None:
    """Each is a chain of instructions; rows and steps end within vectors, tiles and panels."""
    for m in (83, 320):
        x = computed.format(m=m)
        names, sides = ("p,b", inner) if not is_right else ("b,p", inner[::-1])
        result = f"{m},40" if not is_right else f"40,{m}"
        kernel = check(
            fused(
                f"""
                a = f32[{x}] parameter(0)
                b = f32[{other}] parameter(1)
                p = f32[{x}] tanh(a)
                ROOT d = f32[{result}] dot({names}), lhs_contracting_dims={{{sides[0]}}},
                  rhs_contracting_dims={{{sides[1]}}}
                """
            ),
            target=TARGETS[target],
            factor=4,
        )
        if x.startswith("250") and not is_right:
            assert "<32 x float>" in kernel.text
