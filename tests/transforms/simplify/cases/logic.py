"""Bits, truth values, shifts."""

from tests.transforms.simplify.cases.notation import Case

CASES: list[Case] = [
    ("same-operands", "x: f32[4]; a = f32[4] maximum(x, x)", "x: f32[4]"),
    ("same-operands", "x: s32[4]; a = s32[4] and(x, x)", "x: s32[4]"),
    (
        "extremes-of-truth-values",
        "x: pred[4]; y: pred[4]; a = pred[4] maximum(x, y)",
        "x: pred[4]; y: pred[4]; a = pred[4] or(x, y)",
    ),
    ("xor-self", "x: u8[4]; a = u8[4] xor(x, x)", "x: u8[4]; a: u8[4] = 0"),
    ("and-constant", "x: u8[4]; c: u8[4] = 255; a = u8[4] and(x, c)", "x: u8[4]"),
    (
        "and-constant",
        "x: pred[4]; c: pred[4] = false; a = pred[4] and(x, c)",
        "x: pred[4]; c: pred[4] = false",
    ),
    ("and-constant", "x: u8[4]; c: u8[4] = 1; a = u8[4] and(x, c)", None),
    ("or-constant", "x: s8[4]; c: s8[4] = 0; a = s8[4] or(x, c)", "x: s8[4]"),
    (
        "or-constant",
        "x: pred[4]; c: pred[4] = true; a = pred[4] or(x, c)",
        "x: pred[4]; c: pred[4] = true",
    ),
    ("xor-constant", "x: s8[4]; c: s8[4] = -1; a = s8[4] xor(x, c)", "x: s8[4]; a = s8[4] not(x)"),
    ("xor-constant", "x: s8[4]; c: s8[4] = 0; a = s8[4] xor(x, c)", "x: s8[4]"),
    (
        "merge-equal-operations",
        "x: c64[4]; c: c64[4] = (1,2); d: c64[4] = (1,3); a = c64[4] maximum(x, c); "
        "b = c64[4] maximum(a, d)",
        None,
    ),
    (
        "merge-equal-operations",
        "x: s8[4]; c: s8[4] = 12; d: s8[4] = 10; a = s8[4] and(x, c); b = s8[4] and(a, d)",
        "x: s8[4]; c: s8[4] = 8; a = s8[4] and(x, c)",
    ),
    (
        "merge-equal-operations",
        "x: f32[4]; c: f32[4] = 0; d: f32[4] = -0; a = f32[4] maximum(x, c); "
        "b = f32[4] maximum(a, d)",
        "x: f32[4]; c: f32[4] = 0; a = f32[4] maximum(x, c)",
    ),
    (
        "repeated-operand",
        "x: f32[4]; y: f32[4]; a = f32[4] maximum(x, y); b = f32[4] maximum(x, a)",
        "x: f32[4]; y: f32[4]; a = f32[4] maximum(x, y)",
    ),
    (
        "absorb",
        "x: s8[4]; y: s8[4]; a = s8[4] minimum(x, y); b = s8[4] maximum(x, a)",
        "x: s8[4]; y: s8[4]; ROOT x",
    ),
    (
        "absorb",
        "x: pred[4]; y: pred[4]; a = pred[4] or(y, x); b = pred[4] and(a, x)",
        "x: pred[4]; y: pred[4]; ROOT x",
    ),
    (
        "absorb",
        "x: f32[4]; y: f32[4]; a = f32[4] minimum(x, y); b = f32[4] maximum(x, a)",
        None,  # y may be NaN
    ),
    (
        "with-complement",
        "x: pred[4]; a = pred[4] not(x); b = pred[4] or(x, a)",
        "x: pred[4]; b: pred[4] = true",
    ),
    (
        "with-complement",
        "x: u8[4]; a = u8[4] not(x); b = u8[4] xor(a, x)",
        "x: u8[4]; b: u8[4] = 255",
    ),
    (
        "with-complement",
        "x: u8[4]; a = u8[4] not(x); b = u8[4] and(a, x)",
        "x: u8[4]; b: u8[4] = 0",
    ),
    (
        "complements-together",
        "x: pred[4]; y: pred[4]; a = pred[4] not(x); b = pred[4] not(y); c = pred[4] and(a, b)",
        "x: pred[4]; y: pred[4]; a = pred[4] or(x, y); c = pred[4] not(a)",
    ),
    (
        "xor-of-complement",
        "x: s8[4]; c: s8[4] = 5; a = s8[4] not(x); b = s8[4] xor(a, c)",
        "x: s8[4]; c: s8[4] = -6; b = s8[4] xor(x, c)",
    ),
    (
        "xor-of-complement",
        "x: s8[4]; y: s8[4]; a = s8[4] not(x); b = s8[4] not(y); c = s8[4] xor(a, b)",
        "x: s8[4]; y: s8[4]; c = s8[4] xor(x, y)",
    ),
    (
        "cancel-xor",
        "x: s8[4]; y: s8[4]; a = s8[4] xor(x, y); b = s8[4] xor(y, a)",
        "x: s8[4]; y: s8[4]; ROOT x",
    ),
    ("not-not", "x: s8[4]; a = s8[4] not(x); b = s8[4] not(a)", "x: s8[4]"),
    (
        "not-comparison",
        "x: s8[4]; y: s8[4]; a = pred[4] compare(x, y), direction=LT; b = pred[4] not(a)",
        "x: s8[4]; y: s8[4]; a = pred[4] compare(x, y), direction=GE",
    ),
    (
        "not-comparison",
        "x: f32[4]; y: f32[4]; a = pred[4] compare(x, y), direction=EQ; b = pred[4] not(a)",
        "x: f32[4]; y: f32[4]; a = pred[4] compare(x, y), direction=NE",
    ),
    (
        "not-comparison",
        "x: f32[4]; y: f32[4]; a = pred[4] compare(x, y), direction=LT; b = pred[4] not(a)",
        None,
    ),
    ("shift-by-nothing", "x: s8[4]; c: s8[4] = 0; a = s8[4] shift-left(x, c)", "x: s8[4]"),
    (
        "shift-of-zero",
        "x: s8[4]; c: s8[4] = 0; a = s8[4] shift-right-arithmetic(c, x)",
        "x: s8[4]; c: s8[4] = 0",
    ),
    ("shift-out", "x: s8[4]; c: s8[4] = -1; a = s8[4] shift-left(x, c)", "x: s8[4]; a: s8[4] = 0"),
    ("shift-out", "x: s8[4]; c: s8[4] = 7; a = s8[4] shift-left(x, c)", None),
    (
        "shift-twice",
        "x: s8[4]; c: s8[4] = 2; d: s8[4] = 3; a = s8[4] shift-left(x, c); "
        "b = s8[4] shift-left(a, d)",
        "x: s8[4]; c: s8[4] = 5; a = s8[4] shift-left(x, c)",
    ),
    (
        "shift-twice",
        "x: s8[4]; c: s8[4] = 6; a = s8[4] shift-right-arithmetic(x, c); "
        "b = s8[4] shift-right-arithmetic(a, c)",
        "x: s8[4]; c: s8[4] = 7; a = s8[4] shift-right-arithmetic(x, c)",
    ),
    (
        "shift-twice",
        "x: s8[4]; c: s8[4] = 4; a = s8[4] shift-right-logical(x, c); "
        "b = s8[4] shift-right-logical(a, c)",
        "x: s8[4]; a: s8[4] = 0",
    ),
    (
        "shift-there-and-back",
        "x: s8[4]; c: s8[4] = 3; a = s8[4] shift-right-arithmetic(x, c); "
        "b = s8[4] shift-left(a, c)",
        "x: s8[4]; c: s8[4] = -8; a = s8[4] and(x, c)",
    ),
    (
        "shift-there-and-back",
        "x: u8[4]; c: u8[4] = 3; a = u8[4] shift-left(x, c); b = u8[4] shift-right-logical(a, c)",
        "x: u8[4]; c: u8[4] = 31; a = u8[4] and(x, c)",
    ),
    (
        "bits-of-one-shift",
        "x: u8[4]; y: u8[4]; c: u8[4] = 3; a = u8[4] shift-left(x, c); "
        "b = u8[4] shift-left(y, c); d = u8[4] or(a, b)",
        "x: u8[4]; y: u8[4]; c: u8[4] = 3; d = u8[4] or(x, y); a = u8[4] shift-left(d, c)",
    ),
    (
        "count-truth-value",
        "x: pred[4]; a = s32[4] convert(x); b = s32[4] popcnt(a)",
        "x: pred[4]; a = s32[4] convert(x)",
    ),
]
