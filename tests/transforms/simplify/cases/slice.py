"""Slices."""

from tests.transforms.simplify.cases.notation import Case

CASES: list[Case] = [
    ("slice-everything", "x: f32[4]; a = f32[4] slice(x), slice={[0:4]}", "x: f32[4]"),
    (
        "slice-of-slice",
        "x: f32[20]; a = f32[6] slice(x), slice={[2:20:3]}; b = f32[2] slice(a), slice={[1:5:2]}",
        "x: f32[20]; b = f32[2] slice(x), slice={[5:12:6]}",
    ),
    (
        "slice-of-slice",
        "x: f32[20]; a = f32[6] slice(x), slice={[2:20:3]}; b = f32[1] slice(a), slice={[5:6]}",
        "x: f32[20]; b = f32[1] slice(x), slice={[17:18]}",
    ),
    (
        "slice-of-slice",
        "x: f32[20]; a = f32[6] slice(x), slice={[2:20:3]}; b = f32[0] slice(a), slice={[6:6]}",
        "x: f32[20]; b = f32[0] slice(x), slice={[0:0]}",
    ),
    (
        "slice-of-broadcast",
        "x: f32[4]; a = f32[3,4] broadcast(x), dimensions={1}; "
        "b = f32[2,1] slice(a), slice={[0:2], [1:2]}",
        "x: f32[4]; a = f32[1] slice(x), slice={[1:2]}; b = f32[2,1] broadcast(a), dimensions={1}",
    ),
    (
        "slice-of-iota",
        "x = s32[9] iota(), iota_dimension=0; a = s32[3] slice(x), slice={[3:9:2]}",
        "x = s32[3] iota(), iota_dimension=0; c: s32[3] = 2; a = s32[3] multiply(x, c); "
        "d: s32[3] = 3; b = s32[3] add(a, d)",
    ),
    (
        "slice-of-iota",
        "x = f32[9] iota(), iota_dimension=0; a = f32[3] slice(x), slice={[0:3]}",
        "x = f32[3] iota(), iota_dimension=0",
    ),
    (
        "slice-of-iota",
        "x = f32[9] iota(), iota_dimension=0; a = f32[3] slice(x), slice={[1:4]}",
        None,
    ),
    (
        "slice-of-concatenate",
        "x: f32[4]; y: f32[3]; a = f32[7] concatenate(x, y), dimensions={0}; "
        "b = f32[2] slice(a), slice={[4:6]}",
        "x: f32[4]; y: f32[3]; b = f32[2] slice(y), slice={[0:2]}",
    ),
    (
        "slice-of-concatenate",
        "x: f32[4]; y: f32[3]; a = f32[7] concatenate(x, y), dimensions={0}; "
        "b = f32[2] slice(a), slice={[2:4]}",
        "x: f32[4]; y: f32[3]; b = f32[2] slice(x), slice={[2:4]}",
    ),
    (
        "slice-of-concatenate",
        "x: f32[4]; y: f32[3]; z: f32[5]; a = f32[12] concatenate(x, y, z), dimensions={0}; "
        "b = f32[2] slice(a), slice={[5:7]}",
        "x: f32[4]; y: f32[3]; z: f32[5]; b = f32[2] slice(y), slice={[1:3]}",
    ),
    (
        "slice-of-concatenate",
        "x: f32[4]; y: f32[3]; z: f32[5]; a = f32[12] concatenate(x, y, z), dimensions={0}; "
        "b = f32[3] slice(a), slice={[5:10:2]}",
        "x: f32[4]; y: f32[3]; z: f32[5]; a = f32[8] concatenate(y, z), dimensions={0}; "
        "b = f32[3] slice(a), slice={[1:6:2]}",
    ),
    (
        "slice-of-concatenate",
        "x: f32[4]; y: f32[3]; a = f32[7] concatenate(x, y), dimensions={0}; "
        "b = f32[2] slice(a), slice={[3:5]}",
        None,
    ),
    (
        "slice-of-pad",
        "x: f32[4]; v: f32[]; a = f32[9] pad(x, v), padding=2_3; b = f32[3] slice(a), "
        "slice={[3:6]}",
        "x: f32[4]; v: f32[]; b = f32[3] slice(x), slice={[1:4]}",
    ),
    (
        "slice-of-pad",
        "x: f32[4]; v: f32[]; a = f32[9] pad(x, v), padding=2_3; b = f32[4] slice(a), "
        "slice={[1:5]}",
        "x: f32[4]; v: f32[]; a = f32[3] slice(x), slice={[0:3]}; b = f32[4] pad(a, v), "
        "padding=1_0",
    ),
    (
        "slice-of-pad",
        "x: f32[4]; v: f32[]; a = f32[9] pad(x, v), padding=2_3; b = f32[2] slice(a), "
        "slice={[7:9]}",
        "x: f32[4]; v: f32[]; b = f32[2] broadcast(v), dimensions={}",
    ),
    (
        "slice-of-pad",
        "x: f32[4]; v: f32[]; a = f32[12] pad(x, v), padding=2_3_1; "
        "b = f32[4] slice(a), slice={[1:5]}",
        None,
    ),
    (
        "slice-of-reshape",
        "x: f32[4,3]; a = f32[4,1,3] reshape(x); b = f32[2,1,1] slice(a), slice={[0:4:2], [0:1], "
        "[1:2]}",
        "x: f32[4,3]; a = f32[2,1] slice(x), slice={[0:4:2], [1:2]}; b = f32[2,1,1] reshape(a)",
    ),
    (
        "slice-of-reshape",
        "x: f32[4,3]; a = f32[12] reshape(x); b = f32[3] slice(a), slice={[0:3]}",
        None,
    ),
    (
        "slice-of-transpose",
        "x: f32[4,3]; a = f32[3,4] transpose(x), dimensions={1,0}; "
        "b = f32[3,2] slice(a), slice={[0:3], [1:3]}",
        "x: f32[4,3]; a = f32[2,3] slice(x), slice={[1:3], [0:3]}; "
        "b = f32[3,2] transpose(a), dimensions={1,0}",
    ),
    (
        "slice-of-reverse",
        "x: f32[7]; a = f32[7] reverse(x), dimensions={0}; b = f32[2] slice(a), slice={[1:5:3]}",
        "x: f32[7]; a = f32[2] slice(x), slice={[2:6:3]}; b = f32[2] reverse(a), dimensions={0}",
    ),
    (
        "slice-of-update",
        "x: f32[8]; u: f32[3]; i: s32[] = 9; a = f32[8] dynamic-update-slice(x, u, i); "
        "b = f32[2] slice(a), slice={[6:8]}",
        "x: f32[8]; u: f32[3]; b = f32[2] slice(u), slice={[1:3]}",
    ),
    (
        "slice-of-update",
        "x: f32[8]; u: f32[3]; i: s32[] = 2; a = f32[8] dynamic-update-slice(x, u, i); "
        "b = f32[2] slice(a), slice={[0:2]}",
        "x: f32[8]; u: f32[3]; b = f32[2] slice(x), slice={[0:2]}",
    ),
    (
        "slice-of-update",
        "x: f32[8]; u: f32[3]; v: f32[2]; i: s32[] = 2; j: s32[] = 5; "
        "a = f32[8] dynamic-update-slice(x, u, i); c = f32[8] dynamic-update-slice(a, v, j); "
        "b = f32[2] slice(c), slice={[1:3]}",
        "x: f32[8]; u: f32[3]; v: f32[2]; i: s32[] = 2; "
        "a = f32[8] dynamic-update-slice(x, u, i); b = f32[2] slice(a), slice={[1:3]}",
    ),
    (
        "slice-of-update",
        "x: f32[8]; u: f32[3]; i: s32[] = 2; a = f32[8] dynamic-update-slice(x, u, i); "
        "b = f32[2] slice(a), slice={[1:3]}",
        None,
    ),
    (
        "slice-of-elementwise",
        "x: bf16[8]; a = f32[8] convert(x); b = f32[2] slice(a), slice={[3:5]}",
        "x: bf16[8]; a = bf16[2] slice(x), slice={[3:5]}; b = f32[2] convert(a)",
    ),
    (
        "slice-of-elementwise",
        "x: f32[8]; a = bf16[8] convert(x); b = bf16[7] slice(a), slice={[0:7]}",
        None,  # 28 bytes for 16
    ),
    (
        "slice-of-elementwise",
        "x: f32[8]; y: f32[8]; a = f32[8] add(x, y); b = f32[2] slice(a), slice={[0:2]}",
        None,  # two slices for one
    ),
    (
        "slice-of-elementwise",
        "x: f32[8]; a = f32[8] negate(x); b = f32[4] slice(a), slice={[0:4]}; "
        "c = f32[4] slice(a), slice={[4:8]}; d = f32[4] multiply(b, c)",
        None,  # all of it is read
    ),
    (
        "slice-of-dot",
        "x: f32[8,5]; y: f32[5,9]; a = f32[8,9] dot(x, y), lhs_contracting_dims={1}, "
        "rhs_contracting_dims={0}; b = f32[1,9] slice(a), slice={[7:8], [0:9]}",
        "x: f32[8,5]; y: f32[5,9]; a = f32[1,5] slice(x), slice={[7:8], [0:5]}; "
        "b = f32[1,9] dot(a, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ),
    (
        "slice-of-dot",
        "x: f32[2,8,5]; y: f32[2,5,9]; a = f32[2,8,9] dot(x, y), lhs_batch_dims={0}, "
        "rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}; "
        "b = f32[1,8,2] slice(a), slice={[1:2], [0:8], [0:4:2]}",
        "x: f32[2,8,5]; y: f32[2,5,9]; c = f32[1,8,5] slice(x), slice={[1:2], [0:8], [0:5]}; "
        "d = f32[1,5,2] slice(y), slice={[1:2], [0:5], [0:4:2]}; "
        "b = f32[1,8,2] dot(c, d), lhs_batch_dims={0}, "
        "rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}",
    ),
    (
        "slice-of-dot",
        "x: f32[8,50]; y: f32[50,9]; a = f32[8,9] dot(x, y), lhs_contracting_dims={1}, "
        "rhs_contracting_dims={0}; b = f32[2,9] slice(a), slice={[6:8], [0:9]}",
        None,  # the slice of x would be larger than the dot
    ),
]
