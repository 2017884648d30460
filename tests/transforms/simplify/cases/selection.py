"""Select, clamp, maximum and minimum with constants."""

from tests.transforms.simplify.cases.notation import Case, on_both

P = "p: pred[4]; x: s32[4]; y: s32[4]"

CASES: list[Case] = [
    (
        "select-known",
        "x: f32[4]; y: f32[4]; p: pred[4] = false; a = f32[4] select(p, x, y)",
        "x: f32[4]; y: f32[4]",
    ),
    (
        "select-known",
        "x: f32[4]; y: f32[4]; p: pred[] = true; a = f32[4] select(p, x, y)",
        "x: f32[4]; y: f32[4]; ROOT x",
    ),
    ("select-same", "p: pred[4]; x: f32[4]; a = f32[4] select(p, x, x)", "p: pred[4]; x: f32[4]"),
    (
        "select-by-complement",
        f"{P}; q = pred[4] not(p); a = s32[4] select(q, x, y)",
        f"{P}; a = s32[4] select(p, y, x)",
    ),
    (
        "select-truth-values",
        "p: pred[4]; x: pred[4]; c: pred[4] = true; a = pred[4] select(p, c, x)",
        "p: pred[4]; x: pred[4]; a = pred[4] or(p, x)",
    ),
    (
        "select-truth-values",
        "p: pred[4]; x: pred[4]; c: pred[4] = false; a = pred[4] select(p, x, c)",
        "p: pred[4]; x: pred[4]; a = pred[4] and(p, x)",
    ),
    (
        "select-truth-values",
        "p: pred[4]; x: pred[4]; c: pred[4] = false; a = pred[4] select(p, c, x)",
        "p: pred[4]; x: pred[4]; q = pred[4] not(p); a = pred[4] and(q, x)",
    ),
    (
        "select-truth-values",
        "p: pred[4]; x: pred[4]; c: pred[4] = true; a = pred[4] select(p, x, c)",
        "p: pred[4]; x: pred[4]; q = pred[4] not(p); a = pred[4] or(q, x)",
    ),
    (
        "select-one-or-zero",
        "p: pred[4]; c: f32[4] = 1; d: f32[4] = 0; a = f32[4] select(p, c, d)",
        "p: pred[4]; a = f32[4] convert(p)",
    ),
    (
        "select-one-or-zero",
        "p: pred[4]; c: s32[4] = 1; d: s32[4] = 0; a = s32[4] select(p, d, c)",
        "p: pred[4]; q = pred[4] not(p); a = s32[4] convert(q)",
    ),
    (
        "select-one-or-zero",
        "p: pred[4]; c: f32[4] = 1; d: f32[4] = -0; a = f32[4] select(p, c, d)",
        None,
    ),
    (
        "select-by-the-same",
        f"{P}; z: s32[4]; a = s32[4] select(p, x, y); b = s32[4] select(p, z, a)",
        f"{P}; z: s32[4]; b = s32[4] select(p, z, y)",
    ),
    (
        "select-by-the-same",
        f"{P}; z: s32[4]; a = s32[4] select(p, x, y); b = s32[4] select(p, a, z)",
        f"{P}; z: s32[4]; b = s32[4] select(p, x, z)",
    ),
    (
        "select-same-of-two",
        f"{P}; q: pred[4]; a = s32[4] select(q, x, y); b = s32[4] select(p, a, y)",
        f"{P}; q: pred[4]; a = pred[4] and(p, q); b = s32[4] select(a, x, y)",
    ),
    (
        "select-same-of-two",
        f"{P}; q: pred[4]; z: s32[4]; a = s32[4] select(q, x, z); b = s32[4] select(p, a, y)",
        None,
    ),
    (
        "select-same-of-either",
        f"{P}; q: pred[4]; a = s32[4] select(q, x, y); b = s32[4] select(p, x, a)",
        f"{P}; q: pred[4]; a = pred[4] or(p, q); b = s32[4] select(a, x, y)",
    ),
    (
        "select-by-comparison",
        "x: s32[4]; y: s32[4]; p = pred[4] compare(x, y), direction=LT; a = s32[4] select(p, y, x)",
        "x: s32[4]; y: s32[4]; a = s32[4] maximum(y, x)",
    ),
    (
        "select-by-comparison",
        "x: s32[4]; y: s32[4]; p = pred[4] compare(x, y), direction=EQ; a = s32[4] select(p, x, y)",
        "x: s32[4]; y: s32[4]",
    ),
    (
        "select-by-comparison",
        "x: f32[4]; y: f32[4]; p = pred[4] compare(x, y), direction=LT; a = f32[4] select(p, y, x)",
        None,
    ),
    (
        "convert-selected-constants",
        "p: pred[4]; c: s32[4] = 7; d: s32[4] = 0; a = s32[4] select(p, c, d); "
        "b = f32[4] convert(a)",
        "p: pred[4]; c: s32[] = 7; d: s32[] = 0; e = f32[] convert(c); f = f32[] convert(d); "
        "g = f32[4] broadcast(e), dimensions={}; h = f32[4] broadcast(f), dimensions={}; "
        "b = f32[4] select(p, g, h)",
    ),
    *on_both(
        "masked",
        "x: T[4]; p: pred[4]; m = T[4] convert(p); a = T[4] multiply(m, x)",
        "x: T[4]; p: pred[4]; c: T[4] = 0; a = T[4] select(p, x, c)",
    ),
    ("extreme-of-extreme", "x: f32[4]; c: f32[4] = -inf; a = f32[4] maximum(x, c)", "x: f32[4]"),
    ("extreme-of-extreme", "x: s8[4]; c: s8[4] = 127; a = s8[4] minimum(x, c)", "x: s8[4]"),
    ("extreme-of-extreme", "x: f32[4]; c: f32[4] = inf; a = f32[4] maximum(x, c)", None),
    (
        "extreme-within-bounds",
        "x = s32[4] iota(), iota_dimension=0; c: s32[4] = 3; a = s32[4] minimum(x, c)",
        "x = s32[4] iota(), iota_dimension=0",
    ),
    (
        "extreme-within-bounds",
        "x: s8[4]; c: s8[4] = -128; a = s8[4] minimum(x, c)",
        "x: s8[4]; c: s8[4] = -128",
    ),
    ("extreme-within-bounds", "x: s8[4]; c: s8[4] = -127; a = s8[4] minimum(x, c)", None),
    (
        "extreme-of-negated",
        "x: f32[4]; y: f32[4]; m = f32[4] negate(x); n = f32[4] negate(y); "
        "a = f32[4] maximum(m, n)",
        "x: f32[4]; y: f32[4]; a = f32[4] minimum(x, y); b = f32[4] negate(a)",
    ),
    (
        "clamp-within-bounds",
        "x = s32[4] iota(), iota_dimension=0; c: s32[] = 0; d: s32[] = 3; "
        "a = s32[4] clamp(c, x, d)",
        "x = s32[4] iota(), iota_dimension=0",
    ),
    (
        "clamp-within-bounds",
        "x: s32[4]; c: s32[] = 0; d: s32[] = 3; a = s32[4] clamp(c, x, d)",
        None,
    ),
    (
        "clamp-clamped",
        "x: f32[4]; c: f32[]; d: f32[]; a = f32[4] clamp(c, x, d); b = f32[4] clamp(c, a, d)",
        "x: f32[4]; c: f32[]; d: f32[]; a = f32[4] clamp(c, x, d)",
    ),
    (
        "clamp-to-one-value",
        "x: s32[4]; c: s32[] = 5; d: s32[] = 3; a = s32[4] clamp(c, x, d)",
        "x: s32[4]; a: s32[4] = 3",
    ),
    (
        "clamp-on-one-side",
        "x: u8[4]; c: u8[4] = 0; d: u8[4] = 3; a = u8[4] clamp(c, x, d)",
        "x: u8[4]; d: u8[4] = 3; a = u8[4] minimum(x, d)",
    ),
    (
        "clamp-on-one-side",
        "x: u8[4]; c: u8[] = 2; d: u8[] = 255; a = u8[4] clamp(c, x, d)",
        "x: u8[4]; c: u8[4] = 2; a = u8[4] maximum(x, c)",
    ),
    (
        "merge-clamps",
        "x: s32[4]; c: s32[] = 0; d: s32[] = 9; e: s32[] = 4; f: s32[] = 20; "
        "a = s32[4] clamp(c, x, d); b = s32[4] clamp(e, a, f)",
        "x: s32[4]; c: s32[] = 4; d: s32[] = 9; a = s32[4] clamp(c, x, d)",
    ),
    (
        "merge-clamps",
        "x: s32[4]; c: s32[] = 0; d: s32[] = 3; e: s32[] = 4; f: s32[] = 20; "
        "a = s32[4] clamp(c, x, d); b = s32[4] clamp(e, a, f)",
        None,
    ),
]
