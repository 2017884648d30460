"""Reductions."""

from tests.transforms.simplify.cases.notation import Case, on_both

CASES: list[Case] = [
    (
        "reduce-empty",
        "x: f32[0,4]; v: f32[]; a = f32[4] reduce(x, v), dimensions={0}, to_apply=add_f32",
        "x: f32[0,4]; v: f32[]; a = f32[4] broadcast(v), dimensions={}",
    ),
    (
        "reduce-only-units",
        "x: s32[4,1]; v: s32[] = 0; a = s32[4] reduce(x, v), dimensions={1}, to_apply=add_s32",
        "x: s32[4,1]; a = s32[4] reshape(x)",
    ),
    (
        "reduce-only-units",
        "x: f32[4,1]; v: f32[]; a = f32[4] reduce(x, v), dimensions={1}, to_apply=maximum_f32",
        "x: f32[4,1]; v: f32[]; b = f32[4] reshape(x); c = f32[4] broadcast(v), dimensions={}; "
        "a = f32[4] maximum(b, c)",
    ),
    (
        "reduce-only-units",
        "x: f32[4]; v: f32[] = 0; a = f32[4] reduce(x, v), dimensions={}, to_apply=add_f32",
        "x: f32[4]; v: f32[4] = 0; a = f32[4] add(x, v)",  # which makes -0 into 0
    ),
    (
        "reduce-units",
        "x: f32[4,1,3]; v: f32[]; a = f32[4] reduce(x, v), dimensions={1,2}, to_apply=add_f32",
        "x: f32[4,1,3]; v: f32[]; b = f32[4,3] reshape(x); "
        "a = f32[4] reduce(b, v), dimensions={1}, to_apply=add_f32",
    ),
    (
        "reduce-of-reduce",
        "x: s32[2,3,4]; v: s32[] = 0; w: s32[] = 5; b = s32[2,4] reduce(x, v), dimensions={1}, "
        "to_apply=add_s32; a = s32[4] reduce(b, w), dimensions={0}, to_apply=add_s32",
        None,
    ),
    (
        "reduce-of-reduce",
        "x: s32[2,3,4]; v: s32[] = 0; b = s32[2,4] reduce(x, v), dimensions={1}, to_apply=add_s32; "
        "a = s32[4] reduce(b, v), dimensions={0}, to_apply=add_s32",
        "x: s32[2,3,4]; v: s32[] = 0; a = s32[4] reduce(x, v), dimensions={0,1}, to_apply=add_s32",
    ),
    (
        "reduce-of-reduce",
        "x: f32[2,3]; v: f32[] = -inf; b = f32[2] reduce(x, v), dimensions={1}, "
        "to_apply=maximum_f32; a = f32[] reduce(b, v), dimensions={0}, to_apply=maximum_f32",
        "x: f32[2,3]; v: f32[] = -inf; a = f32[] reduce(x, v), dimensions={0,1}, "
        "to_apply=maximum_f32",
    ),
    (
        "reduce-of-reduce",
        "x: f32[2,3,4]; v: f32[] = 0; b = f32[2,4] reduce(x, v), dimensions={1}, to_apply=add_f32; "
        "a = f32[4] reduce(b, v), dimensions={0}, to_apply=add_f32",
        None,
    ),
    (
        "reduce-of-reduce-inexactly",
        "x: f32[2,3,4]; v: f32[] = 0; b = f32[2,4] reduce(x, v), dimensions={1}, to_apply=add_f32; "
        "a = f32[4] reduce(b, v), dimensions={0}, to_apply=add_f32",
        "x: f32[2,3,4]; v: f32[] = 0; a = f32[4] reduce(x, v), dimensions={0,1}, to_apply=add_f32",
    ),
    (
        "reduce-of-reduce",
        "x: f32[2,3,4]; v: f32[] = 1; b = f32[2,4] reduce(x, v), dimensions={1}, to_apply=add_f32; "
        "a = f32[4] reduce(b, v), dimensions={0}, to_apply=add_f32",
        None,
    ),
    (
        "reduce-of-reduce",
        "x: f32[2,3,4]; v: f32[] = 0; b = f32[2,4] reduce(x, v), dimensions={1}, to_apply=add_f32; "
        "a = f32[4] reduce(b, v), dimensions={0}, to_apply=maximum_f32",
        None,
    ),
    (
        "reduce-of-transpose",
        "x: f32[2,3,4,5]; v: f32[]; b = f32[4,5,2,3] transpose(x), dimensions={2,3,0,1}; "
        "a = f32[4,2,3] reduce(b, v), dimensions={1}, to_apply=add_f32",
        "x: f32[2,3,4,5]; v: f32[]; b = f32[2,3,4] reduce(x, v), dimensions={3}, to_apply=add_f32; "
        "a = f32[4,2,3] transpose(b), dimensions={2,0,1}",
    ),
    (
        "reduce-of-transpose",
        "x: f32[2,3,4]; v: f32[]; b = f32[4,3,2] transpose(x), dimensions={2,1,0}; "
        "a = f32[4,2] reduce(b, v), dimensions={1}, to_apply=add_f32",
        "x: f32[2,3,4]; v: f32[]; b = f32[2,4] reduce(x, v), dimensions={1}, to_apply=add_f32; "
        "a = f32[4,2] transpose(b), dimensions={1,0}",
    ),
    (
        "reduce-of-transpose",
        "x: f32[2,3,4]; v: f32[]; b = f32[4,2,3] transpose(x), dimensions={2,0,1}; "
        "a = f32[2,3] reduce(b, v), dimensions={0}, to_apply=maximum_f32",
        "x: f32[2,3,4]; v: f32[]; a = f32[2,3] reduce(x, v), dimensions={2}, to_apply=maximum_f32",
    ),
    (
        "reduce-of-reshape",
        "x: f32[4,6,5]; v: f32[]; b = f32[2,2,1,6,5] reshape(x); "
        "a = f32[2,2,5] reduce(b, v), dimensions={2,3}, to_apply=add_f32",
        "x: f32[4,6,5]; v: f32[]; b = f32[4,5] reduce(x, v), dimensions={1}, to_apply=add_f32; "
        "a = f32[2,2,5] reshape(b)",
    ),
    (
        "reduce-of-reshape",
        "x: f32[4,6]; v: f32[]; b = f32[24] reshape(x); "
        "a = f32[] reduce(b, v), dimensions={0}, to_apply=add_f32",
        "x: f32[4,6]; v: f32[]; a = f32[] reduce(x, v), dimensions={0,1}, to_apply=add_f32",
    ),
    (
        "reduce-of-reshape",
        "x: f32[4,6]; v: f32[]; b = f32[2,2,6] reshape(x); "
        "a = f32[2,6] reduce(b, v), dimensions={0}, to_apply=add_f32",
        None,
    ),
    (
        "reduce-of-reverse",
        "x: f32[4,6]; v: f32[]; b = f32[4,6] reverse(x), dimensions={0,1}; "
        "a = f32[6] reduce(b, v), dimensions={0}, to_apply=add_f32",
        "x: f32[4,6]; v: f32[]; b = f32[4,6] reverse(x), dimensions={1}; "
        "a = f32[6] reduce(b, v), dimensions={0}, to_apply=add_f32",
    ),
    (
        "reduce-of-pad",
        "x: f32[4,6]; v: f32[] = -inf; b = f32[9,6] pad(x, v), padding=1_1_1x0_0; "
        "a = f32[6] reduce(b, v), dimensions={0}, to_apply=maximum_f32",
        "x: f32[4,6]; v: f32[] = -inf; "
        "a = f32[6] reduce(x, v), dimensions={0}, to_apply=maximum_f32",
    ),
    (
        "reduce-of-pad",
        "x: f32[4,6]; v: f32[] = 0; b = f32[6,6] pad(x, v), padding=1_1x0_0; "
        "a = f32[6] reduce(b, v), dimensions={0}, to_apply=maximum_f32",
        None,
    ),
    (
        "reduce-of-pad",
        "x: f32[4,6]; v: f32[] = 0; b = f32[6,8] pad(x, v), padding=1_1x1_1; "
        "a = f32[8] reduce(b, v), dimensions={0}, to_apply=add_f32",
        None,
    ),
    (
        "reduce-of-concatenate",
        "x: f32[4,3]; y: f32[4,2]; v: f32[] = 0; b = f32[4,5] concatenate(x, y), dimensions={1}; "
        "a = f32[4] reduce(b, v), dimensions={1}, to_apply=add_f32",
        "x: f32[4,3]; y: f32[4,2]; v: f32[] = 0; w: f32[] = -0; "
        "b = f32[4] reduce(x, v), dimensions={1}, to_apply=add_f32; "
        "c = f32[4] reduce(y, w), dimensions={1}, to_apply=add_f32; a = f32[4] add(b, c)",
    ),
    (
        "reduce-of-concatenate",
        "x: f32[4,3]; y: f32[4,2]; v: f32[] = 0; b = f32[4,5] concatenate(x, y), dimensions={1}; "
        "a = f32[5] reduce(b, v), dimensions={0}, to_apply=add_f32",
        None,
    ),
    (
        "reduce-of-broadcast",
        "x: f32[3,4]; v: f32[] = -inf; b = f32[3,2,5,4] broadcast(x), dimensions={0,3}; "
        "a = f32[2,4] reduce(b, v), dimensions={0,2}, to_apply=maximum_f32",
        "x: f32[3,4]; v: f32[] = -inf; "
        "b = f32[4] reduce(x, v), dimensions={0}, to_apply=maximum_f32; "
        "a = f32[2,4] broadcast(b), dimensions={1}",
    ),
    (
        "reduce-of-broadcast",
        "x: pred[3]; v: pred[]; b = pred[3,2] broadcast(x), dimensions={0}; "
        "a = pred[3] reduce(b, v), dimensions={1}, to_apply=and_pred",
        "x: pred[3]; v: pred[]; b = pred[3] broadcast(v), dimensions={}; a = pred[3] and(x, b)",
    ),
    (
        "sum-of-broadcast",
        "x: s32[3,4]; v: s32[] = 0; b = s32[3,2,5,4] broadcast(x), dimensions={0,3}; "
        "a = s32[2,4] reduce(b, v), dimensions={0,2}, to_apply=add_s32",
        "x: s32[3,4]; v: s32[] = 0; b = s32[4] reduce(x, v), dimensions={0}, to_apply=add_s32; "
        "n: s32[4] = 5; c = s32[4] multiply(b, n); a = s32[2,4] broadcast(c), dimensions={1}",
    ),
    (
        "sum-of-broadcast-inexactly",
        "x: f32[3]; v: f32[] = 0; b = f32[3,5] broadcast(x), dimensions={0}; "
        "a = f32[] reduce(b, v), dimensions={0,1}, to_apply=add_f32",
        "x: f32[3]; v: f32[] = 0; b = f32[] reduce(x, v), dimensions={0}, to_apply=add_f32; "
        "n: f32[] = 5; a = f32[] multiply(b, n)",
    ),
    *on_both(
        "sum-of-negated",
        "x: T[3]; v: T[] = 0; b = T[3] negate(x); "
        "a = T[] reduce(b, v), dimensions={0}, to_apply=add_T",
        "x: T[3]; v: T[] = 0; b = T[] reduce(x, v), dimensions={0}, to_apply=add_T; "
        "a = T[] negate(b)",
    ),
    *on_both(
        "sum-of-scaled",
        "x: T[3,2]; k: T[]; v: T[] = 0; b = T[3,2] broadcast(k), dimensions={}; "
        "c = T[3,2] multiply(b, x); a = T[2] reduce(c, v), dimensions={0}, to_apply=add_T",
        "x: T[3,2]; k: T[]; v: T[] = 0; b = T[2] reduce(x, v), dimensions={0}, to_apply=add_T; "
        "c = T[2] broadcast(k), dimensions={}; a = T[2] multiply(b, c)",
    ),
    (
        "reduce-of-negated",
        "x: f32[3]; v: f32[] = -inf; b = f32[3] negate(x); "
        "a = f32[] reduce(b, v), dimensions={0}, to_apply=maximum_f32",
        "x: f32[3]; v: f32[] = inf; b = f32[] reduce(x, v), dimensions={0}, to_apply=minimum_f32; "
        "a = f32[] negate(b)",
    ),
    (
        "reduce-of-negated",
        "x: pred[3]; v: pred[] = true; b = pred[3] not(x); "
        "a = pred[] reduce(b, v), dimensions={0}, to_apply=and_pred",
        "x: pred[3]; v: pred[] = false; "
        "b = pred[] reduce(x, v), dimensions={0}, to_apply=or_pred; a = pred[] not(b)",
    ),
    (
        "reduce-of-negated",
        "x: s32[3]; v: s32[] = -2147483648; b = s32[3] negate(x); "
        "a = s32[] reduce(b, v), dimensions={0}, to_apply=maximum_s32",
        None,  # the least integer is its own negative
    ),
    (
        "reduce-of-iota",
        "x = u8[100] iota(), iota_dimension=0; v: u8[] = 0; "
        "a = u8[] reduce(x, v), dimensions={0}, to_apply=add_u8",
        "a: u8[] = 86",
    ),
    (
        "reduce-of-iota",
        "x = s32[100] iota(), iota_dimension=0; v: s32[] = -2147483648; "
        "a = s32[] reduce(x, v), dimensions={0}, to_apply=maximum_s32",
        "a: s32[] = 99",
    ),
    (
        "reduce-of-iota",
        "x = u8[300] iota(), iota_dimension=0; v: u8[] = 0; "
        "a = u8[] reduce(x, v), dimensions={0}, to_apply=maximum_u8",
        None,
    ),
]
