"""Quotients and remainders."""

from tests.transforms.simplify.cases.notation import Case

CASES: list[Case] = [
    (
        "divide-by-power-of-two",
        "x: f32[4]; c: f32[4] = 8; a = f32[4] divide(x, c)",
        "x: f32[4]; c: f32[4] = 0.125; a = f32[4] multiply(x, c)",
    ),
    (
        "divide-by-power-of-two",
        "x: bf16[4]; c: bf16[4] = -0.5; a = bf16[4] divide(x, c)",
        "x: bf16[4]; c: bf16[4] = -2; a = bf16[4] multiply(x, c)",
    ),
    ("divide-by-power-of-two", "x: f32[4]; c: f32[4] = 3; a = f32[4] divide(x, c)", None),
    ("divide-by-power-of-two", "x: f32[4]; c: f32[4] = 0; a = f32[4] divide(x, c)", None),
    ("divide-by-power-of-two", "x: f32[4]; c: f32[4] = inf; a = f32[4] divide(x, c)", None),
    (
        "divide-by-power-of-two",
        "x: f32[4]; c: f32[4] = 1.7014118e38; a = f32[4] divide(x, c)",
        None,  # the reciprocal is subnormal
    ),
    ("divide-by-power-of-two", "x: s32[4]; c: s32[4] = 8; a = s32[4] divide(x, c)", None),
    (
        "divide-by-constant",
        "x: f32[4]; c: f32[4] = 3; a = f32[4] divide(x, c)",
        "x: f32[4]; c: f32[4] = 0.333333343; a = f32[4] multiply(x, c)",
    ),
    ("divide-by-constant", "x: f32[4]; c: f32[4] = 0; a = f32[4] divide(x, c)", None),
    (
        "divide-by-broadcast",
        "x: f32[2,4]; y: f32[2]; b = f32[2,4] broadcast(y), dimensions={0}; "
        "a = f32[2,4] divide(x, b)",
        "x: f32[2,4]; y: f32[2]; one: f32[2] = 1; r = f32[2] divide(one, y); "
        "b = f32[2,4] broadcast(r), dimensions={0}; a = f32[2,4] multiply(x, b)",
    ),
    (
        "divide-by-broadcast",
        "x: s32[2,4]; y: s32[2]; b = s32[2,4] broadcast(y), dimensions={0}; "
        "a = s32[2,4] divide(x, b)",
        None,
    ),
    (
        "divide-quotient",
        "x: f32[4]; y: f32[4]; z: f32[4]; a = f32[4] divide(x, y); b = f32[4] divide(a, z)",
        "x: f32[4]; y: f32[4]; z: f32[4]; a = f32[4] multiply(y, z); b = f32[4] divide(x, a)",
    ),
    (
        "divide-by-quotient",
        "x: f32[4]; y: f32[4]; z: f32[4]; a = f32[4] divide(y, z); b = f32[4] divide(x, a)",
        "x: f32[4]; y: f32[4]; z: f32[4]; a = f32[4] multiply(x, z); b = f32[4] divide(a, y)",
    ),
    (
        "times-reciprocal",
        "x: f32[4]; y: f32[4]; one: f32[4] = 1; r = f32[4] divide(one, y); "
        "a = f32[4] multiply(r, x)",
        "x: f32[4]; y: f32[4]; a = f32[4] divide(x, y)",
    ),
    (
        "divide-self",
        "x: f32[4]; e = f32[4] exponential(x); a = f32[4] divide(e, e)",
        "x: f32[4]; a: f32[4] = 1",
    ),
    (
        "divide-unsigned-twice",
        "x: u8[4]; c: u8[4] = 3; d: u8[4] = 5; a = u8[4] divide(x, c); b = u8[4] divide(a, d)",
        "x: u8[4]; c: u8[4] = 15; a = u8[4] divide(x, c)",
    ),
    (
        "divide-unsigned-twice",
        "x: u8[4]; c: u8[4] = 16; a = u8[4] divide(x, c); b = u8[4] divide(a, c)",
        None,  # 256 wraps around
    ),
    (
        "divide-unsigned-by-power-of-two",
        "x: u32[4]; c: u32[4] = 8; a = u32[4] divide(x, c)",
        "x: u32[4]; c: u32[4] = 3; a = u32[4] shift-right-logical(x, c)",
    ),
    ("divide-unsigned-by-power-of-two", "x: u32[4]; c: u32[4] = 6; a = u32[4] divide(x, c)", None),
    (
        "divide-signed-by-power-of-two",
        "x: s32[4]; c: s32[4] = 8; a = s32[4] divide(x, c)",
        "x: s32[4]; m: s32[4] = 31; n: s32[4] = 29; s = s32[4] shift-right-arithmetic(x, m); "
        "l = s32[4] shift-right-logical(s, n); b = s32[4] add(x, l); k: s32[4] = 3; "
        "a = s32[4] shift-right-arithmetic(b, k)",
    ),
    ("divide-signed-by-power-of-two", "x: s32[4]; c: s32[4] = -8; a = s32[4] divide(x, c)", None),
    (
        "remainder-by-one",
        "x: s32[4]; c: s32[4] = 1; a = s32[4] remainder(x, c)",
        "x: s32[4]; a: s32[4] = 0",
    ),
    (
        "remainder-by-power-of-two",
        "x: u32[4]; c: u32[4] = 8; a = u32[4] remainder(x, c)",
        "x: u32[4]; c: u32[4] = 7; a = u32[4] and(x, c)",
    ),
    ("remainder-by-power-of-two", "x: u32[4]; c: u32[4] = 0; a = u32[4] remainder(x, c)", None),
    (
        "remainder-of-signed-by-power-of-two",
        "x: s32[4]; c: s32[4] = 8; a = s32[4] remainder(x, c)",
        "x: s32[4]; m: s32[4] = 31; n: s32[4] = 29; s = s32[4] shift-right-arithmetic(x, m); "
        "l = s32[4] shift-right-logical(s, n); b = s32[4] add(x, l); k: s32[4] = 7; "
        "r = s32[4] and(b, k); a = s32[4] subtract(r, l)",
    ),
    (
        "remainder-twice",
        "x: s32[4]; y: s32[4]; a = s32[4] remainder(x, y); b = s32[4] remainder(a, y)",
        "x: s32[4]; y: s32[4]; a = s32[4] remainder(x, y)",
    ),
    (
        "remainder-of-zero",
        "x: s32[4]; c: s32[4] = 0; a = s32[4] remainder(c, x)",
        "x: s32[4]; c: s32[4] = 0",
    ),
]
