"""Reshapes."""

from tests.transforms.simplify.cases.notation import Case

CASES: list[Case] = [
    ("reshape-nothing", "x: f32[2,3]; a = f32[2,3] reshape(x)", "x: f32[2,3]"),
    (
        "reshape-of-reshape",
        "x: f32[2,3]; a = f32[6] reshape(x); b = f32[3,2] reshape(a)",
        "x: f32[2,3]; b = f32[3,2] reshape(x)",
    ),
    (
        "reshape-of-reshape",
        "x: f32[2,3]{0,1}; a = f32[6] reshape(x); b = f32[3,2] reshape(a)",
        None,  # not row major
    ),
    (
        "reshape-of-scalar",
        "x: f32[]; a = f32[1,1] reshape(x)",
        "x: f32[]; a = f32[1,1] broadcast(x), dimensions={}",
    ),
    (
        "reshape-of-broadcast",
        "x: f32[6]; a = f32[4,6,5] broadcast(x), dimensions={1}; b = f32[2,2,2,3,1,5] reshape(a)",
        "x: f32[6]; a = f32[2,3] reshape(x); b = f32[2,2,2,3,1,5] broadcast(a), dimensions={2,3}",
    ),
    (
        "reshape-of-broadcast",
        "x: f32[2,3]; a = f32[5,2,3] broadcast(x), dimensions={1,2}; b = f32[5,6] reshape(a)",
        "x: f32[2,3]; a = f32[6] reshape(x); b = f32[5,6] broadcast(a), dimensions={1}",
    ),
    (
        "reshape-of-broadcast",
        "x: f32[]; a = f32[2,3] broadcast(x), dimensions={}; b = f32[6] reshape(a)",
        "x: f32[]; b = f32[6] broadcast(x), dimensions={}",
    ),
    (
        "reshape-of-broadcast",
        "x: f32[3]; a = f32[2,3] broadcast(x), dimensions={1}; b = f32[6] reshape(a)",
        None,
    ),
    (
        "reshape-of-broadcast",
        "x: f32[3,2]; a = f32[2,3,4] broadcast(x), dimensions={1,0}; b = f32[6,4] reshape(a)",
        None,
    ),
    (
        "reshape-of-moved-units",
        "x: f32[2,1,3]; a = f32[1,2,3] transpose(x), dimensions={1,0,2}; b = f32[6] reshape(a)",
        "x: f32[2,1,3]; b = f32[6] reshape(x)",
    ),
    (
        "reshape-of-moved-units",
        "x: f32[2,1,3]; a = f32[3,2,1] transpose(x), dimensions={2,0,1}; b = f32[6] reshape(a)",
        None,
    ),
    (
        "reshape-of-dropped-units",
        "x: f32[2,1,3]; a = f32[2,1,3] reverse(x), dimensions={1,2}; b = f32[1,2,3] reshape(a)",
        "x: f32[2,1,3]; a = f32[1,2,3] reshape(x); b = f32[1,2,3] reverse(a), dimensions={2}",
    ),
    (
        "reshape-of-dropped-units",
        "x: f32[2,3]; a = f32[2,3] reverse(x), dimensions={1}; b = f32[6] reshape(a)",
        None,
    ),
    (
        "elementwise-of-reshapes",
        "x: f32[6]; y: f32[6]; c: f32[2,3] = 2; a = f32[2,3] reshape(x); b = f32[2,3] reshape(y); "
        "d = f32[2,3] multiply(a, b); e = f32[2,3] add(d, c)",
        "x: f32[6]; y: f32[6]; c: f32[6] = 2; d = f32[6] multiply(x, y); e = f32[6] add(d, c); "
        "f = f32[2,3] reshape(e)",
    ),
    (
        "elementwise-of-reshapes",
        "x: f32[6,5]; y: f32[5]; a = f32[2,3,5] reshape(x); "
        "b = f32[2,3,5] broadcast(y), dimensions={2}; d = f32[2,3,5] add(a, b)",
        "x: f32[6,5]; y: f32[5]; b = f32[6,5] broadcast(y), dimensions={1}; "
        "d = f32[6,5] add(x, b); e = f32[2,3,5] reshape(d)",
    ),
    (
        "elementwise-of-reshapes",
        "x: f32[6]; y: f32[3]; a = f32[2,3] reshape(x); "
        "b = f32[2,3] broadcast(y), dimensions={1}; d = f32[2,3] add(a, b)",
        None,
    ),
    (
        "elementwise-of-reshapes",
        "x: f32[6]; y: f32[2,3]; a = f32[2,3] reshape(x); d = f32[2,3] add(a, y)",
        None,
    ),
]
