"""Conditionals before and after each rewrite."""

import pytest

import lowtide
from lowtide.ir.clone import clone_module
from lowtide.ir.printer import fingerprint
from lowtide.passes.instrumentation import Checking
from lowtide.passes.pipeline import run_pipeline
from lowtide.passes.registry import parse_passes
from lowtide.testing.check_pass import assert_same_values
from lowtide.verifier import verify

PAIR = "(f32[4], f32[4])"
READ = "{p} = (f32[4], f32[4]) parameter(0)\n{p}0 = f32[4] get-tuple-element({p}), index=0\n"
GIVEN = "i = pred[] parameter(0)\nx = f32[4] parameter(1)\ny = f32[4] parameter(2)\n"
XY = "xy = (f32[4], f32[4]) tuple(x, y)\n"
BRANCHES = "true_computation=first, false_computation=second"
DOT = "f32[4,4] dot({}, {}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"


def branch(name: str, lines: str, shape: str = PAIR) -> str:
    """Return a computation whose parameter is `p`; of a tuple, `p0` and `p1` are the elements."""
    elements = shape[1:-1].split(", ") if shape.startswith("(") else []
    read = [
        f"p{i} = {element} get-tuple-element(p), index={i}"
        for i, element in enumerate(elements)
        if f"p{i}" in lines
    ]
    return "\n".join([f"{name} {{", f"p = {shape} parameter(0)", *read, lines, "}"])


def module_text(first: str, second: str, entry: str) -> str:
    return "\n".join(["HloModule m", first, second, "ENTRY main {", entry, "}"])


def of_pairs(first: str, second: str, result: str, after: str = "", given: str = XY) -> str:
    """A conditional on two elements, both branches getting the same."""
    root = "" if after else "ROOT "
    return module_text(
        branch("first", first),
        branch("second", second),
        f"{GIVEN}{given}{root}z = {result} conditional(i, xy, xy), {BRANCHES}\n{after}",
    )


def of_one(first: str, second: str, selector: str, shape: str = "f32[4]") -> str:
    """A conditional on one array."""
    return module_text(
        branch("first", first, shape),
        branch("second", second, shape),
        f"i = pred[] parameter(0)\nx = {shape} parameter(1)\n{selector}\n"
        f"ROOT z = {shape} conditional(s, x, x), {BRANCHES}",
    )


SPREAD = "n = f32[] constant(nan)\nROOT b = f32[300] broadcast(n), dimensions={}"
SLICE = "ROOT s = f32[2] slice(z), slice={[4:6]}"


def _of_large(first: str, after: str) -> str:
    """A conditional on an array of 1,200 bytes, which the second branch hands on."""
    return module_text(
        branch("first", first, "f32[300]"),
        branch("second", "", "f32[300]").replace("p = f32", "ROOT p = f32"),
        "i = pred[] parameter(0)\nx = f32[300] parameter(1)\n"
        f"z = f32[300] conditional(i, x, x), {BRANCHES}\n{after}",
    )


def of_matrix(before: str, given: str) -> str:
    """A sine of a matrix or a cosine of another one, and what is done before."""
    return module_text(
        branch("first", "ROOT r = f32[4,4] sine(p)", "f32[4,4]"),
        branch("second", "ROOT r.1 = f32[4,4] cosine(p)", "f32[4,4]"),
        f"i = pred[] parameter(0)\nx = f32[4,4] parameter(1)\n{before}\n"
        f"ROOT z = f32[4,4] conditional(i, {given}), {BRANCHES}",
    )


def entry(body: str) -> str:
    return f"HloModule m\nENTRY main {{\n{body}\n}}"


SINE, COSINE = "ROOT r = f32[4] sine(p)", "ROOT r.1 = f32[4] cosine(p)"
ARRAY = "i = pred[] parameter(0)\nx = f32[4] parameter(1)\n"

CASES: dict[str, tuple[str, str, str]] = {
    "a constant chooses a branch": (
        "conditional-simplifier",
        of_one(SINE, COSINE, "s = pred[] constant(false)"),
        entry(f"{ARRAY}ROOT r = f32[4] cosine(x)"),
    ),
    "an index out of range chooses the last branch": (
        "conditional-simplifier",
        of_one(SINE, COSINE, "s = s32[] constant(-1)").replace(
            BRANCHES, "branch_computations={first, second}"
        ),
        entry(f"{ARRAY}ROOT r = f32[4] cosine(x)"),
    ),
    "the only branch is taken": (
        "conditional-simplifier",
        """
HloModule m
only {
  p = f32[4] parameter(0)
  ROOT r = f32[4] sine(p)
}
ENTRY main {
  i = s32[] parameter(0)
  x = f32[4] parameter(1)
  ROOT z = f32[4] conditional(i, x), branch_computations={only}
}
""",
        entry("i = s32[] parameter(0)\nx = f32[4] parameter(1)\nROOT r = f32[4] sine(x)"),
    ),
    "branches that do the same are one": (
        "conditional-simplifier",
        of_pairs("ROOT r = f32[4] add(p0, p1)", "ROOT r.1 = f32[4] add(p1, p0)", "f32[4]"),
        entry(f"{GIVEN}ROOT r = f32[4] add(x, y)"),
    ),
    "a choice by not p swaps the branches": (
        "conditional-simplifier",
        of_one(SINE, COSINE, "s = pred[] not(i)"),
        of_one(SINE, COSINE, "")
        .replace("(s,", "(i,")
        .replace(BRANCHES, "true_computation=second, false_computation=first"),
    ),
    "a choice by p as a number is one by p": (
        "conditional-simplifier",
        of_one(SINE, COSINE, "s = s32[] convert(i)").replace(
            BRANCHES, "branch_computations={first, second}"
        ),
        of_one(SINE, COSINE, "")
        .replace("(s,", "(i,")
        .replace(BRANCHES, "true_computation=second, false_computation=first"),
    ),
    "branches that differ stay": (
        "conditional-simplifier",
        of_one(SINE, COSINE, "").replace("(s,", "(i,"),
        "",
    ),
    "tiny branches become a selection": (
        "conditional-to-select",
        of_pairs(
            "a = f32[4] add(p0, p1)\nROOT r = (f32[4], f32[4]) tuple(a, p0)",
            "b = f32[4] negate(p1)\nROOT r.1 = (f32[4], f32[4]) tuple(b, p0)",
            PAIR,
        ),
        entry(
            f"{GIVEN}a = f32[4] add(x, y)\nb = f32[4] negate(y)\n"
            "is = pred[4] broadcast(i), dimensions={}\n"
            "s = f32[4] select(is, a, b)\nROOT z = (f32[4], f32[4]) tuple(s, x)"
        ),
    ),
    "large results do not": (
        "conditional-to-select",
        of_one(SINE, COSINE, "", "f32[300]").replace("(s,", "(i,").replace("f32[4]", "f32[300]"),
        "",
    ),
    "large results of which a slice is read do, where branches hand on and spread": (
        "conditional-to-select",
        _of_large(SPREAD, SLICE),
        entry(
            "i = pred[] parameter(0)\nx = f32[300] parameter(1)\nn = f32[] constant(nan)\n"
            "b = f32[300] broadcast(n), dimensions={}\nis = pred[300] broadcast(i), dimensions={}\n"
            f"z = f32[300] select(is, b, x)\n{SLICE}"
        ),
    ),
    "large results of which all is read as well do not": (
        "conditional-to-select",
        _of_large(
            SPREAD, "s = f32[2] slice(z), slice={[4:6]}\nROOT t = (f32[2], f32[300]) tuple(s, z)"
        ),
        "",
    ),
    "large results that branches compute do not": (
        "conditional-to-select",
        _of_large("ROOT b = f32[300] sine(p)", SLICE),
        "",
    ),
    "products do not": (
        "conditional-to-select",
        of_one(
            f"ROOT r = {DOT.format('p', 'p')}", "ROOT r.1 = f32[4,4] sine(p)", "", "f32[4,4]"
        ).replace("(s,", "(i,"),
        "",
    ),
    "what both branches pass on is read outside": (
        "conditional-results,conditional-operands",
        of_pairs(
            "a = f32[4] sine(p0)\nROOT r = (f32[4], f32[4]) tuple(a, p1)",
            "b = f32[4] cosine(p0)\nROOT r.1 = (f32[4], f32[4]) tuple(b, p1)",
            PAIR,
        ),
        module_text(
            branch("first", "a = f32[4] sine(p0)\nROOT r = (f32[4]) tuple(a)", "(f32[4])"),
            branch("second", "b = f32[4] cosine(p0)\nROOT r.1 = (f32[4]) tuple(b)", "(f32[4])"),
            f"{GIVEN}x1 = (f32[4]) tuple(x)\nx2 = (f32[4]) tuple(x)\n"
            f"z = (f32[4]) conditional(i, x1, x2), {BRANCHES}\n"
            "a.1 = f32[4] get-tuple-element(z), index=0\nROOT t = (f32[4], f32[4]) tuple(a.1, y)",
        ),
    ),
    "a constant of both branches is made outside": (
        "conditional-results,conditional-operands",
        of_pairs(
            "a = f32[4] sine(p0)\nc = f32[] constant(2)\nROOT r = (f32[4], f32[]) tuple(a, c)",
            "b = f32[4] cosine(p0)\nd = f32[] constant(2)\nROOT s = (f32[4], f32[]) tuple(b, d)",
            "(f32[4], f32[])",
        ),
        module_text(
            branch("first", "a = f32[4] sine(p0)\nROOT r = (f32[4]) tuple(a)", "(f32[4])"),
            branch("second", "b = f32[4] cosine(p0)\nROOT r.1 = (f32[4]) tuple(b)", "(f32[4])"),
            f"{GIVEN}x1 = (f32[4]) tuple(x)\nx2 = (f32[4]) tuple(x)\n"
            f"z = (f32[4]) conditional(i, x1, x2), {BRANCHES}\n"
            "a.1 = f32[4] get-tuple-element(z), index=0\nc.1 = f32[] constant(2)\n"
            "ROOT t = (f32[4], f32[]) tuple(a.1, c.1)",
        ),
    ),
    "a result returned twice is returned once": (
        "conditional-results",
        of_pairs(
            "a = f32[4] add(p0, p1)\nROOT r = (f32[4], f32[4]) tuple(a, a)",
            "b = f32[4] subtract(p0, p1)\nROOT r.1 = (f32[4], f32[4]) tuple(b, b)",
            PAIR,
            "u = f32[4] get-tuple-element(z), index=0\n"
            "v = f32[4] get-tuple-element(z), index=1\nROOT s = f32[4] multiply(u, v)",
        ),
        of_pairs(
            "a = f32[4] add(p0, p1)\nROOT r = (f32[4]) tuple(a)",
            "b = f32[4] subtract(p0, p1)\nROOT r.1 = (f32[4]) tuple(b)",
            "(f32[4])",
            "u = f32[4] get-tuple-element(z), index=0\nROOT s = f32[4] multiply(u, u)",
        ),
    ),
    "branches that return their operand are passed by": (
        "conditional-results,dce",
        of_one("ROOT q = f32[4] copy(p)", "ROOT q.1 = f32[4] copy(p)", "")
        .replace("ROOT q = f32[4] copy(p)\n", "")
        .replace("ROOT q.1 = f32[4] copy(p)\n", "")
        .replace("p = ", "ROOT p = ")
        .replace("(s,", "(i,"),
        entry("i = pred[] parameter(0)\nROOT x = f32[4] parameter(1)"),
    ),
    "a branch that reads nothing gets nothing": (
        "conditional-operands",
        of_one(SINE, "ROOT c = f32[4] constant({1, 2, 3, 4})", "").replace("(s,", "(i,"),
        module_text(
            branch("first", SINE, "f32[4]"),
            branch("second", "ROOT c = f32[4] constant({1, 2, 3, 4})", "()"),
            f"{ARRAY}none = () tuple()\nROOT z = f32[4] conditional(i, x, none), {BRANCHES}",
        ),
    ),
    "constants are made in the branches": (
        "conditional-operands",
        of_pairs(
            "ROOT r = f32[4] add(p0, p1)",
            "ROOT r.1 = f32[4] subtract(p0, p1)",
            "f32[4]",
            given="k = f32[4] constant({1, 2, 3, 4})\nxy = (f32[4], f32[4]) tuple(x, k)\n",
        ),
        module_text(
            branch(
                "first", "k = f32[4] constant({1, 2, 3, 4})\nROOT r = f32[4] add(p0, k)", "(f32[4])"
            ),
            branch(
                "second",
                "k.1 = f32[4] constant({1, 2, 3, 4})\nROOT r.1 = f32[4] subtract(p0, k.1)",
                "(f32[4])",
            ),
            f"{GIVEN}x1 = (f32[4]) tuple(x)\nx2 = (f32[4]) tuple(x)\n"
            f"ROOT z = f32[4] conditional(i, x1, x2), {BRANCHES}",
        ),
    ),
    "the same product in both branches moves out": (
        "conditional-code-motion",
        of_one(
            f"d = {DOT.format('p', 'p')}\nROOT r = f32[4,4] sine(d)",
            f"e = {DOT.format('p', 'p')}\nROOT r.1 = f32[4,4] add(e, p)",
            "",
            "f32[4,4]",
        ).replace("(s,", "(i,"),
        module_text(
            branch("first", "ROOT r = f32[4,4] sine(p1)", "(f32[4,4], f32[4,4])"),
            branch("second", "ROOT r.1 = f32[4,4] add(p1, p0)", "(f32[4,4], f32[4,4])"),
            "i = pred[] parameter(0)\nx = f32[4,4] parameter(1)\n"
            f"d = {DOT.format('x', 'x')}\n"
            "x1 = (f32[4,4], f32[4,4]) tuple(x, d)\nx2 = (f32[4,4], f32[4,4]) tuple(x, d)\n"
            f"ROOT z = f32[4,4] conditional(i, x1, x2), {BRANCHES}",
        ),
    ),
    "a product that one branch needs moves in, with what leads to it": (
        "conditional-code-sinking,conditional-operands",
        of_matrix(f"n = f32[4,4] negate(x)\nd = {DOT.format('n', 'x')}", "d, x"),
        module_text(
            branch(
                "first",
                f"n = f32[4,4] negate(p0)\nd = {DOT.format('n', 'p0')}\nROOT r = f32[4,4] sine(d)",
                "(f32[4,4])",
            ),
            branch("second", "ROOT r.1 = f32[4,4] cosine(p)", "f32[4,4]"),
            "i = pred[] parameter(0)\nx = f32[4,4] parameter(1)\nt = (f32[4,4]) tuple(x)\n"
            f"ROOT z = f32[4,4] conditional(i, t, x), {BRANCHES}",
        ),
    ),
    "a product that both need does not": (
        "conditional-code-sinking",
        of_matrix(f"d = {DOT.format('x', 'x')}", "d, d"),
        "",
    ),
    "nor one of less bytes than its factors": (
        "conditional-code-sinking",
        of_matrix(
            "one = f32[] constant(1)\nones = f32[4,4] broadcast(one), dimensions={}\n"
            "big = f32[4,8] concatenate(x, ones), dimensions={1}\n"
            "d = f32[4,4] dot(big, big), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
            "d, x",
        ),
        "",
    ),
    "nor elementwise work": (
        "conditional-code-sinking",
        of_matrix("d = f32[4,4] exponential(x)", "d, x"),
        "",
    ),
    "different products stay": (
        "conditional-code-motion",
        of_one(
            f"ROOT d = {DOT.format('p', 'p')}",
            f"n = f32[4,4] negate(p)\nROOT e = {DOT.format('p', 'n')}",
            "",
            "f32[4,4]",
        ).replace("(s,", "(i,"),
        "",
    ),
}


@pytest.mark.parametrize(("passes", "before", "after"), CASES.values(), ids=CASES.keys())
def test_conditionals(passes: str, before: str, after: str) -> None:
    module = lowtide.parse_hlo(before)
    verify(module)
    original = clone_module(module)
    changes = 0
    for step in parse_passes(passes):
        changes += run_pipeline(module, [step], [Checking(verify)])
        assert step.run(module) == 0
    expected = lowtide.parse_hlo(after or before)
    assert bool(changes) == bool(after)
    assert fingerprint(module) == fingerprint(expected), f"got\n{module}\nexpected\n{expected}"
    if after:
        assert_same_values(original, module, seeds=4)
