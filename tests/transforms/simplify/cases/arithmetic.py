"""Sums, differences, products."""

from tests.transforms.simplify.cases.notation import Case, on_both

CASES: list[Case] = [
    (
        "constant-on-the-right",
        "x: f32[4]; c: f32[4] = 2; a = f32[4] add(c, x)",
        "x: f32[4]; c: f32[4] = 2; a = f32[4] add(x, c)",
    ),
    (
        "constant-on-the-right",
        "x: u8[4]; c: u8[4] = 2; a = u8[4] xor(c, x)",
        "x: u8[4]; c: u8[4] = 2; a = u8[4] xor(x, c)",
    ),
    ("constant-on-the-right", "x: f32[4]; c: f32[4] = 2; a = f32[4] subtract(c, x)", None),
    (
        "constant-on-the-right",
        "x: f32[4]{0}; c: bf16[4] = 2; a = f32[4] add(c, x)",
        None,  # operands of two types
    ),
    (
        "truth-values",
        "x: pred[4]; y: pred[4]; a = pred[4] add(x, y)",
        "x: pred[4]; y: pred[4]; a = pred[4] or(x, y)",
    ),
    (
        "truth-values",
        "x: pred[4]; y: pred[4]; a = pred[4] multiply(x, y)",
        "x: pred[4]; y: pred[4]; a = pred[4] and(x, y)",
    ),
    ("add-nothing", "x: s32[4]; c: s32[4] = 0; a = s32[4] add(x, c)", "x: s32[4]"),
    ("add-nothing", "x: f32[4]; c: f32[4] = -0; a = f32[4] add(x, c)", "x: f32[4]"),
    ("add-nothing", "x: f32[4]; c: f32[4] = 0; a = f32[4] add(x, c)", None),
    ("add-zero", "x: f32[4]; c: f32[4] = 0; a = f32[4] add(x, c)", "x: f32[4]"),
    ("add-zero", "x: f32[4]; c: f32[4] = 1; a = f32[4] add(x, c)", None),
    ("subtract-zero", "x: f32[4]; c: f32[4] = 0; a = f32[4] subtract(x, c)", "x: f32[4]"),
    ("subtract-zero", "x: f32[4]; c: f32[4] = -0; a = f32[4] subtract(x, c)", None),
    *on_both("subtract-self", "x: T[4]; a = T[4] subtract(x, x)", "x: T[4]; a: T[4] = 0"),
    ("times-one", "x: f32[4]; c: f32[4] = 1; a = f32[4] divide(x, c)", "x: f32[4]"),
    ("times-one", "x: s32[]; c: s32[] = 1; a = s32[] multiply(x, c)", "x: s32[]"),
    ("times-one", "x: f32[4]; c: f32[4] = 2; a = f32[4] divide(x, c)", None),
    ("times-one", "x: c64[4]; c: c64[4] = (1,0); a = c64[4] multiply(x, c)", None),
    *on_both("times-zero", "x: T[4]; c: T[4] = 0; a = T[4] multiply(x, c)", "x: T[4]; c: T[4] = 0"),
    (
        "times-minus-one",
        "x: f32[4]; c: f32[4] = -1; a = f32[4] multiply(x, c)",
        "x: f32[4]; a = f32[4] negate(x)",
    ),
    (
        "times-minus-one",
        "x: s8[4]; c: s8[4] = -1; a = s8[4] divide(x, c)",
        "x: s8[4]; a = s8[4] negate(x)",
    ),
    ("times-minus-one", "x: u8[4]; c: u8[4] = 255; a = u8[4] divide(x, c)", None),
    ("negate-negated", "x: f32[4]; a = f32[4] negate(x); b = f32[4] negate(a)", "x: f32[4]"),
    *on_both(
        "negate-difference",
        "x: T[4]; y: T[4]; a = T[4] subtract(x, y); b = T[4] negate(a)",
        "x: T[4]; y: T[4]; a = T[4] subtract(y, x)",
    ),
    (
        "negate-difference",
        "x: s32[4]; y: s32[4]; a = s32[4] subtract(x, y); b = s32[4] negate(a); "
        "c = s32[4] multiply(a, b)",
        None,  # the difference is needed anyway
    ),
    (
        "add-negated",
        "x: f32[4]; y: f32[4]; n = f32[4] negate(y); a = f32[4] add(x, n)",
        "x: f32[4]; y: f32[4]; a = f32[4] subtract(x, y)",
    ),
    (
        "add-negated",
        "x: f32[4]; y: f32[4]; n = f32[4] negate(y); a = f32[4] add(n, x)",
        "x: f32[4]; y: f32[4]; a = f32[4] subtract(x, y)",
    ),
    (
        "subtract-negated",
        "x: f32[4]; y: f32[4]; n = f32[4] negate(y); a = f32[4] subtract(x, n)",
        "x: f32[4]; y: f32[4]; a = f32[4] add(x, y)",
    ),
    (
        "subtract-constant",
        "x: f32[4]; c: f32[4] = 2; a = f32[4] subtract(x, c)",
        "x: f32[4]; c: f32[4] = -2; a = f32[4] add(x, c)",
    ),
    (
        "subtract-constant",
        "x: u8[4]; c: u8[4] = 1; a = u8[4] subtract(x, c)",
        "x: u8[4]; c: u8[4] = 255; a = u8[4] add(x, c)",
    ),
    ("subtract-constant", "x: f32[4]; c: f32[4] = 2; a = f32[4] subtract(c, x)", None),
    (
        "product-of-negated",
        "x: f32[4]; y: f32[4]; m = f32[4] negate(x); n = f32[4] negate(y); a = f32[4] divide(m, n)",
        "x: f32[4]; y: f32[4]; a = f32[4] divide(x, y)",
    ),
    (
        "negated-times-constant",
        "x: f32[4]; c: f32[4] = 3; n = f32[4] negate(x); a = f32[4] multiply(n, c)",
        "x: f32[4]; c: f32[4] = -3; a = f32[4] multiply(x, c)",
    ),
    (
        "negate-times-constant",
        "x: f32[4]; c: f32[4] = 3; a = f32[4] multiply(x, c); n = f32[4] negate(a)",
        "x: f32[4]; c: f32[4] = -3; a = f32[4] multiply(x, c)",
    ),
    *on_both(
        "merge-constants",
        "x: T[4]; c: T[4] = 3; d: T[4] = 5; a = T[4] add(x, c); b = T[4] add(a, d)",
        "x: T[4]; c: T[4] = 8; a = T[4] add(x, c)",
    ),
    (
        "merge-constants",
        "x: u8[4]; c: u8[4] = 20; a = u8[4] multiply(x, c); b = u8[4] multiply(a, c)",
        "x: u8[4]; c: u8[4] = 144; a = u8[4] multiply(x, c)",
    ),
    (
        "merge-constants",
        "x: s32[4]; c: s32[4] = 3; d: s32[4] = 5; a = s32[4] add(x, c); b = s32[4] multiply(a, d)",
        None,
    ),
    *on_both(
        "constant-minus-sum",
        "x: T[4]; c: T[4] = 3; d: T[4] = 5; a = T[4] add(x, d); b = T[4] subtract(c, a)",
        "x: T[4]; c: T[4] = -2; b = T[4] subtract(c, x)",
    ),
    (
        "cancel-added",
        "x: s32[4]; y: s32[4]; a = s32[4] add(x, y); b = s32[4] subtract(a, y)",
        "x: s32[4]; y: s32[4]; ROOT x",
    ),
    (
        "cancel-added",
        "x: s32[4]; y: s32[4]; a = s32[4] add(x, y); b = s32[4] subtract(a, x)",
        "x: s32[4]; y: s32[4]; ROOT y",
    ),
    (
        "cancel-added",
        "x: s32[4]; y: s32[4]; a = s32[4] subtract(x, y); b = s32[4] add(y, a)",
        "x: s32[4]; y: s32[4]; ROOT x",
    ),
    ("cancel-added", "x: f32[4]; y: f32[4]; a = f32[4] add(x, y); b = f32[4] subtract(a, y)", None),
    (
        "cancel-subtracted",
        "x: s32[4]; y: s32[4]; a = s32[4] subtract(x, y); b = s32[4] subtract(x, a)",
        "x: s32[4]; y: s32[4]; ROOT y",
    ),
    (
        "cancel-subtracted",
        "x: s32[4]; y: s32[4]; a = s32[4] add(y, x); b = s32[4] subtract(x, a)",
        "x: s32[4]; y: s32[4]; b = s32[4] negate(y)",
    ),
    *on_both(
        "common-factor",
        "x: T[4]; y: T[4]; z: T[4]; a = T[4] multiply(x, z); b = T[4] multiply(z, y); "
        "c = T[4] subtract(a, b)",
        "x: T[4]; y: T[4]; z: T[4]; a = T[4] subtract(x, y); c = T[4] multiply(a, z)",
    ),
    (
        "common-factor",
        "x: s32[4]; y: s32[4]; z: s32[4]; a = s32[4] multiply(x, z); b = s32[4] multiply(z, y); "
        "c = s32[4] subtract(a, b); d = s32[4] add(c, a)",
        None,
    ),
    *on_both(
        "merge-broadcasts",
        "z: T[2,4]; x: T[4]; y: T[4]; a = T[2,4] broadcast(x), dimensions={1}; "
        "b = T[2,4] broadcast(y), dimensions={1}; c = T[2,4] add(z, a); d = T[2,4] add(c, b)",
        "z: T[2,4]; x: T[4]; y: T[4]; s = T[4] add(x, y); "
        "b = T[2,4] broadcast(s), dimensions={1}; d = T[2,4] add(z, b)",
    ),
    (
        "merge-broadcasts",
        "z: s32[4,4]; x: s32[4]; y: s32[4]; a = s32[4,4] broadcast(x), dimensions={0}; "
        "b = s32[4,4] broadcast(y), dimensions={1}; c = s32[4,4] add(z, a); "
        "d = s32[4,4] add(c, b)",
        None,
    ),
]
