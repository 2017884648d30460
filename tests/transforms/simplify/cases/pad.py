"""Padding."""

from tests.transforms.simplify.cases.notation import Case, on_both

CASES: list[Case] = [
    (
        "pad-nothing",
        "x: f32[4]; v: f32[]; a = f32[4] pad(x, v), padding=0_0",
        "x: f32[4]; v: f32[]; ROOT x",
    ),
    (
        "pad-empty",
        "x: f32[0]; v: f32[]; a = f32[4] pad(x, v), padding=1_3",
        "x: f32[0]; v: f32[]; a = f32[4] broadcast(v), dimensions={}",
    ),
    (
        "pad-of-own-value",
        "x: f32[4] = 2; v: f32[] = 2; a = f32[9] pad(x, v), padding=2_3",
        "a: f32[9] = 2",
    ),
    ("pad-of-own-value", "x: f32[4] = 0; v: f32[] = -0; a = f32[9] pad(x, v), padding=2_3", None),
    (
        "pad-between-nothing",
        "x: f32[1]; v: f32[]; a = f32[4] pad(x, v), padding=1_2_5",
        "x: f32[1]; v: f32[]; a = f32[4] pad(x, v), padding=1_2",
    ),
    (
        "pad-of-pad",
        "x: f32[3]; v: f32[]; a = f32[5] pad(x, v), padding=1_1; b = f32[11] pad(a, v), "
        "padding=1_1_1",
        None,
    ),
    (
        "pad-of-pad",
        "x: f32[3]; v: f32[]; a = f32[6] pad(x, v), padding=1_0_1; b = f32[9] pad(a, v), "
        "padding=1_2",
        "x: f32[3]; v: f32[]; b = f32[9] pad(x, v), padding=2_2_1",
    ),
    (
        "pad-of-pad",
        "x: f32[3]; v: f32[]; a = f32[6] pad(x, v), padding=1_2; b = f32[6] pad(a, v), "
        "padding=-2_2",
        None,
    ),
    (
        "pad-that-cuts",
        "x: f32[5]; v: f32[]; a = f32[5] pad(x, v), padding=-2_2",
        "x: f32[5]; v: f32[]; b = f32[3] slice(x), slice={[2:5]}; a = f32[5] pad(b, v), "
        "padding=0_2",
    ),
    (
        "pad-that-cuts",
        "x: f32[5]; v: f32[]; a = f32[2] pad(x, v), padding=-2_-1",
        "x: f32[5]; v: f32[]; a = f32[2] slice(x), slice={[2:4]}",
    ),
    ("pad-that-cuts", "x: f32[5]; v: f32[]; a = f32[8] pad(x, v), padding=-1_0_1", None),
    (
        "pad-of-added-units",
        "x: f32[2,3]; v: f32[]; a = f32[2,1,3] reshape(x); b = f32[5,1,3] pad(a, v), "
        "padding=1_2x0_0x0_0",
        "x: f32[2,3]; v: f32[]; a = f32[5,3] pad(x, v), padding=1_2x0_0; b = f32[5,1,3] reshape(a)",
    ),
    (
        "pad-of-added-units",
        "x: f32[2,3]; v: f32[]; a = f32[2,1,3] reshape(x); b = f32[2,2,3] pad(a, v), "
        "padding=0_0x1_0x0_0",
        None,
    ),
    *on_both(
        "add-of-pads",
        "x: T[2]; y: T[3]; v: T[] = 0; a = T[5] pad(x, v), padding=3_0; "
        "b = T[5] pad(y, v), padding=0_2; c = T[5] add(a, b)",
        "x: T[2]; y: T[3]; c = T[5] concatenate(y, x), dimensions={0}",
    ),
    (
        "add-of-pads",
        "x: s32[2]; y: s32[3]; v: s32[] = 0; a = s32[5] pad(x, v), padding=2_1; "
        "b = s32[5] pad(y, v), padding=0_2; c = s32[5] add(a, b)",
        None,
    ),
    (
        "concatenate-with-repeated-scalar",
        "x: f32[2]; v: f32[]; a = f32[3] broadcast(v), dimensions={}; "
        "b = f32[8] concatenate(a, x, a), dimensions={0}",
        "x: f32[2]; v: f32[]; b = f32[8] pad(x, v), padding=3_3",
    ),
    (
        "concatenate-with-repeated-scalar",
        "x: f32[2]; v: f32[]; a = f32[3] broadcast(v), dimensions={}; "
        "b = f32[7] concatenate(x, a, x), dimensions={0}",
        None,
    ),
]
