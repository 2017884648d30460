"""Loops before and after each rewrite: what is carried, unrolled, removed, moved out."""

import pytest
from tests.transforms.control_flow.loops import COUNT, LESS_THAN_3, element, loop_text

import lowtide
from lowtide.ir import Opcode
from lowtide.ir.clone import clone_module
from lowtide.ir.printer import fingerprint
from lowtide.passes.instrumentation import Checking
from lowtide.passes.pipeline import run_pipeline
from lowtide.passes.registry import parse_passes
from lowtide.testing.check_pass import assert_same_values
from lowtide.verifier import verify

F = "f32[4]"
X = "x = f32[4] parameter(0)\nzero = s32[] constant(0)"
XW = "x = f32[4] parameter(0)\nw = f32[4] parameter(1)\nzero = s32[] constant(0)"
SINE = f"{COUNT}\ny = f32[4] sine(b1)"
LAST = element("last", F, 1, root=True)
SUM = "sum {\np = f32[] parameter(0)\nq = f32[] parameter(1)\nROOT s = f32[] add(p, q)\n}"


def below(limit: int, direction: str = "LT") -> str:
    return f"n = s32[] constant({limit})\nROOT m = pred[] compare(c0, n), direction={direction}"


def entry(body: str) -> str:
    return f"HloModule m\nENTRY main {{\n{body}\n}}"


def matrix_loop(step: str, results: str, size: int = 4) -> str:
    """A loop over a counter, a matrix that changes and one that does not."""
    shape = f"f32[{size},{size}]"
    return loop_text(
        f"s32[]; {shape}; {shape}",
        f"{COUNT}\n{step}",
        results,
        f"x = {shape} parameter(0)\nw = {shape} parameter(1)\nzero = s32[] constant(0)",
        "zero, x, w",
        element("last", shape, 1, root=True),
    )


SIMPLE = loop_text("s32[]; f32[4]", SINE, "next, y", X, "zero, x", LAST)
ONCE = loop_text("s32[]; f32[4]", SINE, "next, y", X, "zero, x", LAST, below(1))

CASES: dict[str, tuple[str, str, str]] = {
    # -- loops that go ---------------------------------------------------------------------------
    "a loop that never runs is its start": (
        "while-simplifier",
        loop_text("s32[]; f32[4]", SINE, "next, y", X, "zero, x", LAST, below(0)),
        entry("ROOT x = f32[4] parameter(0)"),
    ),
    "a false condition too": (
        "while-simplifier",
        loop_text(
            "s32[]; f32[4]",
            SINE,
            "next, y",
            X,
            "zero, x",
            LAST,
            "ROOT never = pred[] constant(false)",
        ),
        entry("ROOT x = f32[4] parameter(0)"),
    ),
    "a loop that runs once is its body": (
        "while-simplifier",
        ONCE,
        entry("x = f32[4] parameter(0)\nROOT y = f32[4] sine(x)"),
    ),
    "counting down by two once": (
        "while-simplifier",
        loop_text(
            "s32[]; f32[4]",
            "two = s32[] constant(2)\nnext = s32[] subtract(b0, two)\ny = f32[4] sine(b1)",
            "next, y",
            "x = f32[4] parameter(0)\nfive = s32[] constant(5)",
            "five, x",
            LAST,
            below(4, "GE"),
        ),
        entry("x = f32[4] parameter(0)\nROOT y = f32[4] sine(x)"),
    ),
    "a body with a loop of its own comes along": (
        "while-simplifier,while-simplifier",
        """
HloModule m
inner_condition {
  c = (s32[], f32[4]) parameter(0)
  ROOT no = pred[] constant(false)
}
inner_body {
  b = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(b), index=0
  x = f32[4] get-tuple-element(b), index=1
  y = f32[4] exponential(x)
  ROOT r = (s32[], f32[4]) tuple(i, y)
}
condition {
  c.1 = (s32[], f32[4]) parameter(0)
  i.1 = s32[] get-tuple-element(c.1), index=0
  n = s32[] constant(1)
  ROOT more = pred[] compare(i.1, n), direction=NE
}
body {
  b.1 = (s32[], f32[4]) parameter(0)
  i.2 = s32[] get-tuple-element(b.1), index=0
  x.1 = f32[4] get-tuple-element(b.1), index=1
  loop = (s32[], f32[4]) while(b.1), condition=inner_condition, body=inner_body
  y.1 = f32[4] get-tuple-element(loop), index=1
  one = s32[] constant(1)
  next = s32[] add(i.2, one)
  z = f32[4] sine(y.1)
  ROOT r.1 = (s32[], f32[4]) tuple(next, z)
}
ENTRY main {
  x.2 = f32[4] parameter(0)
  zero = s32[] constant(0)
  start = (s32[], f32[4]) tuple(zero, x.2)
  loop.1 = (s32[], f32[4]) while(start), condition=condition, body=body
  ROOT last = f32[4] get-tuple-element(loop.1), index=1
}
""",
        entry("x = f32[4] parameter(0)\nROOT y = f32[4] sine(x)"),
    ),
    "what a loop counts to is known": (
        "while-simplifier",
        loop_text(
            "s32[]; f32[4]",
            SINE,
            "next, y",
            X,
            "zero, x",
            element("i", "s32[]", 0) + "\n" + element("y", F, 1) + "\n"
            "ROOT t = (s32[], f32[4]) tuple(i, y)",
        ),
        loop_text(
            "s32[]; f32[4]",
            SINE,
            "next, y",
            X,
            "zero, x",
            "i = s32[] constant(3)\n" + element("y", F, 1) + "\n"
            "ROOT t = (s32[], f32[4]) tuple(i, y)",
        ),
    ),
    # -- loops written out -------------------------------------------------------------------------
    "a tiny loop is written out": (
        "while-unroller,dce,algsimp",
        SIMPLE,
        entry(
            "x = f32[4] parameter(0)\ny = f32[4] sine(x)\nz = f32[4] sine(y)\n"
            "ROOT u = f32[4] sine(z)"
        ),
    ),
    "steps that read the counter become constants": (
        "while-unroller,constant-folding,algsimp,dce",
        loop_text(
            "s32[]; s32[]",
            f"{COUNT}\nt = s32[] add(b1, b0)",
            "next, t",
            "x = s32[] parameter(0)\nzero = s32[] constant(0)",
            "zero, x",
            element("last", "s32[]", 1, root=True),
        ),
        entry("x = s32[] parameter(0)\nthree = s32[] constant(3)\nROOT y = s32[] add(x, three)"),
    ),
    # -- elements that go --------------------------------------------------------------------------
    "an element that nobody reads goes": (
        "while-dead-carries",
        loop_text(
            "s32[]; f32[4]; f32[4]",
            f"{SINE}\nu = f32[4] cosine(b2)",
            "next, y, u",
            X,
            "zero, x, x",
            LAST,
        ),
        SIMPLE,
    ),
    "elements that only feed each other go": (
        "while-dead-carries",
        loop_text(
            "s32[]; f32[4]; f32[4]; f32[4]",
            f"{SINE}\nu = f32[4] add(b3, y)\nv = f32[4] negate(b2)",
            "next, y, u, v",
            X,
            "zero, x, x, x",
            LAST,
        ),
        SIMPLE,
    ),
    "the first elements go and the rest moves up": (
        "while-dead-carries",
        loop_text(
            "f32[4]; s32[]; f32[4]",
            "one = s32[] constant(1)\nnext = s32[] add(b1, one)\nu = f32[4] cosine(b0)\n"
            "y = f32[4] sine(b2)",
            "u, next, y",
            X,
            "x, zero, x",
            element("last", F, 2, root=True),
            "n = s32[] constant(3)\nROOT more = pred[] compare(c1, n), direction=LT",
            config=', backend_config={"known_trip_count":{"n":"3"},'
            '"known_induction_variable":{"tuple_index":"1"}}',
        ),
        loop_text(
            "s32[]; f32[4]",
            SINE,
            "next, y",
            X,
            "zero, x",
            LAST,
            config=', backend_config={"known_trip_count":{"n":"3"},'
            '"known_induction_variable":{"tuple_index":"0"}}',
        ),
    ),
    "what the loop passes on is read before it": (
        "while-invariant-carries",
        loop_text(
            "s32[]; f32[4]; f32[4]",
            f"{COUNT}\ny = f32[4] multiply(b1, b2)",
            "next, y, b2",
            XW,
            "zero, x, w",
            element("a", F, 1) + "\n" + element("same", F, 2) + "\nROOT s = f32[4] add(a, same)",
        ),
        loop_text(
            "s32[]; f32[4]; f32[4]",
            f"{COUNT}\ny = f32[4] multiply(b1, b2)",
            "next, y, b2",
            XW,
            "zero, x, w",
            element("a", F, 1) + "\nROOT s = f32[4] add(a, w)",
        ),
    ),
    "also where the loop is read as a whole": (
        "while-invariant-carries,while-dead-carries",
        loop_text("s32[]; f32[4]; f32[4]", SINE, "next, y, b2", XW, "zero, x, w", ""),
        loop_text(
            "s32[]; f32[4]",
            SINE,
            "next, y",
            XW,
            "zero, x",
            element("i", "s32[]", 0) + "\n" + element("y", F, 1) + "\n"
            "ROOT t = (s32[], f32[4], f32[4]) tuple(i, y, w)",
        ),
    ),
    "a constant bound moves into the condition": (
        "while-invariant-carries,while-dead-carries",
        loop_text(
            "s32[]; f32[4]; s32[]",
            SINE,
            "next, y, b2",
            f"{X}\nthree = s32[] constant(3)",
            "zero, x, three",
            LAST,
            "ROOT more = pred[] compare(c0, c2), direction=LT",
        ),
        SIMPLE,
    ),
    "a constant broadcast moves into the body": (
        "while-invariant-carries,while-dead-carries",
        loop_text(
            "s32[]; f32[4]; f32[4]",
            f"{COUNT}\ny = f32[4] multiply(b1, b2)",
            "next, y, b2",
            f"{X}\ntwo = f32[] constant(2)\ntwos = f32[4] broadcast(two), dimensions={{}}",
            "zero, x, twos",
            LAST,
        ),
        loop_text(
            "s32[]; f32[4]",
            f"{COUNT}\ntwo = f32[] constant(2)\ntwos = f32[4] broadcast(two), dimensions={{}}\n"
            "y = f32[4] multiply(b1, twos)",
            "next, y",
            X,
            "zero, x",
            LAST,
        ),
    ),
    "an iota moves into the body": (
        "while-invariant-carries,while-dead-carries",
        loop_text(
            "s32[]; s32[4]; s32[4]",
            f"{COUNT}\ny = s32[4] add(b1, b2)",
            "next, y, b2",
            "x = s32[4] parameter(0)\nzero = s32[] constant(0)\n"
            "i = s32[4] iota(), iota_dimension=0",
            "zero, x, i",
            element("last", "s32[4]", 1, root=True),
        ),
        loop_text(
            "s32[]; s32[4]",
            f"{COUNT}\ni = s32[4] iota(), iota_dimension=0\ny = s32[4] add(b1, i)",
            "next, y",
            "x = s32[4] parameter(0)\nzero = s32[] constant(0)",
            "zero, x",
            element("last", "s32[4]", 1, root=True),
        ),
    ),
    "a constant that each step makes anew is one": (
        "while-invariant-carries,while-dead-carries",
        loop_text(
            "s32[]; f32[4]; f32[]",
            f"{COUNT}\nf = f32[4] broadcast(b2), dimensions={{}}\ny = f32[4] add(b1, f)\n"
            "again = f32[] constant(5)",
            "next, y, again",
            f"{X}\nfive = f32[] constant(5)",
            "zero, x, five",
            LAST,
        ),
        loop_text(
            "s32[]; f32[4]",
            f"{COUNT}\nfive = f32[] constant(5)\nf = f32[4] broadcast(five), dimensions={{}}\n"
            "y = f32[4] add(b1, f)",
            "next, y",
            X,
            "zero, x",
            LAST,
        ),
    ),
    "a large constant stays outside": (
        "while-invariant-carries",
        loop_text(
            "s32[]; f32[300]; f32[300]",
            f"{COUNT}\ny = f32[300] multiply(b1, b2)",
            "next, y, b2",
            "x = f32[300] parameter(0)\nzero = s32[] constant(0)\nw = f32[300] constant({...})",
            "zero, x, w",
            element("last", "f32[300]", 1, root=True),
        ),
        "",
    ),
    # -- what the counter decides -----------------------------------------------------------------
    "an index that never counts from the end": (
        "while-induction-range,algsimp",
        loop_text(
            "s32[]; f32[4]",
            f"{COUNT}\nnone = s32[] constant(0)\nis = pred[] compare(b0, none), direction=LT\n"
            "four = s32[] constant(4)\nback = s32[] add(b0, four)\n"
            "k = s32[] select(is, back, b0)\none.1 = f32[2] constant({1, 2})\n"
            "y = f32[4] dynamic-update-slice(b1, one.1, k)",
            "next, y",
            X,
            "zero, x",
            LAST,
        ),
        loop_text(
            "s32[]; f32[4]",
            f"{COUNT}\none.1 = f32[2] constant({{1, 2}})\n"
            "y = f32[4] dynamic-update-slice(b1, one.1, b0)",
            "next, y",
            X,
            "zero, x",
            LAST,
        ),
    ),
    "the last step differs": (
        "while-induction-range",
        loop_text(
            "s32[]; f32[4]",
            f"{COUNT}\ntwo = s32[] constant(2)\nis = pred[] compare(two, b0), direction=GT\n"
            "y = f32[4] sine(b1)\nz = f32[4] select(is, b1, y)",
            "next, z",
            X,
            "zero, x",
            LAST,
        ),
        "",
    ),
    "each third step differs": (
        "while-induction-range",
        loop_text(
            "s32[]; f32[4]",
            "three = s32[] constant(3)\nnext = s32[] add(b0, three)\nfour = s32[] constant(4)\n"
            "is = pred[] compare(b0, four), direction=EQ\n"
            "y = f32[4] sine(b1)\nz = f32[4] select(is, b1, y)",
            "next, z",
            X,
            "zero, x",
            LAST,
            below(12),
        ),
        "",
    ),
    # -- equal elements ----------------------------------------------------------------------------
    "two counters are one": (
        "while-duplicate-carries,while-dead-carries",
        loop_text(
            "s32[]; s32[]; f32[4]",
            f"{COUNT}\nuno = s32[] constant(1)\nnext.1 = s32[] add(uno, b1)\n"
            "f = f32[] convert(b1)\nfs = f32[4] broadcast(f), dimensions={}\n"
            "y = f32[4] multiply(b2, fs)",
            "next, next.1, y",
            X,
            "zero, zero, x",
            element("last", F, 2, root=True),
        ),
        loop_text(
            "s32[]; f32[4]",
            f"{COUNT}\nf = f32[] convert(b0)\nfs = f32[4] broadcast(f), dimensions={{}}\n"
            "y = f32[4] multiply(b1, fs)",
            "next, y",
            X,
            "zero, x",
            LAST,
        ),
    ),
    "elements that stay equal by turns are one": (
        "while-duplicate-carries,while-dead-carries",
        loop_text(
            "s32[]; f32[4]; f32[4]",
            f"{COUNT}\nu = f32[4] sine(b2)\nv = f32[4] sine(b1)",
            "next, u, v",
            X,
            "zero, x, x",
            element("u", F, 1) + "\n" + element("v", F, 2) + "\nROOT s = f32[4] add(u, v)",
        ),
        loop_text(
            "s32[]; f32[4]",
            f"{COUNT}\nu = f32[4] sine(b1)",
            "next, u",
            X,
            "zero, x",
            element("u", F, 1) + "\nROOT s = f32[4] add(u, u)",
        ),
    ),
    "an operand passed twice is passed once": (
        "while-duplicate-carries,while-dead-carries",
        loop_text(
            "s32[]; f32[4]; f32[4]; f32[4]",
            f"{COUNT}\nu = f32[4] multiply(b1, b2)\ny = f32[4] add(u, b3)",
            "next, y, b2, b3",
            XW,
            "zero, x, w, w",
            LAST,
        ),
        loop_text(
            "s32[]; f32[4]; f32[4]",
            f"{COUNT}\nu = f32[4] multiply(b1, b2)\ny = f32[4] add(u, b2)",
            "next, y, b2",
            XW,
            "zero, x, w",
            LAST,
        ),
    ),
    "elements that start equal may part": (
        "while-duplicate-carries",
        loop_text(
            "s32[]; f32[4]; f32[4]",
            f"{COUNT}\nu = f32[4] sine(b1)\nv = f32[4] cosine(b2)",
            "next, u, v",
            X,
            "zero, x, x",
            element("u", F, 1) + "\n" + element("v", F, 2) + "\nROOT s = f32[4] add(u, v)",
        ),
        "",
    ),
    # -- nested tuples -----------------------------------------------------------------------------
    "tuples within are taken apart": (
        "while-tuple-flattening,algsimp,dce",
        loop_text(
            "s32[]; (f32[4], (f32[4]))",
            f"{COUNT}\nu = f32[4] get-tuple-element(b1), index=0\n"
            "t = (f32[4]) get-tuple-element(b1), index=1\n"
            "v = f32[4] get-tuple-element(t), index=0\n"
            "y = f32[4] add(u, v)\ns = (f32[4]) tuple(u)\nd = (f32[4], (f32[4])) tuple(y, s)",
            "next, d",
            "x = f32[4] parameter(0)\nzero = s32[] constant(0)\ns = (f32[4]) tuple(x)\n"
            "d = (f32[4], (f32[4])) tuple(x, s)",
            "zero, d",
            element("p", "(f32[4], (f32[4]))", 1)
            + "\nROOT last = f32[4] get-tuple-element(p), index=0",
        ),
        loop_text(
            "s32[]; f32[4]; f32[4]",
            f"{COUNT}\ny = f32[4] add(b1, b2)",
            "next, y, b1",
            X,
            "zero, x, x",
            LAST,
        ),
    ),
    # -- work that moves out -----------------------------------------------------------------------
    "a product of what stays moves out": (
        "while-code-motion",
        matrix_loop(
            "ww = f32[4,4] dot(b2, b2), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
            "y = f32[4,4] add(b1, ww)",
            "next, y, b2",
        ),
        loop_text(
            "s32[]; f32[4,4]; f32[4,4]; f32[4,4]",
            f"{COUNT}\ny = f32[4,4] add(b1, b3)",
            "next, y, b2, b3",
            "x = f32[4,4] parameter(0)\nw = f32[4,4] parameter(1)\nzero = s32[] constant(0)\n"
            "ww = f32[4,4] dot(w, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
            "zero, x, w, ww",
            element("last", "f32[4,4]", 1, root=True),
        ),
    ),
    "with the conversion that leads to it": (
        "while-code-motion,dce",
        loop_text(
            "s32[]; f32[]; bf16[64]",
            f"{COUNT}\nf = f32[64] convert(b2)\nnone = f32[] constant(0)\n"
            "t = f32[] reduce(f, none), dimensions={0}, to_apply=sum\ny = f32[] add(b1, t)",
            "next, y, b2",
            "x = f32[] parameter(0)\nw = bf16[64] parameter(1)\nzero = s32[] constant(0)",
            "zero, x, w",
            element("last", "f32[]", 1, root=True),
            outside=SUM,
        ),
        loop_text(
            "s32[]; f32[]; bf16[64]; f32[]",
            f"{COUNT}\ny = f32[] add(b1, b3)",
            "next, y, b2, b3",
            "x = f32[] parameter(0)\nw = bf16[64] parameter(1)\nzero = s32[] constant(0)\n"
            "f = f32[64] convert(w)\nnone = f32[] constant(0)\n"
            "t = f32[] reduce(f, none), dimensions={0}, to_apply=sum",
            "zero, x, w, t",
            element("last", "f32[]", 1, root=True),
            outside=SUM,
        ),
    ),
    "work on constants moves out of a loop that passes nothing on": (
        "while-code-motion",
        loop_text(
            "s32[]; f32[]",
            f"{COUNT}\nw = f32[64] iota(), iota_dimension=0\nnone = f32[] constant(0)\n"
            "t = f32[] reduce(w, none), dimensions={0}, to_apply=sum\ny = f32[] add(b1, t)",
            "next, y",
            "x = f32[] parameter(0)\nzero = s32[] constant(0)",
            "zero, x",
            element("last", "f32[]", 1, root=True),
            outside=SUM,
        ),
        loop_text(
            "s32[]; f32[]; f32[]",
            f"{COUNT}\ny = f32[] add(b1, b2)",
            "next, y, b2",
            "x = f32[] parameter(0)\nzero = s32[] constant(0)\n"
            "w = f32[64] iota(), iota_dimension=0\nnone = f32[] constant(0)\n"
            "t = f32[] reduce(w, none), dimensions={0}, to_apply=sum",
            "zero, x, t",
            element("last", "f32[]", 1, root=True),
            outside=SUM,
        ),
    ),
    "a conversion to a wider type does not": (
        "while-code-motion",
        loop_text(
            "s32[]; f32[4]; bf16[4]",
            f"{COUNT}\nf = f32[4] convert(b2)\ny = f32[4] add(b1, f)",
            "next, y, b2",
            "x = f32[4] parameter(0)\nw = bf16[4] parameter(1)\nzero = s32[] constant(0)",
            "zero, x, w",
            LAST,
        ),
        "",
    ),
    "nor does a transpose": (
        "while-code-motion",
        matrix_loop(
            "t = f32[4,4] transpose(b2), dimensions={1,0}\ny = f32[4,4] add(b1, t)", "next, y, b2"
        ),
        "",
    ),
    "nor a product that is larger than its factors": (
        "while-code-motion",
        loop_text(
            "s32[]; f32[64,64]; f32[64]",
            f"{COUNT}\no = f32[64,64] dot(b2, b2), lhs_contracting_dims={{}}, "
            "rhs_contracting_dims={}\ny = f32[64,64] add(b1, o)",
            "next, y, b2",
            "x = f32[64,64] parameter(0)\nw = f32[64] parameter(1)\nzero = s32[] constant(0)",
            "zero, x, w",
            element("last", "f32[64,64]", 1, root=True),
        ),
        "",
    ),
    "nor what stands behind a barrier": (
        "while-code-motion",
        matrix_loop(
            "o = f32[4,4] opt-barrier(b2)\n"
            "ww = f32[4,4] dot(o, o), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
            "y = f32[4,4] add(b1, ww)",
            "next, y, b2",
        ),
        "",
    ),
    "nor a product with what changes": (
        "while-code-motion",
        matrix_loop(
            "y = f32[4,4] dot(b1, b2), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
            "next, y, b2",
        ),
        "",
    ),
    # -- what stays --------------------------------------------------------------------------------
    "a loop whose body is called elsewhere keeps its elements": (
        "while-dead-carries",
        loop_text(
            "s32[]; f32[4]; f32[4]",
            SINE,
            "next, y, b2",
            X,
            "zero, x, x",
            "again = (s32[], f32[4], f32[4]) call(start), to_apply=body\n"
            "s = f32[4] get-tuple-element(again), index=2\n"
            + element("y", F, 1)
            + "\nROOT t = f32[4] add(s, y)",
        ),
        "",
    ),
    "a body with products is not written out": (
        "while-unroller",
        matrix_loop(
            "y = f32[4,4] dot(b1, b2), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
            "next, y, b2",
        ),
        "",
    ),
    "nor a loop of many steps": (
        "while-unroller",
        loop_text("s32[]; f32[4]", SINE, "next, y", X, "zero, x", LAST, below(9)),
        "",
    ),
    "a loop that may never end stays": (
        "while-simplifier,while-unroller,while-trip-count",
        loop_text("s32[]; f32[4]", SINE, "b0, y", X, "zero, x", LAST, below(1, "GE")).replace(
            "constant(0)", "constant(4)"
        ),
        "",
    ),
}


@pytest.mark.parametrize(("passes", "before", "after"), CASES.values(), ids=CASES.keys())
def test_loops(passes: str, before: str, after: str) -> None:
    module = lowtide.parse_hlo(before)
    original = clone_module(module)
    changes = 0
    for step in parse_passes(passes):
        changes += run_pipeline(module, [step], [Checking(verify)])
        assert step.run(module) == 0
    expected = lowtide.parse_hlo(after or before)
    assert bool(changes) == bool(after)
    assert fingerprint(module) == fingerprint(expected), f"got\n{module}\nexpected\n{expected}"
    if "never end" not in before and after:
        assert_same_values(original, module)


def test_what_loops_count_is_written_as_xla_does() -> None:
    module = lowtide.parse_hlo(SIMPLE)
    for step in parse_passes("while-trip-count"):
        step.run(module)
    assert (
        'backend_config={"known_trip_count":{"n":"3"},"known_init_step":{"init":"0","step":"1"},'
        '"known_induction_variable":{"tuple_index":"0"}}'
    ) in str(module)


def test_a_budget_keeps_loops_and_settles() -> None:
    module = lowtide.parse_hlo(SIMPLE)
    (step,) = parse_passes("while-unroller{growth=1.0}")
    assert step.run(module) == 1
    assert 'frontend_attributes={unroll="false"}' in str(module)
    assert step.run(module) == 0
    assert not any(x.run(module) for x in parse_passes("while-unroller"))


def test_a_loop_with_control_edges_stays() -> None:
    text = ONCE.replace("body=body", "body=body, control-predecessors={early}").replace(
        "start =", "early = f32[4] cosine(x)\nstart ="
    )
    module = lowtide.parse_hlo(text)
    for step in parse_passes(
        "while-simplifier,while-unroller,while-dead-carries,while-invariant-carries"
    ):
        assert step.run(module) == 0


ALL_PASSES = (
    "while-simplifier,while-unroller,while-dead-carries,while-invariant-carries,"
    "while-duplicate-carries,while-code-motion,while-tuple-flattening,while-dead-carries"
)


def test_a_loop_that_starts_from_an_argument() -> None:
    text = loop_text(
        "s32[]; f32[4]; f32[4]",
        f"{SINE}\nagain = f32[4] constant({{1, 2, 3, 4}})",
        "next, y, b2",
        "given = (s32[], f32[4], f32[4]) parameter(0)",
        "",
        element("y", F, 1) + "\n" + element("w", F, 2) + "\nROOT s = f32[4] add(y, w)",
    )
    text = text.replace("start = (s32[], f32[4], f32[4]) tuple()\n", "").replace("start", "given")
    module = lowtide.parse_hlo(text)
    original = clone_module(module)
    run_pipeline(module, parse_passes(ALL_PASSES), [Checking(verify)])
    assert "(s32[], f32[4]{0}) while(" in str(module)
    assert_same_values(original, module)


def test_a_loop_read_as_a_whole_keeps_its_shape_outside() -> None:
    step = (
        "ww = f32[4,4] dot(b2, b2), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        "y = f32[4,4] add(b1, ww)"
    )
    text = matrix_loop(step, "next, y, b2").split("ROOT last")[0] + "}"
    module = lowtide.parse_hlo(text.replace("\nloop =", "\nROOT loop ="))
    original = clone_module(module)
    run_pipeline(module, parse_passes(ALL_PASSES), [Checking(verify)])
    assert module.entry.root.opcode is Opcode.TUPLE
    assert_same_values(original, module)


def test_long_chains_need_no_recursion_and_little_time() -> None:
    lines = [f"y{i + 1} = f32[4] sine(y{i})" for i in range(5_000)]
    chain = "\n".join(["y0 = f32[4] sine(b1)", *lines])
    text = loop_text(
        "s32[]; f32[4]", f"{COUNT}\n{chain}", "next, y5000", X, "zero, x", LAST, LESS_THAN_3
    )
    module = lowtide.parse_hlo(text)
    for step in parse_passes(ALL_PASSES):
        assert step.run(module) == 0


def test_a_loop_that_was_removed_with_its_reader_is_passed_over() -> None:
    """The second loop never runs; with it goes the first one, which the walk meets later."""
    before, after = ONCE.split("ENTRY main {\n")
    second = before.replace("HloModule m\n", "").replace("constant(1)\nROOT", "constant(-1)\nROOT")
    second = second.replace("condition {", "never {").replace("body {", "other {")
    main = after.replace("ROOT last", "y").replace(
        "}",
        "again = (s32[], f32[4]) tuple(zero, y)\n"
        "early = (s32[], f32[4]) while(again), condition=never, body=other\n"
        "ROOT i = s32[] get-tuple-element(early), index=0\n}",
    )
    module = lowtide.parse_hlo(f"{before}{second}ENTRY main {{\n{main}")
    instructions = module.entry.instructions
    instructions["loop"] = instructions.pop("loop")  # Last, as after a replacement.
    original = clone_module(module)
    run_pipeline(module, parse_passes("while-simplifier"), [Checking(verify)])
    assert not any(x.opcode is Opcode.WHILE for x in instructions.values())
    assert_same_values(original, module)


def changed_by(text: str, name: str) -> bool:
    """Whether a pass changes a module; what it computes stays."""
    module = lowtide.parse_hlo(text)
    before = clone_module(module)
    changes = run_pipeline(module, parse_passes(name))
    verify(module)
    assert_same_values(before, module)
    return bool(changes)


@pytest.mark.parametrize(("first", "is_constant"), [(2, True), (3, False)])
def test_a_state_that_starts_as_another_constant_is_none(first, is_constant) -> None:
    """Each step makes a 2 of it: only what starts as that is the same in all steps."""
    step = f"{COUNT}\ntwo = s32[] constant(2)\nf = f32[] convert(b2)\n"
    step += f"g = {F} broadcast(f), dimensions={{}}\ny = {F} multiply(b1, g)"
    given = f"{X}\nfirst = s32[] constant({first})"
    text = loop_text("s32[]; f32[4]; s32[]", step, "next, y, two", given, "zero, x, first", LAST)
    assert changed_by(text, "while-invariant-carries") == is_constant


def test_loops_that_share_a_body_with_an_effect_stay() -> None:
    """Written out twice, the body would send twice on one channel."""
    step = f'{COUNT}\ny = {F} custom-call(b1), custom_call_target="t", '
    step += "custom_call_has_side_effect=true"
    again = "first = f32[4] get-tuple-element(loop), index=1\n"
    again += "more = (s32[], f32[4]) tuple(zero, first)\n"
    again += "twice = (s32[], f32[4]) while(more), condition=condition, body=body\n"
    again += "ROOT last = f32[4] get-tuple-element(twice), index=1"
    text = loop_text("s32[]; f32[4]", step, "next, y", X, "zero, x", again, below(1))
    module = lowtide.parse_hlo(text)
    assert not run_pipeline(module, parse_passes("while-simplifier"))
    once = loop_text("s32[]; f32[4]", step, "next, y", X, "zero, x", LAST, below(1))
    assert run_pipeline(lowtide.parse_hlo(once), parse_passes("while-simplifier"))


CAST = """
HloModule m
condition {
  c = (s32[], f32[4], bf16[3,4]) parameter(0)
  i = s32[] get-tuple-element(c), index=0
  n = s32[] constant(3)
  ROOT more = pred[] compare(i, n), direction=LT
}
body {
  b = (s32[], f32[4], bf16[3,4]) parameter(0)
  i = s32[] get-tuple-element(b), index=0
  x = f32[4] get-tuple-element(b), index=1
  w = bf16[3,4] get-tuple-element(b), index=2
  zero = s32[] constant(0)
  row = bf16[1,4] dynamic-slice(w, PLACE, zero), dynamic_slice_sizes={1,4}
  flat = bf16[4] reshape(row)
  wide = f32[4] convert(flat)
  y = f32[4] multiply(x, wide)
  one = s32[] constant(1)
  next = s32[] add(i, one)
  ROOT r = (s32[], f32[4], bf16[3,4]) tuple(next, y, w)
}
ENTRY main {
  x = f32[4] parameter(0)
  stacked = f32[3,4] parameter(1)
  small = bf16[3,4] convert(MADE)
  start = s32[] constant(0)
  init = (s32[], f32[4], bf16[3,4]) tuple(start, x, small)
  loop = (s32[], f32[4], bf16[3,4]) while(init), condition=condition, body=body
  ROOT out = f32[4] get-tuple-element(loop), index=1
}
"""


@pytest.mark.parametrize(
    ("made", "steps", "sinks"),
    [
        ("stacked", 3, True),
        ("stacked", 9, False),  # each row is read several times
        ("turned", 3, False),  # what is cast need not live otherwise
    ],
)
def test_narrowing_casts_of_arguments_are_done_on_slices(
    made: str, steps: int, sinks: bool
) -> None:
    text = CAST.replace("PLACE", "i").replace("MADE", made).replace("(3)", f"({steps})")
    text = text.replace("  small", "  turned = f32[3,4] sine(stacked)\n  small")
    module = lowtide.parse_hlo(text)
    before = clone_module(module)
    run_pipeline(module, parse_passes("while-relayout-sinking,dce"))
    verify(module)
    assert_same_values(before, module, seeds=1)
    body = module.computations["body"].instructions.values()
    casts = [x for x in body if x.opcode is Opcode.CONVERT and x.shape.rank == 2]
    assert len(casts) == sinks


@pytest.mark.parametrize(("result", "sinks"), [("", False), (", stacked", True)])
def test_narrowing_casts_let_go_of_donated_arguments(result: str, sinks: bool) -> None:
    """Behind the cast the memory of one that nothing else reads is for others."""
    text = CAST.replace("PLACE", "i").replace("MADE", "stacked")
    text = text.replace("HloModule m", "HloModule m, buffer_donor={ (1, {}) }")
    text = text.replace("ROOT out =", "out =")
    types = "(f32[4], f32[3,4])" if result else "(f32[4])"
    text = text.rstrip().removesuffix("}") + f"  ROOT all = {types} tuple(out{result})\n}}\n"
    module = lowtide.parse_hlo(text)
    run_pipeline(module, parse_passes("while-relayout-sinking,dce"))
    body = module.computations["body"].instructions.values()
    casts = [x for x in body if x.opcode is Opcode.CONVERT and x.shape.rank == 2]
    assert len(casts) == sinks
