"""Classic rewrites of loops and conditionals, by all passes of the simplified stage at once."""

import re

import pytest
from tests.transforms.control_flow.loops import COUNT, element, loop_text

import lowtide
from lowtide import compiler
from lowtide.analysis.loop_trip_count import trip_count
from lowtide.ir import Opcode
from lowtide.ir.clone import clone_module
from lowtide.ir.printer import fingerprint
from lowtide.passes.instrumentation import Checking
from lowtide.testing.check_pass import assert_same_values
from lowtide.verifier import verify

# -- how often a loop runs -----------------------------------------------------------------------

TRIP_COUNTS: dict[str, tuple[str, str, str, int | None]] = {
    # start, step, condition, how often; the counter is c0 in the condition and b0 in the body
    "up": ("s32[] constant(0)", "add(b0, k1)", "compare(c0, k20), direction=LT", 20),
    "up to and with": ("s32[] constant(0)", "add(b0, k1)", "compare(c0, k20), direction=LE", 21),
    "until equal": ("s32[] constant(2)", "add(b0, k3)", "compare(c0, k20), direction=NE", 6),
    "past equal": ("s32[] constant(1)", "add(b0, k3)", "compare(c0, k20), direction=NE", None),
    "by three": ("s32[] constant(0)", "add(k3, b0)", "compare(c0, k20), direction=LT", 7),
    "down": ("s32[] constant(30)", "subtract(b0, k1)", "compare(c0, k20), direction=GT", 10),
    "down by three": (
        "s32[] constant(40)",
        "subtract(b0, k3)",
        "compare(c0, k20), direction=GE",
        7,
    ),
    "down by adding": ("s32[] constant(30)", "add(b0, k-1)", "compare(c0, k20), direction=GE", 11),
    "bound first": ("s32[] constant(0)", "add(b0, k1)", "compare(k20, c0), direction=GT", 20),
    "doubling": ("s32[] constant(1)", "add(b0, b0)", "compare(c0, k20), direction=LT", 5),
    "halving": ("s32[] constant(900)", "divide(b0, k3)", "compare(c0, k20), direction=GT", None),
    "from an argument": (
        "s32[] parameter(1)",
        "add(b0, k1)",
        "compare(c0, k20), direction=LT",
        None,
    ),
    "the wrong way": (
        "s32[] constant(0)",
        "subtract(b0, k1)",
        "compare(c0, k20), direction=LT",
        None,
    ),
    "in place": ("s32[] constant(0)", "multiply(b0, k3)", "compare(c0, k20), direction=LT", None),
    "not once": ("s32[] constant(21)", "add(b0, k1)", "compare(c0, k20), direction=LT", 0),
}


def counting_loop(start: str, step: str, condition: str) -> str:
    """A loop around a sine that is too heavy to be written out."""
    numbers = sorted(set(re.findall(r"\bk-?\d+", step)))
    made = [f"{k.replace('-', 'm')} = s32[] constant({k[1:]})" for k in numbers]
    return loop_text(
        "s32[]; f32[4,4]",
        "\n".join([*made, f"next = s32[] {step.replace('k-', 'km')}", DOT.format("b1", "b1")]),
        "next, d",
        f"x = f32[4,4] parameter(0)\nfirst = {start}",
        "first, x",
        element("last", "f32[4,4]", 1, root=True),
        f"k20 = s32[] constant(20)\nROOT more = pred[] {condition}",
    )


DOT = "d = f32[4,4] dot({}, {}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"


@pytest.mark.parametrize("name", TRIP_COUNTS)
def test_trip_counts(name: str) -> None:
    *text, count = TRIP_COUNTS[name]
    module = lowtide.parse_hlo(counting_loop(*text))
    original = clone_module(module)
    compiler.optimize(module, compiler.PlanOptions("simplified"), [Checking(verify)])
    loops = [x for x in module.entry.instructions.values() if x.opcode is Opcode.WHILE]
    assert len(loops) == (count != 0)
    for loop in loops:
        found = re.search(r'"known_trip_count":\{"n":"(\d+)"\}', loop.annotations.backend_config)
        assert (found and int(found[1])) == count
        if count is None:
            assert trip_count(loop) is None
    if count is not None:
        assert_same_values(original, module, seeds=1)


# -- whole programs ------------------------------------------------------------------------------


def known(count: int, start: int = 0, step: int = 1, index: int = 0) -> str:
    """The annotation of a loop with an induction variable."""
    return (
        f', backend_config={{"known_trip_count":{{"n":"{count}"}},"known_init_step":'
        f'{{"init":"{start}","step":"{step}"}},"known_induction_variable":{{"tuple_index":"{index}"}}}}'
    )


def entry(body: str) -> str:
    return f"HloModule m\nENTRY main {{\n{body}\n}}"


F = "f32[4]"
SAME = "with its trip count, but else the same"
M = "f32[4,4]"
TO_20 = "n = s32[] constant(20)\nROOT more = pred[] compare(c0, n), direction=LT"
X = "x = f32[4] parameter(0)\nzero = s32[] constant(0)"
XM = "x = f32[4,4] parameter(0)\nw = f32[4,4] parameter(1)\nzero = s32[] constant(0)"
SINE = f"{COUNT}\ny = f32[4] sine(b1)"
LAST = element("last", F, 1, root=True)
LAST_M = element("last", M, 1, root=True)
PLAIN = loop_text("s32[]; f32[4]", SINE, "next, y", X, "zero, x", LAST, TO_20, config=known(20))


def loop(
    carried: str,
    step: str,
    results: str,
    given: str,
    starts: str,
    after: str = LAST,
    more: str = TO_20,
    outside: str = "",
    config: str = "",
) -> str:
    return loop_text(carried, step, results, given, starts, after, more, outside, config)


ROW = (
    f"{COUNT}\nnone = s32[] constant(0)\n"
    "row = {} dynamic-slice({}), dynamic_slice_sizes={{{}}}"
)
LESS = (
    "less {\np = f32[] parameter(0)\nq = f32[] parameter(1)\n"
    "ROOT s = pred[] compare(p, q), direction=LT\n}"
)


def nested(
    outer: int, inner: int, step: str, extra: str = "", given: str = "", config: bool = False
) -> str:
    """A loop in a loop; `step` makes `y` of the elements `g1` and, where there is one, `g2`."""
    shapes = f"s32[], f32[4]{', ' if extra else ''}{extra}"
    configs = [known(inner), known(outer)] if config else ["", ""]
    passed = [f", {x}2" if extra else "" for x in "gh"]
    read = [f"{x}2 = {extra} get-tuple-element({x}), index=2" if extra else "" for x in "gh"]
    return f"""HloModule m
inner_condition {{
c = ({shapes}) parameter(0)
i = s32[] get-tuple-element(c), index=0
n = s32[] constant({inner})
ROOT more = pred[] compare(i, n), direction=LT
}}
inner_body {{
g = ({shapes}) parameter(0)
g0 = s32[] get-tuple-element(g), index=0
g1 = f32[4] get-tuple-element(g), index=1
{read[0]}
one = s32[] constant(1)
next = s32[] add(g0, one)
{step}
ROOT r = ({shapes}) tuple(next, y{passed[0]})
}}
condition {{
d = ({shapes}) parameter(0)
j = s32[] get-tuple-element(d), index=0
m = s32[] constant({outer})
ROOT more.1 = pred[] compare(j, m), direction=LT
}}
body {{
h = ({shapes}) parameter(0)
h0 = s32[] get-tuple-element(h), index=0
h1 = f32[4] get-tuple-element(h), index=1
{read[1]}
uno = s32[] constant(1)
next.1 = s32[] add(h0, uno)
none = s32[] constant(0)
t = ({shapes}) tuple(none, h1{passed[1]})
in = ({shapes}) while(t), condition=inner_condition, body=inner_body{configs[0]}
y.1 = f32[4] get-tuple-element(in), index=1
ROOT r.1 = ({shapes}) tuple(next.1, y.1{passed[1]})
}}
ENTRY main {{
x = f32[4] parameter(0)
zero = s32[] constant(0)
{given}
start = ({shapes}) tuple(zero, x{", w" if extra else ""})
loop = ({shapes}) while(start), condition=condition, body=body{configs[1]}
{LAST}
}}"""


def branches(first: str, second: str, size: int = 4) -> str:
    made = [
        f"{name} {{\np.{i} = f32[{size}] parameter(0)\nROOT q.{i} = f32[{size}] {opcode}(p.{i})\n}}"
        for i, (name, opcode) in enumerate((("first", first), ("second", second)))
    ]
    return "\n".join(made)


def choice(first: str, second: str, before: str, selector: str = "q", size: int = 4) -> str:
    """A conditional of two operations."""
    return (
        f"HloModule m\n{branches(first, second, size)}\nENTRY main {{\ni = pred[] parameter(0)\n"
        f"x = f32[{size}] parameter(1)\n{before}\n"
        f"ROOT z = f32[{size}] conditional({selector}, x, x), "
        "true_computation=first, false_computation=second\n}"
    )


CASES: dict[str, tuple[str, str]] = {
    # -- loops that go, and how far they count ---------------------------------------------------
    "the bound is a product of constants": (
        loop(
            "s32[]; f32[4]; s32[]",
            SINE,
            "next, y, b2",
            f"{X}\nk = s32[] constant(5)\nl = s32[] constant(4)\nn = s32[] multiply(k, l)",
            "zero, x, n",
            more="ROOT more = pred[] compare(c0, c2), direction=LT",
        ),
        PLAIN,
    ),
    "a bound that is found to be zero": (
        loop(
            "s32[]; f32[4]; s32[]",
            SINE,
            "next, y, b2",
            f"{X}\nk = s32[] constant(-5)\nn = s32[] negate(k)\nm = s32[] add(k, n)",
            "zero, x, m",
            more="ROOT more = pred[] compare(c0, c2), direction=LT",
        ),
        entry("ROOT x = f32[4] parameter(0)"),
    ),
    "a body that changes nothing": (
        loop("s32[]; f32[4]", f"{COUNT}\ny = f32[4] copy(b1)", "next, y", X, "zero, x"),
        entry("ROOT x = f32[4] parameter(0)"),
    ),
    "a loop that nobody reads": (
        loop("s32[]; f32[4]", SINE, "next, y", X, "zero, x", "ROOT z = f32[4] negate(x)"),
        entry("x = f32[4] parameter(0)\nROOT z = f32[4] negate(x)"),
    ),
    "only the counter is read": (
        loop("s32[]; f32[4]", SINE, "next, y", X, "zero, x", element("i", "s32[]", 0, root=True)),
        entry("x = f32[4] parameter(0)\nROOT n = s32[] constant(20)"),
    ),
    "one step of a loop around another": (nested(1, 20, "y = f32[4] sine(g1)"), PLAIN),
    "a loop of one step in another": (nested(20, 1, "y = f32[4] sine(g1)"), PLAIN),
    "two tiny loops in each other": (
        nested(2, 2, "y = f32[4] sine(g1)"),
        entry(
            "x = f32[4] parameter(0)\na = f32[4] sine(x)\nb = f32[4] sine(a)\n"
            "c = f32[4] sine(b)\nROOT d = f32[4] sine(c)"
        ),
    ),
    "a tiny loop that fills rows": (
        loop(
            "s32[]; f32[2,4]; f32[4]",
            f"{SINE.replace('b1', 'b2')}\nrow = f32[1,4] reshape(y)\nnone = s32[] constant(0)\n"
            "d = f32[2,4] dynamic-update-slice(b1, row, b0, none)",
            "next, d, y",
            f"{X}\nc = f32[] constant(0)\nrows = f32[2,4] broadcast(c), dimensions={{}}",
            "zero, rows, x",
            element("rows.1", "f32[2,4]", 1, root=True),
            TO_20.replace("20", "2"),
        ),
        entry(
            "x = f32[4] parameter(0)\na = f32[4] sine(x)\nb = f32[1,4] reshape(a)\n"
            "zero = f32[] constant(0)\nc = f32[2,4] pad(b, zero), padding=0_1x0_0\n"
            "d = f32[4] sine(a)\ne = f32[1,4] reshape(d)\none = s32[] constant(1)\n"
            "none = s32[] constant(0)\nROOT f = f32[2,4] dynamic-update-slice(c, e, one, none)"
        ),
    ),
    # -- what loops carry ------------------------------------------------------------------------
    "two counters, a constant and a copy are carried": (
        loop(
            "s32[]; f32[4]; s32[]; f32[]; f32[4]",
            f"{COUNT}\nuno = s32[] constant(1)\nother = s32[] add(b2, uno)\n"
            "f = f32[4] broadcast(b3), dimensions={}\ny = f32[4] divide(b1, f)",
            "next, y, other, b3, y",
            f"{X}\nthree = f32[] constant(3)",
            "zero, x, zero, three, x",
        ),
        loop(
            "s32[]; f32[4]",
            f"{COUNT}\nthree = f32[] constant(3)\nf = f32[4] broadcast(three), dimensions={{}}\n"
            "y = f32[4] divide(b1, f)",
            "next, y",
            X,
            "zero, x",
            config=known(20),
        ),
    ),
    "elements that change places": (
        loop(
            "s32[]; f32[4]; f32[4]; f32[4]",
            f"{COUNT}\ny = f32[4] sine(b1)",
            "next, y, b3, b2",
            f"{X}\nv = f32[4] parameter(1)",
            "zero, x, v, v",
        ),
        PLAIN.replace("zero =", "v = f32[4] parameter(1)\nzero ="),
    ),
    "equal elements that change places": (
        loop(
            "s32[]; f32[4]; f32[4]; f32[4]",
            f"{COUNT}\ns = f32[4] multiply(b2, b3)\ny = f32[4] add(b1, s)",
            "next, y, b3, b2",
            f"{X}\nv = f32[4] parameter(1)",
            "zero, x, v, v",
        ),
        loop(
            "s32[]; f32[4]; f32[4]",
            f"{COUNT}\ns = f32[4] multiply(b2, b2)\ny = f32[4] add(b1, s)",
            "next, y, b2",
            f"{X}\nv = f32[4] parameter(1)",
            "zero, x, v",
            config=known(20),
        ),
    ),
    "dead elements of nested tuples": (
        loop(
            "s32[]; (f32[4], (f32[4], s32[]))",
            f"{COUNT}\nu = f32[4] get-tuple-element(b1), index=0\n"
            "p = (f32[4], s32[]) get-tuple-element(b1), index=1\n"
            "v = f32[4] get-tuple-element(p), index=0\nk = s32[] get-tuple-element(p), index=1\n"
            "y = f32[4] sine(u)\nw = f32[4] cosine(v)\n"
            "q = (f32[4], s32[]) tuple(w, k)\nr2 = (f32[4], (f32[4], s32[])) tuple(y, q)",
            "next, r2",
            f"{X}\np = (f32[4], s32[]) tuple(x, zero)\nd = (f32[4], (f32[4], s32[])) tuple(x, p)",
            "zero, d",
            element("t", "(f32[4], (f32[4], s32[]))", 1)
            + "\nROOT last = f32[4] get-tuple-element(t), index=0",
        ),
        PLAIN,
    ),
    "a constant goes through two loops": (
        nested(
            20,
            30,
            "f = f32[4] broadcast(g2), dimensions={}\ny = f32[4] divide(g1, f)",
            "f32[]",
            "w = f32[] constant(3)",
        ),
        nested(
            20,
            30,
            "w = f32[] constant(3)\nf = f32[4] broadcast(w), dimensions={}\n"
            "y = f32[4] divide(g1, f)",
            config=True,
        ),
    ),
    # -- what moves out of loops and what does not ------------------------------------------------
    "a product moves out of both loops": (
        nested(
            20,
            30,
            "d = f32[] dot(g2, g2), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
            "f = f32[4] broadcast(d), dimensions={}\ny = f32[4] divide(g1, f)",
            "f32[4]",
            "w = f32[4] parameter(1)",
        ),
        nested(
            20,
            30,
            "f = f32[4] broadcast(g2), dimensions={}\ny = f32[4] divide(g1, f)",
            "f32[]",
            "v = f32[4] parameter(1)\n"
            "w = f32[] dot(v, v), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
            config=True,
        ),
    ),
    "sorted weights": (
        loop(
            "s32[]; f32[4]; f32[4]",
            f"{COUNT}\ns = f32[4] sort(b2), dimensions={{0}}, to_apply=less\n"
            "y = f32[4] multiply(b1, s)",
            "next, y, b2",
            f"{X}\nw = f32[4] parameter(1)",
            "zero, x, w",
            outside=LESS,
        ),
        loop(
            "s32[]; f32[4]; f32[4]",
            f"{COUNT}\ny = f32[4] multiply(b1, b2)",
            "next, y, b2",
            f"{X}\nw = f32[4] parameter(1)\ns = f32[4] sort(w), dimensions={{0}}, to_apply=less",
            "zero, x, s",
            outside=LESS,
            config=known(20),
        ),
    ),
    "elementwise work of large arrays stays": (
        loop(
            "s32[]; f32[999]; f32[999]",
            f"{COUNT}\ne = f32[999] exponential(b2)\ny = f32[999] multiply(b1, e)",
            "next, y, b2",
            "x = f32[999] parameter(0)\nw = f32[999] parameter(1)\nzero = s32[] constant(0)",
            "zero, x, w",
            element("last", "f32[999]", 1, root=True),
        ),
        SAME,
    ),
    "an up-cast and a transpose of stacked weights are done slice by slice": (
        loop(
            "s32[]; f32[4]; f32[20,4]",
            f"{ROW.format('f32[1,4]', 'b2, b0, none', '1,4')}\nflat = f32[4] reshape(row)\n"
            "y = f32[4] multiply(b1, flat)",
            "next, y, b2",
            f"{X}\nw = bf16[4,20] parameter(1)\nf = f32[4,20] convert(w)\n"
            "t = f32[20,4] transpose(f), dimensions={1,0}",
            "zero, x, t",
        ),
        loop(
            "s32[]; f32[4]; bf16[4,20]",
            f"{ROW.format('bf16[4,1]', 'b2, none, b0', '4,1')}\nf = f32[4,1] convert(row)\n"
            "flat = f32[4] reshape(f)\ny = f32[4] multiply(b1, flat)",
            "next, y, b2",
            f"{X}\nw = bf16[4,20] parameter(1)",
            "zero, x, w",
            config=known(20),
        ),
    ),
    "a barrier keeps what is before it": (
        loop(
            "s32[]; f32[4,4]; f32[4,4]",
            f"{COUNT}\nw = f32[4,4] opt-barrier(b2)\n{DOT.format('w', 'w')}\n"
            "y = f32[4,4] add(b1, d)",
            "next, y, b2",
            XM,
            "zero, x, w",
            LAST_M,
        ),
        SAME,
    ),
    # -- conditionals ----------------------------------------------------------------------------
    "a constant comparison chooses": (
        choice(
            "sine",
            "cosine",
            "a = s32[] constant(3)\nb = s32[] constant(4)\nq = pred[] compare(a, b), direction=GT",
        ),
        entry("i = pred[] parameter(0)\nx = f32[4] parameter(1)\nROOT z = f32[4] cosine(x)"),
    ),
    "not of not": (
        choice("sine", "cosine", "j = pred[] not(i)\nq = pred[] not(j)", size=999),
        choice("sine", "cosine", "", "i", size=999),
    ),
    "small branches are a selection": (
        choice("sine", "cosine", "", "i"),
        entry(
            "i = pred[] parameter(0)\nis = pred[4] broadcast(i), dimensions={}\n"
            "x = f32[4] parameter(1)\na = f32[4] sine(x)\nb = f32[4] cosine(x)\n"
            "ROOT z = f32[4] select(is, a, b)"
        ),
    ),
    "large branches that come out equal": (
        choice("negate", "negate", "", "i", size=999),
        entry("i = pred[] parameter(0)\nx = f32[999] parameter(1)\nROOT z = f32[999] negate(x)"),
    ),
}


@pytest.mark.parametrize(("before", "after"), CASES.values(), ids=CASES.keys())
def test_whole_stage(before: str, after: str) -> None:
    module = lowtide.parse_hlo(before)
    original = clone_module(module)
    compiler.optimize(module, compiler.PlanOptions("simplified"), [Checking(verify)])
    if after == SAME:
        after = before.replace("body=body", f"body=body{known(20)}")
    expected = lowtide.parse_hlo(after)
    assert fingerprint(module) == fingerprint(expected), f"got\n{module}\nexpected\n{expected}"
    assert_same_values(original, module, seeds=2)
