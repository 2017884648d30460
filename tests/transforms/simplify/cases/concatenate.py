"""Concatenations and reversals."""

from tests.transforms.simplify.cases.notation import Case

CASES: list[Case] = [
    ("concatenate-one", "x: f32[4]; a = f32[4] concatenate(x), dimensions={0}", "x: f32[4]"),
    (
        "concatenate-empty",
        "x: f32[4]; y: f32[0]; z: f32[2]; a = f32[6] concatenate(x, y, z), dimensions={0}",
        "x: f32[4]; y: f32[0]; z: f32[2]; a = f32[6] concatenate(x, z), dimensions={0}",
    ),
    (
        "concatenate-of-concatenate",
        "x: f32[4]; y: f32[3]; z: f32[2]; a = f32[7] concatenate(x, y), dimensions={0}; "
        "b = f32[11] concatenate(z, a, z), dimensions={0}",
        "x: f32[4]; y: f32[3]; z: f32[2]; b = f32[11] concatenate(z, x, y, z), dimensions={0}",
    ),
    (
        "concatenate-of-concatenate",
        "x: f32[4,1]; y: f32[4,1]; a = f32[4,2] concatenate(x, y), dimensions={1}; "
        "b = f32[8,2] concatenate(a, a), dimensions={0}",
        None,
    ),
    (
        "concatenate-of-neighbours",
        "x: f32[9,2]; y: f32[1,2]; a = f32[2,2] slice(x), slice={[1:3], [0:2]}; "
        "b = f32[3,2] slice(x), slice={[3:6], [0:2]}; c = f32[1,2] slice(x), slice={[6:7], [0:2]}; "
        "d = f32[7,2] concatenate(y, a, b, c), dimensions={0}",
        "x: f32[9,2]; y: f32[1,2]; a = f32[6,2] slice(x), slice={[1:7], [0:2]}; "
        "d = f32[7,2] concatenate(y, a), dimensions={0}",
    ),
    (
        "concatenate-of-neighbours",
        "x: f32[9]; a = f32[2] slice(x), slice={[0:2]}; b = f32[7] slice(x), slice={[2:9]}; "
        "c = f32[9] concatenate(a, b), dimensions={0}",
        "x: f32[9]",
    ),
    (
        "concatenate-of-neighbours",
        "x: f32[9]; a = f32[2] slice(x), slice={[0:2]}; b = f32[7] slice(x), slice={[2:9]}; "
        "c = f32[9] concatenate(b, a), dimensions={0}",
        None,
    ),
    (
        "concatenate-of-broadcasts",
        "x: f32[2]; a = f32[3,2] broadcast(x), dimensions={1}; b = f32[4,2] broadcast(x), "
        "dimensions={1}; "
        "c = f32[7,2] concatenate(a, b), dimensions={0}",
        "x: f32[2]; c = f32[7,2] broadcast(x), dimensions={1}",
    ),
    (
        "concatenate-of-broadcasts",
        "x: f32[2]; a = f32[3,2] broadcast(x), dimensions={1}; "
        "c = f32[3,4] concatenate(a, a), dimensions={1}",
        None,
    ),
    (
        "concatenate-of-reshapes",
        "x: f32[3,2]; y: f32[4,2]; a = f32[3,1,2] reshape(x); b = f32[4,1,2] reshape(y); "
        "c = f32[7,1,2] concatenate(a, b), dimensions={0}",
        "x: f32[3,2]; y: f32[4,2]; a = f32[7,2] concatenate(x, y), dimensions={0}; "
        "c = f32[7,1,2] reshape(a)",
    ),
    (
        "concatenate-of-reshapes",
        "x: f32[3,2]; y: f32[3,2]; a = f32[3,1,2] reshape(x); b = f32[3,1,2] reshape(y); "
        "c = f32[3,2,2] concatenate(a, b), dimensions={1}",
        None,
    ),
    (
        "reverse-nothing",
        "x: f32[3,1,2]; a = f32[3,1,2] reverse(x), dimensions={1,2}",
        "x: f32[3,1,2]; a = f32[3,1,2] reverse(x), dimensions={2}",
    ),
    ("reverse-nothing", "x: f32[3,1]; a = f32[3,1] reverse(x), dimensions={1}", "x: f32[3,1]"),
    (
        "reverse-of-reverse",
        "x: f32[3,4]; a = f32[3,4] reverse(x), dimensions={0,1}; b = f32[3,4] reverse(a), "
        "dimensions={0}",
        "x: f32[3,4]; b = f32[3,4] reverse(x), dimensions={1}",
    ),
    (
        "reverse-of-reverse",
        "x: f32[3,4]; a = f32[3,4] reverse(x), dimensions={1}; b = f32[3,4] reverse(a), "
        "dimensions={1}",
        "x: f32[3,4]",
    ),
    (
        "reverse-of-broadcast",
        "x: f32[3]; a = f32[3,4] broadcast(x), dimensions={0}; b = f32[3,4] reverse(a), "
        "dimensions={0,1}",
        "x: f32[3]; a = f32[3] reverse(x), dimensions={0}; b = f32[3,4] broadcast(a), "
        "dimensions={0}",
    ),
    (
        "reverse-of-concatenate",
        "x: f32[1,4]; y: f32[1,4]; a = f32[2,4] concatenate(x, y), dimensions={0}; "
        "b = f32[2,4] reverse(a), dimensions={0}",
        "x: f32[1,4]; y: f32[1,4]; b = f32[2,4] concatenate(y, x), dimensions={0}",
    ),
    (
        "reverse-of-concatenate",
        "x: f32[1,4]; y: f32[2,4]; a = f32[3,4] concatenate(x, y), dimensions={0}; "
        "b = f32[3,4] reverse(a), dimensions={0}",
        None,
    ),
    (
        "concatenate-of-one-array",
        "x: f32[2,3]; c = f32[2,9] concatenate(x, x, x), dimensions={1}",
        "x: f32[2,3]; b = f32[2,3,3] broadcast(x), dimensions={0,2}; c = f32[2,9] reshape(b)",
    ),
    (
        "concatenate-of-one-array",
        "x: f32[2,3]; y: f32[2,3]; c = f32[2,9] concatenate(x, y, x), dimensions={1}",
        None,
    ),
    (
        "concatenate-of-one-array",
        "x: f32[3,4]; i: s32[]; o: s32[] = 0; c = f32[3,8] concatenate(x, x), dimensions={1}; "
        "d = f32[3,4] dynamic-slice(c, o, i), dynamic_slice_sizes={3,4}",
        None,
    ),
    (
        "concatenate-of-one-array",
        "x: f32[3,4]; i: s32[]; o: s32[] = 0; c = f32[6,4] concatenate(x, x), dimensions={0}; "
        "d = f32[3,4] dynamic-slice(c, i, o), dynamic_slice_sizes={3,4}",
        "x: f32[3,4]; i: s32[]; o: s32[] = 0; b = f32[2,3,4] broadcast(x), dimensions={1,2}; "
        "c = f32[6,4] reshape(b); d = f32[3,4] dynamic-slice(c, i, o), dynamic_slice_sizes={3,4}",
    ),
]
