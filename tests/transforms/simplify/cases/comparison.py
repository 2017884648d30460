"""Comparisons."""

from tests.transforms.simplify.cases.notation import Case

COUNT = "x = s32[4] iota(), iota_dimension=0"

CASES: list[Case] = [
    (
        "compare-constant-on-the-right",
        "x: f32[4]; c: f32[4] = 2; a = pred[4] compare(c, x), direction=LE",
        "x: f32[4]; c: f32[4] = 2; a = pred[4] compare(x, c), direction=GE",
    ),
    (
        "compare-self",
        "x: s32[4]; a = pred[4] compare(x, x), direction=LE",
        "x: s32[4]; a: pred[4] = true",
    ),
    (
        "compare-self",
        "x: f32[4]; a = pred[4] compare(x, x), direction=LT",
        "x: f32[4]; a: pred[4] = false",
    ),
    (
        "compare-self",
        "x: f32[4]; a = pred[4] compare(x, x), direction=NE, type=TOTALORDER",
        "x: f32[4]; a: pred[4] = false",
    ),
    ("compare-self", "x: f32[4]; a = pred[4] compare(x, x), direction=EQ", None),
    ("compare-self", "x: f32[4]; a = pred[4] compare(x, x), direction=NE", None),
    (
        "compare-truth-value",
        "x: pred[4]; c: pred[4] = true; a = pred[4] compare(x, c), direction=EQ",
        "x: pred[4]",
    ),
    (
        "compare-truth-value",
        "x: pred[4]; c: pred[4] = true; a = pred[4] compare(x, c), direction=NE",
        "x: pred[4]; a = pred[4] not(x)",
    ),
    (
        "compare-truth-values",
        "x: pred[4]; y: pred[4]; a = pred[4] compare(x, y), direction=NE",
        "x: pred[4]; y: pred[4]; a = pred[4] xor(x, y)",
    ),
    (
        "compare-beyond-bounds",
        "x: u32[6]; i = u32[6] iota(), iota_dimension=0; k: u32[6] = 3; y = u32[6] add(i, k); "
        "r = u32[6] remainder(x, y); c: u32[6] = 5; a = pred[6] compare(r, c), direction=LT",
        None,
    ),
    (
        "compare-beyond-bounds",
        "x: u32[6]; i = u32[6] iota(), iota_dimension=0; k: u32[6] = 3; y = u32[6] add(i, k); "
        "r = u32[6] remainder(x, y); c: u32[6] = 8; a = pred[6] compare(r, c), direction=LT",
        "x: u32[6]; a: pred[6] = true",
    ),
    (
        "compare-beyond-bounds",
        "x: u8[4]; k: u8[4] = 200; y = u8[4] add(x, k); c: u8[4] = 100; "
        "a = pred[4] compare(y, c), direction=GE",
        None,
    ),
    (
        "compare-beyond-bounds",
        f"{COUNT}; c: s32[4] = 4; a = pred[4] compare(x, c), direction=LT",
        "a: pred[4] = true",
    ),
    (
        "compare-beyond-bounds",
        f"{COUNT}; c: s32[4] = -1; a = pred[4] compare(x, c), direction=LE",
        "a: pred[4] = false",
    ),
    (
        "compare-beyond-bounds",
        "y: u8[4]; c: u8[4] = 0; x = u8[4] and(y, c); d: u8[4] = 1; "
        "a = pred[4] compare(d, x), direction=NE",
        "y: u8[4]; a: pred[4] = true",
    ),
    (
        "compare-beyond-bounds",
        "y: s32[4]; k: s32[4] = 3; x = s32[4] remainder(y, k); c: s32[4] = 2; "
        "a = pred[4] compare(x, c), direction=GT",
        "y: s32[4]; a: pred[4] = false",
    ),
    (
        "compare-beyond-bounds",
        "y: s32[4]; k: s32[4] = 3; x = s32[4] add(y, k); c: s32[4] = -2147483645; "
        "a = pred[4] compare(x, c), direction=LT",
        None,  # the sum may wrap around
    ),
    (
        "compare-at-bound",
        "x: u8[4]; c: u8[4] = 1; a = pred[4] compare(x, c), direction=LT",
        "x: u8[4]; c: u8[4] = 0; a = pred[4] compare(x, c), direction=EQ",
    ),
    (
        "compare-at-bound",
        "x: u8[4]; c: u8[4] = 0; a = pred[4] compare(x, c), direction=GT",
        "x: u8[4]; c: u8[4] = 0; a = pred[4] compare(x, c), direction=NE",
    ),
    (
        "compare-at-bound",
        "x: s8[4]; c: s8[4] = 126; a = pred[4] compare(x, c), direction=LE",
        "x: s8[4]; c: s8[4] = 127; a = pred[4] compare(x, c), direction=NE",
    ),
    (
        "compare-at-bound",
        "x: s8[4]; c: s8[4] = 127; a = pred[4] compare(x, c), direction=GE",
        "x: s8[4]; c: s8[4] = 127; a = pred[4] compare(x, c), direction=EQ",
    ),
    ("compare-at-bound", "x: s8[4]; c: s8[4] = 1; a = pred[4] compare(x, c), direction=LT", None),
    (
        "compare-sum-with-constant",
        "x: u8[4]; c: u8[4] = 3; d: u8[4] = 1; y = u8[4] add(x, c); "
        "a = pred[4] compare(y, d), direction=EQ",
        "x: u8[4]; c: u8[4] = 254; a = pred[4] compare(x, c), direction=EQ",
    ),
    (
        "compare-sum-with-constant",
        "x: u8[4]; c: u8[4] = 3; d: u8[4] = 1; y = u8[4] add(x, c); "
        "a = pred[4] compare(y, d), direction=LT",
        None,
    ),
    (
        "compare-difference-with-zero",
        "x: u8[4]; y: u8[4]; c: u8[4] = 0; d = u8[4] xor(x, y); "
        "a = pred[4] compare(d, c), direction=NE",
        "x: u8[4]; y: u8[4]; a = pred[4] compare(x, y), direction=NE",
    ),
    (
        "compare-negated",
        "x: f32[4]; y: f32[4]; m = f32[4] negate(x); n = f32[4] negate(y); "
        "a = pred[4] compare(m, n), direction=LT",
        "x: f32[4]; y: f32[4]; a = pred[4] compare(x, y), direction=GT",
    ),
    (
        "compare-negated",
        "x: s8[4]; y: s8[4]; m = s8[4] negate(x); n = s8[4] negate(y); "
        "a = pred[4] compare(m, n), direction=LT",
        None,  # the least integer is its own negative
    ),
    (
        "compare-negated-with-constant",
        "x: f32[4]; c: f32[4] = 0; m = f32[4] negate(x); "
        "a = pred[4] compare(m, c), direction=LE, type=TOTALORDER",
        "x: f32[4]; c: f32[4] = -0; a = pred[4] compare(x, c), direction=GE, type=TOTALORDER",
    ),
    (
        "compare-positive-with-zero",
        "x: f32[4]; c: f32[4] = 0; y = f32[4] abs(x); a = pred[4] compare(y, c), direction=LT",
        "x: f32[4]; a: pred[4] = false",
    ),
    (
        "compare-positive-with-zero",
        "x: f32[4]; c: f32[4] = -1; y = f32[4] multiply(x, x); "
        "a = pred[4] compare(y, c), direction=EQ",
        "x: f32[4]; a: pred[4] = false",
    ),
    (
        "compare-positive-with-zero",
        "x: f32[4]; c: f32[4] = 0; y = f32[4] abs(x); a = pred[4] compare(y, c), direction=GE",
        None,  # NaN
    ),
    (
        "compare-converted-with-constant",
        "x: pred[4]; c: f32[4] = 0; y = f32[4] convert(x); a = pred[4] compare(y, c), direction=NE",
        "x: pred[4]",
    ),
    (
        "compare-converted-with-constant",
        "x: pred[4]; c: u8[4] = 1; y = u8[4] convert(x); a = pred[4] compare(y, c), direction=NE",
        "x: pred[4]; a = pred[4] not(x)",
    ),
    (
        "compare-widened",
        "x: s8[4]; y: s8[4]; m = s32[4] convert(x); n = s32[4] convert(y); "
        "a = pred[4] compare(m, n), direction=LT",
        "x: s8[4]; y: s8[4]; a = pred[4] compare(x, y), direction=LT",
    ),
    (
        "compare-widened",
        "x: s8[4]; y: s8[4]; m = u32[4] convert(x); n = u32[4] convert(y); "
        "a = pred[4] compare(m, n), direction=LT",
        None,
    ),
    (
        "comparisons-of-the-same",
        "x: f32[4]; y: f32[4]; p = pred[4] compare(x, y), direction=LT; "
        "q = pred[4] compare(y, x), direction=EQ; r = pred[4] or(p, q)",
        "x: f32[4]; y: f32[4]; r = pred[4] compare(x, y), direction=LE",
    ),
    (
        "comparisons-of-the-same",
        "x: f32[4]; y: f32[4]; p = pred[4] compare(x, y), direction=LE; "
        "q = pred[4] compare(y, x), direction=LE; r = pred[4] and(p, q)",
        "x: f32[4]; y: f32[4]; r = pred[4] compare(x, y), direction=EQ",
    ),
    (
        "comparisons-of-the-same",
        "x: f32[4]; y: f32[4]; p = pred[4] compare(x, y), direction=LT; "
        "q = pred[4] compare(x, y), direction=NE; r = pred[4] and(p, q)",
        "x: f32[4]; y: f32[4]; r = pred[4] compare(x, y), direction=LT",
    ),
    (
        "comparisons-of-the-same",
        "x: f32[4]; y: f32[4]; p = pred[4] compare(x, y), direction=LT; "
        "q = pred[4] compare(x, y), direction=GT; r = pred[4] and(p, q)",
        "x: f32[4]; y: f32[4]; r: pred[4] = false",
    ),
    (
        "comparisons-of-the-same",
        "x: f32[4]; y: f32[4]; p = pred[4] compare(x, y), direction=EQ; "
        "q = pred[4] compare(x, y), direction=NE; r = pred[4] or(p, q)",
        "x: f32[4]; y: f32[4]; r: pred[4] = true",
    ),
    (
        "comparisons-of-the-same",
        "x: f32[4]; y: f32[4]; p = pred[4] compare(x, y), direction=LT; "
        "q = pred[4] compare(x, y), direction=GT; r = pred[4] or(p, q)",
        None,  # unequal, but for NaN
    ),
    (
        "comparisons-of-the-same",
        "x: s32[4]; y: s32[4]; p = pred[4] compare(x, y), direction=LT; "
        "q = pred[4] compare(x, y), direction=GT; r = pred[4] or(p, q)",
        "x: s32[4]; y: s32[4]; r = pred[4] compare(x, y), direction=NE",
    ),
    (
        "comparisons-of-the-same",
        "x: s32[4]; y: s32[4]; p = pred[4] compare(x, y), direction=LE; "
        "q = pred[4] compare(x, y), direction=GE; r = pred[4] or(p, q)",
        "x: s32[4]; y: s32[4]; r: pred[4] = true",
    ),
    (
        "comparisons-of-the-same",
        "x: f32[4]; y: f32[4]; p = pred[4] compare(x, y), direction=LE; "
        "q = pred[4] compare(x, y), direction=GE, type=TOTALORDER; r = pred[4] and(p, q)",
        None,
    ),
    (
        "compare-selected-constants",
        "p: pred[4]; c: s32[4] = 5; d: s32[4] = 7; s = s32[4] select(p, c, d); "
        "a = pred[4] compare(s, c), direction=EQ",
        "p: pred[4]",
    ),
    (
        "compare-selected-constants",
        "p: pred[4]; c: s32[4] = 5; d: s32[4] = 7; s = s32[4] select(p, c, d); "
        "a = pred[4] compare(s, c), direction=GT",
        "p: pred[4]; a = pred[4] not(p)",
    ),
    (
        "compare-selected-constants",
        "p: pred[]; c: f32[4] = 5; d: f32[4] = nan; s = f32[4] select(p, c, d); "
        "e: f32[4] = 9; a = pred[4] compare(s, e), direction=GE",
        "p: pred[]; a: pred[4] = false",
    ),
    (
        "compare-selected-constants",
        "p: pred[]; c: f32[4] = 5; d: f32[4] = nan; s = f32[4] select(p, c, d); "
        "a = pred[4] compare(s, c), direction=GE",
        None,  # a scalar says for all
    ),
]
