"""Barriers stay where they keep a repeated computation apart, and go elsewhere."""

import pytest

from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import Module, Opcode
from lowtide.passes.pipeline import run_pipeline
from lowtide.passes.registry import parse_passes
from lowtide.testing.check_pass import check_pass
from lowtide.transforms.barrier_operands import compute_behind_barriers
from lowtide.transforms.needless_barriers import remove_needless_barriers

N = "f32[32,32]"
DOT = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"


def text(lines: str) -> str:
    return f"HloModule m\nENTRY main {{\n{lines.replace('F', N)}\n}}"


def barriers(module: Module) -> int:
    return sum(
        [x.opcode is Opcode.OPTIMIZATION_BARRIER for x in module.entry.instructions.values()]
    )


CHECKPOINT = text(f"""
x = F parameter(0)
w = F parameter(1)
y = F dot(x, w), {DOT}
z = F tanh(y)
d = F multiply(z, z)
t = (F, F, F) tuple(x, w, d)
b = (F, F, F) opt-barrier(t)
x.1 = F get-tuple-element(b), index=0
w.1 = F get-tuple-element(b), index=1
d.1 = F get-tuple-element(b), index=2
y.1 = F dot(x.1, w.1), {DOT}
z.1 = F tanh(y.1)
ROOT e = F multiply(z.1, d.1)
""")
SAVED = text(f"""
x = F parameter(0)
w = F parameter(1)
y = F dot(x, w), {DOT}
z = F tanh(y)
one = f32[] constant(1)
ones = F broadcast(one), dimensions={{}}
rest = F subtract(ones, z)
t = (F, F) tuple(z, rest)
b = (F, F) opt-barrier(t)
z.1 = F get-tuple-element(b), index=0
rest.1 = F get-tuple-element(b), index=1
u = F multiply(z.1, rest.1)
ROOT v = F add(u, z)
""")
MOVED = text("""
x = F parameter(0)
g = f32[32] parameter(1)
spread = F broadcast(g), dimensions={1}
y = F multiply(x, spread)
b = f32[32] opt-barrier(g)
spread.1 = F broadcast(b), dimensions={1}
ROOT z = F add(y, spread.1)
""")


@pytest.mark.parametrize(
    ("lines", "left"), [(CHECKPOINT, 1), (SAVED, 0), (MOVED, 0)], ids=["again", "saved", "moved"]
)
def test_a_barrier_stays_where_something_is_computed_again(lines: str, left: int) -> None:
    module = check_pass(
        lambda module: bool(remove_needless_barriers(module)), lines, not left, evaluate=True
    )
    assert barriers(module) == left
    assert remove_needless_barriers(module) == 0


def test_no_barrier_stays_where_none_is_wanted() -> None:
    module = check_pass(
        lambda module: bool(remove_needless_barriers(module, all=True)), CHECKPOINT, evaluate=True
    )
    run_pipeline(module, parse_passes("cse,dce"))
    dots = [x for x in module.entry.instructions.values() if x.opcode is Opcode.DOT]
    assert (barriers(module), len(dots)) == (0, 1)


# The first barrier waits for nothing of the second: `d.1` comes from it, and so the second waits.
SAVED_PRODUCTS = text(f"""
x = F parameter(0)
w = F parameter(1)
p = F dot(x, w), {DOT}
y = F tanh(p)
q = F dot(y, w), {DOT}
z = F tanh(q)
t = (F, F, F) tuple(q, y, z)
b = (F, F, F) opt-barrier(t)
q.1 = F get-tuple-element(b), index=0
y.1 = F get-tuple-element(b), index=1
z.1 = F get-tuple-element(b), index=2
s = F tanh(q.1)
d.1 = F multiply(s, y.1)
d.2 = F multiply(d.1, z.1)
u = (F, F) tuple(p, d.2)
c = (F, F) opt-barrier(u)
p.1 = F get-tuple-element(c), index=0
d.3 = F get-tuple-element(c), index=1
r = F tanh(p.1)
ROOT e = F multiply(r, d.3)
""")


def test_what_follows_from_held_values_is_computed_behind_the_barrier() -> None:
    module = check_pass(
        lambda module: bool(compute_behind_barriers(module)), SAVED_PRODUCTS, evaluate=True
    )
    passed = [
        [y.name for y in x.operands[0].operands]
        for x in module.entry.instructions.values()
        if x.opcode is Opcode.OPTIMIZATION_BARRIER
    ]
    # y follows from p, which the second barrier holds; z from q of the same one.
    assert sorted(map(sorted, passed)) == [["d.2", "p"], ["p", "q"]]
    assert compute_behind_barriers(module) == 0


def test_what_nothing_else_holds_stays_an_element() -> None:
    lines = SAVED_PRODUCTS.replace("tuple(p, d.2)", "tuple(x, d.2)").replace(
        "tuple(q, y, z)", "tuple(q, y, q)"
    )
    module = parse_hlo(lines)
    assert compute_behind_barriers(module) == 0
