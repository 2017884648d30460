"""Broadcasts, iotas, constants."""

from tests.transforms.simplify.cases.notation import Case

CASES: list[Case] = [
    (
        "broadcast-of-broadcast",
        "x: f32[4]; a = f32[2,4] broadcast(x), dimensions={1}; "
        "b = f32[4,3,2] broadcast(a), dimensions={2,0}",
        "x: f32[4]; b = f32[4,3,2] broadcast(x), dimensions={0}",
    ),
    (
        "broadcast-nothing",
        "x: f32[2,4]; a = f32[2,4] broadcast(x), dimensions={0,1}",
        "x: f32[2,4]",
    ),
    (
        "broadcast-nothing",
        "x: f32[2,4,3]; a = f32[4,3,2] broadcast(x), dimensions={2,0,1}",
        "x: f32[2,4,3]; a = f32[4,3,2] transpose(x), dimensions={1,2,0}",
    ),
    (
        "broadcast-unit-dimensions",
        "x: f32[2,4]; a = f32[2,1,4,1] broadcast(x), dimensions={0,2}",
        "x: f32[2,4]; a = f32[2,1,4,1] reshape(x)",
    ),
    ("broadcast-unit-dimensions", "x: f32[]; a = f32[1,1] broadcast(x), dimensions={}", None),
    (
        "broadcast-of-unit-dimensions",
        "x: f32[2,1,4]; a = f32[2,1,5,4] broadcast(x), dimensions={0,1,3}",
        "x: f32[2,1,4]; b = f32[2,4] reshape(x); a = f32[2,1,5,4] broadcast(b), dimensions={0,3}",
    ),
    (
        "broadcast-of-transpose",
        "x: f32[2,4]; a = f32[4,2] transpose(x), dimensions={1,0}; "
        "b = f32[4,3,2] broadcast(a), dimensions={0,2}",
        "x: f32[2,4]; b = f32[4,3,2] broadcast(x), dimensions={2,0}",
    ),
    (
        "iota-of-one-dimension",
        "a = s32[2,4] iota(), iota_dimension=1",
        "x = s32[4] iota(), iota_dimension=0; a = s32[2,4] broadcast(x), dimensions={1}",
    ),
    ("iota-of-one-dimension", "a = s32[4] iota(), iota_dimension=0", None),
    ("iota-of-one-element", "a = s32[1] iota(), iota_dimension=0", "a: s32[1] = 0"),
    ("constant-of-equal-elements", "a = f32[2,3] constant({{5,5,5},{5,5,5}})", "a: f32[2,3] = 5"),
    ("constant-of-equal-elements", "a = f32[2] constant({0,-0})", None),
    ("constant-of-equal-elements", "a = f32[200] constant({...})", None),
    (
        "constant-that-counts",
        "a = s32[4] constant({0,1,2,3})",
        "a = s32[4] iota(), iota_dimension=0",
    ),
    (
        "constant-that-counts",
        "a = bf16[4] constant({0,1,2,3})",
        "a = bf16[4] iota(), iota_dimension=0",
    ),
    ("constant-that-counts", "a = s32[4] constant({0,1,2,4})", None),
    ("constant-that-counts", "a = f32[4] constant({-0,1,2,3})", None),
    ("constant-that-counts", "a = f32[4] constant({0,nan,inf,3})", None),
    (
        "elementwise-of-broadcasts",
        "x: f32[4]; y: f32[4]; a = f32[2,4] broadcast(x), dimensions={1}; "
        "b = f32[2,4] broadcast(y), dimensions={1}; c = f32[2,4] add(a, b)",
        "x: f32[4]; y: f32[4]; c = f32[4] add(x, y); d = f32[2,4] broadcast(c), dimensions={1}",
    ),
    (
        "elementwise-of-broadcasts",
        "x: f32[4]; c: f32[2,4] = 2; a = f32[2,4] broadcast(x), dimensions={1}; "
        "b = pred[2,4] compare(a, c), direction=LT",
        "x: f32[4]; c: f32[4] = 2; a = pred[4] compare(x, c), direction=LT; "
        "b = pred[2,4] broadcast(a), dimensions={1}",
    ),
    (
        "elementwise-of-broadcasts",
        "x: f32[]; p: pred[]; c: f32[2,4] = 2; a = f32[2,4] broadcast(x), dimensions={}; "
        "b = f32[2,4] select(p, a, c); d = f32[2,4] exponential(b)",
        "x: f32[]; p: pred[]; c: f32[] = 2; b = f32[] select(p, x, c); d = f32[] exponential(b); "
        "e = f32[2,4] broadcast(d), dimensions={}",
    ),
    (
        "elementwise-of-broadcasts",
        "x: f32[4]; y: f32[4]; a = f32[4,4] broadcast(x), dimensions={1}; "
        "b = f32[4,4] broadcast(y), dimensions={0}; c = f32[4,4] add(a, b)",
        None,
    ),
    (
        "elementwise-of-broadcasts",
        "x: f32[3]; a = f32[0,3] broadcast(x), dimensions={1}; b = f32[0,3] negate(a)",
        None,  # there is nothing to compute
    ),
]
