"""Transposes."""

from tests.transforms.simplify.cases.notation import Case

CASES: list[Case] = [
    (
        "transpose-nothing",
        "x: f32[2,3]; a = f32[2,3] transpose(x), dimensions={0,1}",
        "x: f32[2,3]",
    ),
    (
        "transpose-of-transpose",
        "x: f32[2,3,4]; a = f32[3,4,2] transpose(x), dimensions={1,2,0}; "
        "b = f32[4,3,2] transpose(a), dimensions={1,0,2}",
        "x: f32[2,3,4]; b = f32[4,3,2] transpose(x), dimensions={2,1,0}",
    ),
    (
        "transpose-of-transpose",
        "x: f32[2,3,4]; a = f32[3,4,2]{1,0,2} transpose(x), dimensions={1,2,0}; "
        "b = f32[4,3,2] transpose(a), dimensions={1,0,2}",
        None,  # the first one lies in memory as x does
    ),
    (
        "transpose-of-units",
        "x: f32[2,1,3]; a = f32[2,3,1] transpose(x), dimensions={0,2,1}",
        "x: f32[2,1,3]; a = f32[2,3,1] reshape(x)",
    ),
    (
        "transpose-of-broadcast",
        "x: f32[2,3]; a = f32[2,4,3] broadcast(x), dimensions={0,2}; "
        "b = f32[3,2,4] transpose(a), dimensions={2,0,1}",
        "x: f32[2,3]; b = f32[3,2,4] broadcast(x), dimensions={1,0}",
    ),
    (
        "transpose-of-added-units",
        "x: f32[2,1,3]; a = f32[1,2,3,1] reshape(x); "
        "b = f32[3,1,1,2] transpose(a), dimensions={2,0,3,1}",
        "x: f32[2,1,3]; a = f32[3,1,2] transpose(x), dimensions={2,1,0}; "
        "b = f32[3,1,1,2] reshape(a)",
    ),
    (
        "transpose-of-added-units",
        "x: f32[6,2]; a = f32[2,3,2] reshape(x); b = f32[3,2,2] transpose(a), dimensions={1,0,2}",
        None,
    ),
    (
        "transpose-of-widened",
        "x: bf16[2,3]; a = f32[2,3] convert(x); b = f32[3,2] transpose(a), dimensions={1,0}",
        "x: bf16[2,3]; a = bf16[3,2] transpose(x), dimensions={1,0}; b = f32[3,2] convert(a)",
    ),
    (
        "transpose-of-widened",
        "x: f32[2,3]; a = bf16[2,3] convert(x); b = bf16[3,2] transpose(a), dimensions={1,0}",
        None,
    ),
    (
        "transpose-of-pad",
        "x: f32[2,3]; v: f32[]; a = f32[5,4] pad(x, v), padding=1_2x0_1; "
        "b = f32[4,5] transpose(a), dimensions={1,0}",
        "x: f32[2,3]; v: f32[]; a = f32[3,2] transpose(x), dimensions={1,0}; "
        "b = f32[4,5] pad(a, v), padding=0_1x1_2",
    ),
    (
        "transpose-of-reverse",
        "x: f32[2,3]; a = f32[2,3] reverse(x), dimensions={1}; "
        "b = f32[3,2] transpose(a), dimensions={1,0}",
        "x: f32[2,3]; a = f32[3,2] transpose(x), dimensions={1,0}; "
        "b = f32[3,2] reverse(a), dimensions={0}",
    ),
    (
        "concatenate-of-transposes",
        "x: f32[2,3]; y: f32[2,4]; a = f32[3,2] transpose(x), dimensions={1,0}; "
        "b = f32[4,2] transpose(y), dimensions={1,0}; "
        "c = f32[7,2] concatenate(a, b), dimensions={0}",
        "x: f32[2,3]; y: f32[2,4]; a = f32[2,7] concatenate(x, y), dimensions={1}; "
        "c = f32[7,2] transpose(a), dimensions={1,0}",
    ),
    (
        "elementwise-of-transposes",
        "x: f32[2,3]; y: f32[2,3]; r: f32[3]; a = f32[3,2] transpose(x), dimensions={1,0}; "
        "b = f32[3,2] transpose(y), dimensions={1,0}; c = f32[3,2] add(a, b); "
        "d = f32[3,2] broadcast(r), dimensions={0}; e = f32[3,2] multiply(c, d)",
        "x: f32[2,3]; y: f32[2,3]; r: f32[3]; c = f32[2,3] add(x, y); "
        "d = f32[2,3] broadcast(r), dimensions={1}; e = f32[2,3] multiply(c, d); "
        "f = f32[3,2] transpose(e), dimensions={1,0}",
    ),
    (
        "elementwise-of-transposes",
        "x: f32[2,3]; a = f32[3,2] transpose(x), dimensions={1,0}; b = bf16[3,2] convert(a)",
        "x: f32[2,3]; a = bf16[2,3] convert(x); b = bf16[3,2] transpose(a), dimensions={1,0}",
    ),
    (
        "elementwise-of-transposes",
        "x: bf16[2,3]; a = bf16[3,2] transpose(x), dimensions={1,0}; b = f32[3,2] convert(a)",
        None,
    ),
    (
        "elementwise-of-transposes",
        "x: f32[2,3]; y: f32[3,2]; a = f32[3,2] transpose(x), dimensions={1,0}; "
        "c = f32[3,2] add(a, y)",
        None,
    ),
]
