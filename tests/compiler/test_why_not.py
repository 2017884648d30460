"""Why two instructions are not one kernel: each kind of reason, and what holds for all answers."""

from __future__ import annotations

import pytest
from tests.random_modules.module import random_module
from tests.support import EXAMPLES

from lowtide.compiler.options import PlanOptions
from lowtide.compiler.proposals import optimize
from lowtide.compiler.why_not import explain_kernels
from lowtide.frontend.files import read
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.fusion.refusal import RefusalKind
from lowtide.ir import LowtideError, Module, Opcode
from lowtide.ir.clone import clone_module

ADD = "add_f { l = f32[] parameter(0)\n r = f32[] parameter(1)\n ROOT s = f32[] add(l, r) }\n"
LESS = (
    "less { m = f32[] parameter(0)\n n = f32[] parameter(1)\n"
    "ROOT o = pred[] compare(m, n), direction=LT }\n"
)


def module(body: str, before: str = "") -> Module:
    """Return a module of one computation, given as lines."""
    return parse_hlo(f"HloModule m\n{before}ENTRY e {{\n{body}\n}}")


def kinds(text: Module, first: str, second: str) -> list[RefusalKind]:
    """Return the kinds of reasons for two instructions, in turn."""
    return [x.refusal.kind for x in explain_kernels(text, first, second).reasons]


K = RefusalKind

CASES = {
    "control edges": (
        """x = f32[64] parameter(0)
        a = f32[64] sine(x)
        b = f32[64] cosine(x), control-predecessors={a}
        ROOT t = (f32[64], f32[64]) tuple(a, b)""",
        ("a", "b"),
        K.ORDERED,
    ),
    "opaque": (
        """x = f32[64] parameter(0)
        a = f32[64] sine(x)
        b = f32[64] sort(a), dimensions={0}, to_apply=less
        ROOT c = f32[64] negate(b)""",
        ("b", "c"),
        K.OPAQUE,
    ),
    "a product reads a product": (
        """x = f32[64,64] parameter(0)
        a = f32[64,64] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        ROOT b = f32[64,64] dot(a, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}""",
        ("a", "b"),
        K.NOT_A_LOOP,
    ),
    "many readers of a reduction": (
        """x = f32[64,4096] parameter(0)
        y = f32[64] parameter(1)
        z = f32[] constant(0)
        a = f32[64] reduce(x, z), dimensions={1}, to_apply=add_f
        b = f32[64] sort(y), dimensions={0}, to_apply=less
        c = f32[64] add(a, b)
        d = f32[64] sort(c), dimensions={0}, to_apply=less
        e = f32[64] multiply(a, d)
        ROOT t = (f32[64], f32[64]) tuple(c, e)""",
        ("a", "e"),
        K.MANY_READERS,
    ),
    "long rows": (
        """x = f32[4,4194304] parameter(0)
        z = f32[] constant(0)
        a = f32[4] reduce(x, z), dimensions={1}, to_apply=add_f
        b = f32[4,4194304] broadcast(a), dimensions={0}
        ROOT c = f32[4,4194304] divide(x, b)""",
        ("a", "c"),
        K.LONG_ROWS,
    ),
    "other rows": (
        """x = f32[512,512] parameter(0)
        z = f32[] constant(0)
        a = f32[512] reduce(x, z), dimensions={0}, to_apply=add_f
        b = f32[512,512] broadcast(a), dimensions={1}
        ROOT c = f32[512,512] divide(x, b)""",
        ("a", "c"),
        K.OTHER_ROWS,
    ),
    "needed by a result": (
        """x = f32[4096] parameter(0)
        a = f32[4096] sine(x)
        b = f32[64] slice(a), slice={[0:64]}
        s = f32[64] sort(b), dimensions={0}, to_apply=less
        ROOT t = (f32[4096], f32[64]) tuple(a, s)""",
        ("a", "b"),
        K.NEEDED,
    ),
    "computed too often": (
        """x = f32[64] parameter(0)
        a = f32[64] sine(x)
        b = f32[4096,64] broadcast(a), dimensions={1}
        y = f32[4096,64] parameter(1)
        ROOT c = f32[4096,64] multiply(b, y)""",
        ("a", "c"),
        K.SLOWER,
    ),
    "nothing in between": (
        """x = f32[64,64] parameter(0)
        y = f32[32] parameter(1)
        a = f32[64,64] sine(x)
        b = f32[32] cosine(y)
        p = f32[64,64] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        q = f32[32] sort(b), dimensions={0}, to_apply=less
        ROOT t = (f32[64,64], f32[32]) tuple(p, q)""",
        ("a", "b"),
        K.NOT_READ,
    ),
    "something in between": (
        """x = f32[64] parameter(0)
        a = f32[64] sine(x)
        b = f32[64] sort(a), dimensions={0}, to_apply=less
        ROOT c = f32[64] negate(b)""",
        ("a", "c"),
        K.FAR,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_kinds_of_reasons(name: str) -> None:
    body, pair, wanted = CASES[name]
    given = module(body, "".join(x for x, used in ((ADD, "add_f"), (LESS, "less")) if used in body))
    assert kinds(given, *pair)[0] is wanted


# -- all answers ---------------------------------------------------------------------------------


def fused_text(given: Module) -> Module:
    """Return the kernels that a module gets."""
    copy = clone_module(given)
    optimize(copy, PlanOptions("fused"))
    return copy


def check_all_kernels(given: Module) -> int:
    """Ask about each kernel and what it reads; return how many answers were reasons."""
    fused = fused_text(given)
    names = {x.name for y in fused.computations.values() for x in y.instructions.values()}
    entry = [x for x in fused.entry.instructions.values() if x.opcode is Opcode.FUSION]
    told = 0
    for reader in entry:
        for operand in reader.operands:
            if operand.opcode is not Opcode.FUSION:
                continue
            answer = explain_kernels(given, operand.name, reader.name)
            assert answer.reasons, (operand.name, reader.name)
            assert answer.kernels == ((operand.name,), (reader.name,))
            assert names.issuperset([*answer.kernels[0], *answer.kernels[1]])
            assert all("None" not in x for x in answer.lines())
            told += 1
        own = explain_kernels(given, reader.name, reader.name)
        assert not own.reasons
        assert own.lines() == [f"{reader.name} and {reader.name} are one kernel: {reader.name}"]
    return told


def test_each_kernel_of_an_example_has_reasons() -> None:
    found = read(EXAMPLES / "mnist_cnn.hlo.xz")
    assert check_all_kernels(found) > 0


@pytest.mark.parametrize("seed", range(12))
def test_each_kernel_of_random_modules_has_reasons(seed: int) -> None:
    check_all_kernels(random_module(seed))


def test_members_of_one_kernel() -> None:
    given = module("x = f32[64] parameter(0)\na = f32[64] sine(x)\nROOT b = f32[64] negate(a)")
    answer = explain_kernels(given, "a", "b")
    assert answer.lines() == ["a and b are one kernel: negate_fusion"]
    assert answer.to_json()["one"] is True


def test_names_that_are_not_there() -> None:
    given = module(
        "x = f32[64] parameter(0)\nsine.1 = f32[64] sine(x)\nROOT b = f32[64] negate(sine.1)"
    )
    with pytest.raises(LowtideError, match=r"no instruction 'sin\.1' in m; did you mean 'sine\.1'"):
        explain_kernels(given, "sin.1", "b")


def test_what_is_applied_is_in_no_kernel_of_its_own() -> None:
    body, _, _ = CASES["opaque"]
    with pytest.raises(LowtideError, match="'o' is in less, which 's' applies to elements"):
        explain_kernels(module(body.replace("b = ", "s = ").replace("(b)", "(s)"), LESS), "o", "s")


def test_what_is_simplified_away_is_told() -> None:
    given = module(
        "x = f32[64] parameter(0)\na = f32[64] negate(x)\nb = f32[64] negate(a)\n"
        "ROOT c = f32[64] sine(b)"
    )
    with pytest.raises(LowtideError, match="'b' is gone once the module is simplified"):
        explain_kernels(given, "b", "c")
