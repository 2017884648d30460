"""Quotients and remainders that are rounded down."""

from tests.transforms.simplify.cases.notation import Case

CASES: list[Case] = [
    (
        "floor-remainder-by-power-of-two",
        "x: s32[4]; c: s32[4] = 8; z: s32[4] = 0; r = s32[4] remainder(x, c); "
        "p = pred[4] compare(r, z), direction=LT; s = s32[4] add(r, c); "
        "a = s32[4] select(p, s, r)",
        "x: s32[4]; c: s32[4] = 7; a = s32[4] and(x, c)",
    ),
    (
        "floor-remainder-by-power-of-two",
        "x: s32[4]; c: s32[4] = 8; z: s32[4] = 0; r = s32[4] remainder(x, c); "
        "p = pred[4] compare(r, z), direction=GT; s = s32[4] add(r, c); "
        "a = s32[4] select(p, s, r)",
        None,
    ),
    (
        "floor-remainder-by-power-of-two",
        "x: s32[4]; c: s32[4] = 6; z: s32[4] = 0; r = s32[4] remainder(x, c); "
        "p = pred[4] compare(r, z), direction=LT; s = s32[4] add(r, c); "
        "a = s32[4] select(p, s, r)",
        None,
    ),
    (
        "floor-quotient-by-constant",
        "x: s32[4]; c: s32[4] = 8; z: s32[4] = 0; m: s32[4] = -1; o: s32[4] = 1; "
        "r = s32[4] remainder(x, c); n = pred[4] compare(r, z), direction=NE; "
        "g = s32[4] sign(x); p = pred[4] compare(g, o), direction=NE; b = pred[4] and(p, n); "
        "q = s32[4] divide(x, c); s = s32[4] add(q, m); a = s32[4] select(b, s, q)",
        "x: s32[4]; k: s32[4] = 3; a = s32[4] shift-right-arithmetic(x, k)",
    ),
    (
        "floor-quotient-by-constant",
        "x: s32[4]; c: s32[4] = 10; z: s32[4] = 0; m: s32[4] = -1; "
        "r = s32[4] remainder(x, c); n = pred[4] compare(r, z), direction=NE; "
        "p = pred[4] compare(x, z), direction=LT; b = pred[4] and(n, p); "
        "q = s32[4] divide(x, c); s = s32[4] add(q, m); a = s32[4] select(b, s, q)",
        "x: s32[4]; k: s32[4] = 31; g = s32[4] shift-right-arithmetic(x, k); "
        "b = s32[4] xor(x, g); c: s32[4] = 10; q = s32[4] divide(b, c); a = s32[4] xor(q, g)",
    ),
    (
        "floor-quotient-by-constant",
        "x: s32[4]; c: s32[4] = -8; z: s32[4] = 0; m: s32[4] = -1; "
        "r = s32[4] remainder(x, c); n = pred[4] compare(r, z), direction=NE; "
        "p = pred[4] compare(x, z), direction=LT; b = pred[4] and(n, p); "
        "q = s32[4] divide(x, c); s = s32[4] add(q, m); a = s32[4] select(b, s, q)",
        None,
    ),
]
