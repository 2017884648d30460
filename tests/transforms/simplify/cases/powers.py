"""Powers, roots, exponentials, logarithms."""

from tests.transforms.simplify.cases.notation import Case, on_both


def power(exponent: str, after: str | None, element_type: str = "f32") -> tuple[str, str | None]:
    """Return the bodies of a power with a constant exponent and of what it becomes."""
    t = element_type
    before = f"x: {t}[4]; c: {t}[4] = {exponent}; a = {t}[4] power(x, c)"
    return before, None if after is None else f"x: {t}[4]; {after}"


def function(name: str, of: str) -> str:
    """Return the body of a function of another one."""
    return f"x: f32[4]; a = f32[4] {of}(x); b = f32[4] {name}(a)"


CASES: list[Case] = [
    ("power-zero", *power("0", "a: f32[4] = 1")),
    ("power-one", *power("1", "ROOT x")),
    ("power-two", *power("2", "a = f32[4] multiply(x, x)")),
    ("power-two", *power("2", "a = s32[4] multiply(x, x)", "s32")),
    ("power-two", *power("3", None)),
    *on_both(
        "power-small",
        "x: T[4]; c: T[4] = 3; a = T[4] power(x, c)",
        "x: T[4]; a = T[4] multiply(x, x); b = T[4] multiply(a, x)",
    ),
    ("power-small", *power("4", "a = u8[4] multiply(x, x); b = u8[4] multiply(a, a)", "u8")),
    (
        "power-minus-one",  # of numbers whose reciprocals NumPy rounds correctly
        "x: f32[4]; s = f32[4] sign(x); c: f32[4] = -1; a = f32[4] power(s, c)",
        "x: f32[4]; s = f32[4] sign(x); c: f32[4] = 1; a = f32[4] divide(c, s)",
    ),
    ("power-minus-one", *power("-1", None, "s32")),
    (
        "power-minus-small",
        *power("-2", "c: f32[4] = 1; b = f32[4] multiply(x, x); a = f32[4] divide(c, b)"),
    ),
    (
        "power-half",  # of numbers whose roots NumPy rounds correctly
        "x: f32[4]; y = f32[4] sign(x); c: f32[4] = 0.5; a = f32[4] power(y, c)",
        "x: f32[4]; y = f32[4] sign(x); d: f32[4] = -inf; p = pred[4] compare(y, d), direction=EQ; "
        "e: f32[4] = inf; r = f32[4] sqrt(y); z: f32[4] = 0; s = f32[4] add(r, z); "
        "a = f32[4] select(p, e, s)",
    ),
    ("power-half", *power("1.5", None)),
    ("power-three-halves", *power("1.5", "a = f32[4] sqrt(x); b = f32[4] multiply(x, a)")),
    ("power-minus-half", *power("-0.5", "a = f32[4] rsqrt(x)")),
    (
        "power-of-one",
        "x: f32[4]; c: f32[4] = 1; a = f32[4] power(c, x)",
        "x: f32[4]; c: f32[4] = 1",
    ),
    (
        "power-of-power",
        "x: f32[4]; y: f32[4]; z: f32[4]; a = f32[4] power(x, y); b = f32[4] power(a, z)",
        "x: f32[4]; y: f32[4]; z: f32[4]; a = f32[4] multiply(y, z); b = f32[4] power(x, a)",
    ),
    (
        "power-of-exponential",
        "x: f32[4]; y: f32[4]; a = f32[4] exponential(x); b = f32[4] power(a, y)",
        "x: f32[4]; y: f32[4]; a = f32[4] multiply(x, y); b = f32[4] exponential(a)",
    ),
    (
        "power-times-base",
        "x: s32[4]; c: s32[4] = 5; a = s32[4] power(x, c); b = s32[4] multiply(x, a)",
        "x: s32[4]; c: s32[4] = 6; a = s32[4] power(x, c)",
    ),
    (
        "power-times-base",
        "x: s32[4]; c: s32[4] = -2; a = s32[4] power(x, c); b = s32[4] multiply(x, a)",
        None,
    ),
    (
        "root-times-root",
        "x: f32[4]; e = f32[4] exponential(x); a = f32[4] sqrt(e); b = f32[4] multiply(a, a)",
        "x: f32[4]; e = f32[4] exponential(x)",
    ),
    (
        "root-times-root",
        "x: f32[4]; e = f32[4] exponential(x); a = f32[4] rsqrt(e); b = f32[4] multiply(a, a)",
        "x: f32[4]; e = f32[4] exponential(x); c: f32[4] = 1; b = f32[4] divide(c, e)",
    ),
    (
        "root-of-square",
        "x: f32[4]; a = f32[4] multiply(x, x); b = f32[4] sqrt(a)",
        "x: f32[4]; b = f32[4] abs(x)",
    ),
    (
        "one-over-root",
        "x: f32[4]; c: f32[4] = 1; a = f32[4] sqrt(x); b = f32[4] divide(c, a)",
        "x: f32[4]; b = f32[4] rsqrt(x)",
    ),
    (
        "one-over-root",
        "x: f16[4]; c: f16[4] = 1; a = f16[4] sqrt(x); b = f16[4] divide(c, a)",
        None,  # the root is rounded on its own there
    ),
    (
        "divide-by-root",
        "x: f32[4]; y: f32[4]; a = f32[4] sqrt(y); b = f32[4] divide(x, a)",
        "x: f32[4]; y: f32[4]; a = f32[4] rsqrt(y); b = f32[4] multiply(x, a)",
    ),
    (
        "divide-by-root",
        "x: f32[4]; y: f32[4]; a = f32[4] rsqrt(y); b = f32[4] divide(x, a)",
        "x: f32[4]; y: f32[4]; a = f32[4] sqrt(y); b = f32[4] multiply(x, a)",
    ),
    (
        "root-of-reciprocal",
        "x: f32[4]; c: f32[4] = 1; a = f32[4] divide(c, x); b = f32[4] sqrt(a)",
        "x: f32[4]; b = f32[4] rsqrt(x)",
    ),
    (
        "times-own-root",
        "x: f32[4]; y = f32[4] exponential(x); a = f32[4] rsqrt(y); b = f32[4] multiply(a, y)",
        "x: f32[4]; y = f32[4] exponential(x); a = f32[4] sqrt(y)",
    ),
    (
        "product-of-exponentials",
        "x: f32[4]; y: f32[4]; a = f32[4] exponential(x); b = f32[4] exponential(y); "
        "c = f32[4] multiply(a, b)",
        "x: f32[4]; y: f32[4]; a = f32[4] add(x, y); b = f32[4] exponential(a)",
    ),
    (
        "divide-by-exponential",
        "x: f32[4]; y: f32[4]; a = f32[4] exponential(y); b = f32[4] divide(x, a)",
        "x: f32[4]; y: f32[4]; a = f32[4] negate(y); b = f32[4] exponential(a); "
        "c = f32[4] multiply(x, b)",
    ),
    ("function-of-inverse", function("log", "exponential"), "x: f32[4]"),
    ("function-of-inverse", function("tanh", "exponential"), None),
    (
        "log-of-power",
        "x: f32[4]; c: f32[4] = 3; e = f32[4] exponential(x); a = f32[4] power(e, c); "
        "b = f32[4] log(a)",
        "x: f32[4]; c: f32[4] = 3; e = f32[4] exponential(x); a = f32[4] log(e); "
        "b = f32[4] multiply(a, c)",
    ),
    ("log-of-power", "x: f32[4]; c: f32[4] = 2; a = f32[4] power(x, c); b = f32[4] log(a)", None),
    (
        "log-of-root",
        "x: f32[4]; a = f32[4] sqrt(x); b = f32[4] log(a)",
        "x: f32[4]; a = f32[4] log(x); c: f32[4] = 0.5; b = f32[4] multiply(a, c)",
    ),
    (
        "exponential-minus-one",
        "x: f32[4]; c: f32[4] = -1; a = f32[4] exponential(x); b = f32[4] add(a, c)",
        "x: f32[4]; b = f32[4] exponential-minus-one(x)",
    ),
    (
        "log-of-one-plus",
        "x: f32[4]; c: f32[4] = 1; a = f32[4] add(x, c); b = f32[4] log(a)",
        "x: f32[4]; b = f32[4] log-plus-one(x)",
    ),
]
