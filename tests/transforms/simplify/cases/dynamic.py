"""Dynamic slices and updates."""

from tests.transforms.simplify.cases.notation import Case

CASES: list[Case] = [
    (
        "dynamic-slice-of-everything",
        "x: f32[4]; i: s32[]; a = f32[4] dynamic-slice(x, i), dynamic_slice_sizes={4}",
        "x: f32[4]; i: s32[]; ROOT x",
    ),
    (
        "dynamic-slice-at-constant",
        "x: f32[9]; i: s32[] = 7; a = f32[4] dynamic-slice(x, i), dynamic_slice_sizes={4}",
        "x: f32[9]; a = f32[4] slice(x), slice={[5:9]}",
    ),
    (
        "dynamic-slice-at-constant",
        "x: f32[9]; i: s32[] = -7; a = f32[4] dynamic-slice(x, i), dynamic_slice_sizes={4}",
        "x: f32[9]; a = f32[4] slice(x), slice={[0:4]}",
    ),
    (
        "dynamic-slice-at-constant",
        "x: f32[9,9]; i: s32[] = 7; j: s32[]; "
        "a = f32[4,4] dynamic-slice(x, i, j), dynamic_slice_sizes={4,4}",
        None,
    ),
    (
        "dynamic-slice-of-whole-dimension",
        "x: f32[9,4]; i: s32[]; j: s32[]; "
        "a = f32[4,4] dynamic-slice(x, i, j), dynamic_slice_sizes={4,4}",
        "x: f32[9,4]; i: s32[]; j: s32[]; z: s32[] = 0; "
        "a = f32[4,4] dynamic-slice(x, i, z), dynamic_slice_sizes={4,4}",
    ),
    (
        "dynamic-slice-of-broadcast",
        "x: f32[9]; i: s32[]; j: s32[]; b = f32[5,9] broadcast(x), dimensions={1}; "
        "a = f32[2,4] dynamic-slice(b, i, j), dynamic_slice_sizes={2,4}",
        "x: f32[9]; i: s32[]; j: s32[]; b = f32[4] dynamic-slice(x, j), dynamic_slice_sizes={4}; "
        "a = f32[2,4] broadcast(b), dimensions={1}",
    ),
    (
        "dynamic-slice-of-transpose",
        "x: f32[9,5]; i: s32[]; j: s32[]; b = f32[5,9] transpose(x), dimensions={1,0}; "
        "a = f32[2,4] dynamic-slice(b, i, j), dynamic_slice_sizes={2,4}",
        "x: f32[9,5]; i: s32[]; j: s32[]; "
        "b = f32[4,2] dynamic-slice(x, j, i), dynamic_slice_sizes={4,2}; "
        "a = f32[2,4] transpose(b), dimensions={1,0}",
    ),
    (
        "dynamic-slice-of-reshape",
        "x: f32[9,5]; i: s32[]; j: s32[]; k: s32[]; b = f32[9,1,5] reshape(x); "
        "a = f32[2,1,4] dynamic-slice(b, i, j, k), dynamic_slice_sizes={2,1,4}",
        "x: f32[9,5]; i: s32[]; j: s32[]; k: s32[]; "
        "b = f32[2,4] dynamic-slice(x, i, k), dynamic_slice_sizes={2,4}; "
        "a = f32[2,1,4] reshape(b)",
    ),
    (
        "dynamic-slice-of-elementwise",
        "x: bf16[9]; i: s32[]; b = f32[9] convert(x); "
        "a = f32[2] dynamic-slice(b, i), dynamic_slice_sizes={2}",
        "x: bf16[9]; i: s32[]; b = bf16[2] dynamic-slice(x, i), dynamic_slice_sizes={2}; "
        "a = f32[2] convert(b)",
    ),
    (
        "dynamic-slice-of-elementwise",
        "x: bf16[9]; i: s32[]; b = f32[9] convert(x); "
        "a = f32[2] dynamic-slice(b, i), dynamic_slice_sizes={2}; "
        "ROOT t = (f32[2], f32[9]) tuple(a, b)",
        None,
    ),
    (
        "dynamic-slice-of-update",
        "x: f32[9]; u: f32[2]; i: s32[]; b = f32[9] dynamic-update-slice(x, u, i); "
        "a = f32[2] dynamic-slice(b, i), dynamic_slice_sizes={2}",
        "x: f32[9]; u: f32[2]; i: s32[]; ROOT u",
    ),
    (
        "dynamic-slice-of-update",
        "x: f32[9]; u: f32[3]; i: s32[]; b = f32[9] dynamic-update-slice(x, u, i); "
        "a = f32[2] dynamic-slice(b, i), dynamic_slice_sizes={2}",
        None,
    ),
    (
        "dynamic-slice-of-part",
        "x: f32[9,8]; i: s32[]; j: s32[]; b = f32[9,3] slice(x), slice={[0:9], [2:5]}; "
        "a = f32[2,3] dynamic-slice(b, i, j), dynamic_slice_sizes={2,3}",
        "x: f32[9,8]; i: s32[]; j: s32[]; k: s32[] = 2; "
        "a = f32[2,3] dynamic-slice(x, i, k), dynamic_slice_sizes={2,3}",
    ),
    (
        "dynamic-slice-of-part",
        "x: f32[9,8]; i: s32[]; j: s32[]; "
        "b = f32[2,8] dynamic-slice(x, i, j), dynamic_slice_sizes={2,8}; "
        "a = f32[2,3] dynamic-slice(b, j, i), dynamic_slice_sizes={2,3}",
        "x: f32[9,8]; i: s32[]; j: s32[]; "
        "a = f32[2,3] dynamic-slice(x, i, i), dynamic_slice_sizes={2,3}",
    ),
    (
        "dynamic-slice-of-part",
        "x: f32[9,8]; i: s32[]; j: s32[]; b = f32[5,8] slice(x), slice={[2:7], [0:8]}; "
        "a = f32[2,3] dynamic-slice(b, i, j), dynamic_slice_sizes={2,3}",
        None,
    ),
    (
        "dynamic-slice-of-iota",
        "i: s32[]; x = s32[9] iota(), iota_dimension=0; "
        "a = s32[1] dynamic-slice(x, i), dynamic_slice_sizes={1}",
        "i: s32[]; c: s32[] = 0; d: s32[] = 8; e = s32[] clamp(c, i, d); "
        "a = s32[1] broadcast(e), dimensions={}",
    ),
    (
        "slice-of-dynamic-slice",
        "x: f32[9,8]; i: s32[]; z: s32[] = 0; "
        "b = f32[2,8] dynamic-slice(x, i, z), dynamic_slice_sizes={2,8}; "
        "a = f32[2,3] slice(b), slice={[0:2], [4:7]}",
        "x: f32[9,8]; i: s32[]; z: s32[] = 4; "
        "a = f32[2,3] dynamic-slice(x, i, z), dynamic_slice_sizes={2,3}",
    ),
    (
        "slice-of-dynamic-slice",
        "x: f32[9]; i: s32[]; b = f32[5] dynamic-slice(x, i), dynamic_slice_sizes={5}; "
        "a = f32[3] slice(b), slice={[0:3]}",
        None,  # the start may be moved
    ),
    (
        "update-everything",
        "x: f32[9]; u: f32[9]; i: s32[]; a = f32[9] dynamic-update-slice(x, u, i)",
        "x: f32[9]; u: f32[9]; i: s32[]; ROOT u",
    ),
    (
        "update-nothing",
        "x: f32[9]; u: f32[0]; i: s32[]; a = f32[9] dynamic-update-slice(x, u, i)",
        "x: f32[9]; u: f32[0]; i: s32[]; ROOT x",
    ),
    (
        "update-with-own-elements",
        "x: f32[9]; i: s32[]; b = f32[2] dynamic-slice(x, i), dynamic_slice_sizes={2}; "
        "a = f32[9] dynamic-update-slice(x, b, i)",
        "x: f32[9]; i: s32[]; ROOT x",
    ),
    (
        "update-of-whole-dimension",
        "x: f32[9,4]; u: f32[2,4]; i: s32[]; a = f32[9,4] dynamic-update-slice(x, u, i, i)",
        "x: f32[9,4]; u: f32[2,4]; i: s32[]; z: s32[] = 0; "
        "a = f32[9,4] dynamic-update-slice(x, u, i, z)",
    ),
    (
        "update-twice",
        "x: f32[9]; u: f32[2]; v: f32[2]; i: s32[]; b = f32[9] dynamic-update-slice(x, u, i); "
        "a = f32[9] dynamic-update-slice(b, v, i)",
        "x: f32[9]; u: f32[2]; v: f32[2]; i: s32[]; a = f32[9] dynamic-update-slice(x, v, i)",
    ),
    (
        "update-twice",
        "x: f32[9]; u: f32[2]; v: f32[2]; i: s32[]; j: s32[]; "
        "b = f32[9] dynamic-update-slice(x, u, i); a = f32[9] dynamic-update-slice(b, v, j)",
        None,
    ),
    (
        "update-with-same-scalar",
        "v: f32[]; i: s32[]; x = f32[9] broadcast(v), dimensions={}; "
        "u = f32[2] broadcast(v), dimensions={}; a = f32[9] dynamic-update-slice(x, u, i)",
        "v: f32[]; i: s32[]; x = f32[9] broadcast(v), dimensions={}",
    ),
    (
        "update-of-repeated-scalar",
        "v: f32[]; u: f32[2]; i: s32[] = 8; x = f32[9] broadcast(v), dimensions={}; "
        "a = f32[9] dynamic-update-slice(x, u, i)",
        "v: f32[]; u: f32[2]; a = f32[9] pad(u, v), padding=7_0",
    ),
    (
        "start-in-range",
        "x: f32[9]; i: s32[]; c: s32[] = 0; d: s32[] = 7; j = s32[] clamp(c, i, d); "
        "a = f32[2] dynamic-slice(x, j), dynamic_slice_sizes={2}",
        "x: f32[9]; i: s32[]; a = f32[2] dynamic-slice(x, i), dynamic_slice_sizes={2}",
    ),
    (
        "start-in-range",
        "x: f32[9]; u: f32[2]; i: s32[]; c: s32[] = -1; d: s32[] = 8; j = s32[] clamp(c, i, d); "
        "a = f32[9] dynamic-update-slice(x, u, j)",
        "x: f32[9]; u: f32[2]; i: s32[]; a = f32[9] dynamic-update-slice(x, u, i)",
    ),
    (
        "start-in-range",
        "x: f32[9]; i: s32[]; c: s32[] = 0; d: s32[] = 6; j = s32[] clamp(c, i, d); "
        "a = f32[2] dynamic-slice(x, j), dynamic_slice_sizes={2}",
        None,
    ),
]
