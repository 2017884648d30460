"""Gathers and scatters."""

from tests.transforms.simplify.cases.notation import Case

ROWS = (
    "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, "
    "slice_sizes={1,4}"
)
PICKED = (
    "offset_dims={}, collapsed_slice_dims={1}, start_index_map={1}, operand_batching_dims={0}, "
    "start_indices_batching_dims={0}, index_vector_dim=2, slice_sizes={1,1}"
)
ADD = (
    "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
    "index_vector_dim=1"
)

CASES: list[Case] = [
    (
        "gather-repeated-scalar",
        f"v: f32[]; i: s32[3]; x = f32[9,4] broadcast(v), dimensions={{}}; "
        f"a = f32[3,4] gather(x, i), {ROWS}",
        "v: f32[]; i: s32[3]; a = f32[3,4] broadcast(v), dimensions={}",
    ),
    (
        "gather-everything",
        f"x: f32[1,4]; i: s32[3]; a = f32[3,4] gather(x, i), {ROWS}",
        "x: f32[1,4]; i: s32[3]; b = f32[4] reshape(x); a = f32[3,4] broadcast(b), dimensions={1}",
    ),
    ("gather-everything", f"x: f32[2,4]; i: s32[3]; a = f32[3,4] gather(x, i), {ROWS}", None),
    (
        "gather-everything",
        "x: f32[0,2]; i: s32[3]; a = f32[3,2] gather(x, i), offset_dims={1}, "
        "collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={0,2}",
        None,
    ),
    (
        "gather-one-slice",
        f"x: f32[9,4]; i: s32[1]; a = f32[1,4] gather(x, i), {ROWS}",
        "x: f32[9,4]; i: s32[1]; j = s32[] reshape(i); z: s32[] = 0; "
        "b = f32[1,4] dynamic-slice(x, j, z), dynamic_slice_sizes={1,4}; a = f32[1,4] reshape(b)",
    ),
    (
        "gather-one-slice",
        "x: f32[9,4]; i: s32[1,2]; a = f32[2,3,1] gather(x, i), offset_dims={0,1}, "
        "collapsed_slice_dims={}, start_index_map={1,0}, index_vector_dim=1, slice_sizes={2,3}",
        "x: f32[9,4]; i: s32[1,2]; v = s32[2] reshape(i); s = s32[1] slice(v), slice={[1:2]}; "
        "r = s32[] reshape(s); t = s32[1] slice(v), slice={[0:1]}; u = s32[] reshape(t); "
        "b = f32[2,3] dynamic-slice(x, r, u), dynamic_slice_sizes={2,3}; a = f32[2,3,1] reshape(b)",
    ),
    ("gather-one-slice", f"x: f32[9,4]; i: s32[2]; a = f32[2,4] gather(x, i), {ROWS}", None),
    (
        "gather-of-elementwise",
        f"x: bf16[9,4]; i: s32[3]; b = f32[9,4] convert(x); a = f32[3,4] gather(b, i), {ROWS}",
        f"x: bf16[9,4]; i: s32[3]; b = bf16[3,4] gather(x, i), {ROWS}; a = f32[3,4] convert(b)",
    ),
    (
        "gather-of-elementwise",
        f"x: bf16[9,4]; i: s32[20]; b = f32[9,4] convert(x); a = f32[20,4] gather(b, i), {ROWS}",
        None,  # more than there is
    ),
    (
        "gather-of-elementwise",
        "x: f32[5,9]; y: f32[5]; i: s32[5,1,1]; z = f32[5,9] broadcast(y), dimensions={0}; "
        f"b = f32[5,9] subtract(x, z); a = f32[5,1] gather(b, i), {PICKED}",
        "x: f32[5,9]; y: f32[5]; i: s32[5,1,1]; z = f32[5,9] broadcast(y), dimensions={0}; "
        f"p = f32[5,1] gather(x, i), {PICKED}; q = f32[5,1] gather(z, i), {PICKED}; "
        "a = f32[5,1] subtract(p, q)",
    ),
    (
        "gather-of-elementwise",
        "x: f32[6,8]; y: f32[6]; i: s32[4,2]; z = f32[6,8] broadcast(y), dimensions={0}; "
        "b = f32[6,8] subtract(x, z); a = f32[4] gather(b, i), offset_dims={}, "
        "collapsed_slice_dims={0,1}, start_index_map={0,1}, index_vector_dim=1, slice_sizes={1,1}",
        None,  # only one of the two indices is along y
    ),
    (
        "gather-of-broadcast",
        "y: f32[5]; i: s32[5,1,1]; z = f32[5,9] broadcast(y), dimensions={0}; "
        f"a = f32[5,1] gather(z, i), {PICKED}",
        "y: f32[5]; i: s32[5,1,1]; a = f32[5,1] broadcast(y), dimensions={0}",
    ),
    (
        "gather-of-broadcast",
        "y: f32[2,5]; i: s32[3]; z = f32[2,9,5] broadcast(y), dimensions={0,2}; "
        "a = f32[3,2,5] gather(z, i), offset_dims={1,2}, collapsed_slice_dims={1}, "
        "start_index_map={1}, index_vector_dim=1, slice_sizes={2,1,5}",
        "y: f32[2,5]; i: s32[3]; a = f32[3,2,5] broadcast(y), dimensions={1,2}",
    ),
    (
        "gather-of-broadcast",
        "y: f32[2,5]; i: s32[3]; z = f32[2,9,5] broadcast(y), dimensions={0,2}; "
        "a = f32[3,2,4] gather(z, i), offset_dims={1,2}, collapsed_slice_dims={1}, "
        "start_index_map={1}, index_vector_dim=1, slice_sizes={2,1,4}",
        None,  # a part of y
    ),
    (
        "gather-of-broadcast",
        "y: f32[9,3]; i: s32[4,1]; z = f32[9,6,3] broadcast(y), dimensions={0,2}; "
        "a = f32[6,4,3] gather(z, i), offset_dims={0,2}, collapsed_slice_dims={0}, "
        "start_index_map={0}, index_vector_dim=1, slice_sizes={1,6,3}",
        "y: f32[9,3]; i: s32[4,1]; b = f32[4,3] gather(y, i), offset_dims={1}, "
        "collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,3}; "
        "a = f32[6,4,3] broadcast(b), dimensions={1,2}",
    ),
    (
        "gather-of-broadcast",
        "y: f32[5,9]; i: s32[2,5,7]; z = f32[5,9,2] broadcast(y), dimensions={0,1}; "
        "a = f32[2,5,7] gather(z, i), offset_dims={}, collapsed_slice_dims={1}, "
        "start_index_map={1}, operand_batching_dims={0,2}, start_indices_batching_dims={1,0}, "
        "index_vector_dim=3, slice_sizes={1,1,1}",
        "y: f32[5,9]; i: s32[2,5,7]; a = f32[2,5,7] gather(y, i), offset_dims={}, "
        "collapsed_slice_dims={1}, start_index_map={1}, operand_batching_dims={0}, "
        "start_indices_batching_dims={1}, index_vector_dim=3, slice_sizes={1,1}",
    ),
    (
        "gather-at-widened",
        f"x: f32[9,4]; i: s32[3]; j = s64[3] convert(i); a = f32[3,4] gather(x, j), {ROWS}",
        f"x: f32[9,4]; i: s32[3]; a = f32[3,4] gather(x, i), {ROWS}",
    ),
    (
        "gather-at-widened",
        f"x: f32[9,4]; i: s64[3]; j = s32[3] convert(i); a = f32[3,4] gather(x, j), {ROWS}",
        None,
    ),
    (
        "slice-of-gather",
        "x: f32[9,2]; i = s32[2,1] constant({{1}, {0}}); "
        "g = f32[9,2] gather(x, i), offset_dims={0}, collapsed_slice_dims={1}, "
        "start_index_map={1}, index_vector_dim=1, slice_sizes={9,1}; "
        "a = f32[4,1] slice(g), slice={[1:8:2], [0:1]}",
        "x: f32[9,2]; b = f32[4,1] slice(x), slice={[1:8:2], [1:2]}; a = f32[4,1] reshape(b)",
    ),
    (
        "slice-of-gather",
        f"x: f32[9,4]; i = s32[3] constant({{7, -2, 12}}); g = f32[3,4] gather(x, i), {ROWS}; "
        "a = f32[1,4] slice(g), slice={[2:3], [0:4]}",  # the last index is too large
        "x: f32[9,4]; b = f32[1,4] slice(x), slice={[8:9], [0:4]}; a = f32[1,4] reshape(b)",
    ),
    (
        "slice-of-gather",
        f"x: f32[9,4]; i = s32[3] constant({{7, -2, 12}}); g = f32[3,4] gather(x, i), {ROWS}; "
        "a = f32[2,4] slice(g), slice={[1:3], [0:4]}",
        None,
    ),
    (
        "slice-of-gather",
        f"x: f32[9,4]; i: s32[3]; g = f32[3,4] gather(x, i), {ROWS}; "
        "a = f32[1,4] slice(g), slice={[2:3], [0:4]}",
        None,
    ),
    (
        "scatter-nothing",
        f"x: f32[9,4]; i: s32[0]; u: f32[0,4]; a = f32[9,4] scatter(x, i, u), {ADD}, "
        "to_apply=add_f32",
        "x: f32[9,4]; i: s32[0]; u: f32[0,4]; ROOT x",
    ),
    (
        "scatter-at-widened",
        f"x: f32[9,4]; i: u32[3]; u: f32[3,4]; j = s64[3] convert(i); "
        f"a = f32[9,4] scatter(x, j, u), {ADD}, to_apply=add_f32",
        f"x: f32[9,4]; i: u32[3]; u: f32[3,4]; a = f32[9,4] scatter(x, i, u), {ADD}, "
        "to_apply=add_f32",
    ),
    (
        "scatter-zeros",
        f"x: s32[9,4]; i: s32[3]; u: s32[3,4] = 0; a = s32[9,4] scatter(x, i, u), {ADD}, "
        "to_apply=add_s32",
        "x: s32[9,4]; i: s32[3]; ROOT x",
    ),
    (
        "scatter-zeros",
        f"x: s32[9,4]; i: s32[3]; u: s32[3,4] = 0; a = s32[9,4] scatter(x, i, u), {ADD}, "
        "to_apply=multiply_s32",
        None,
    ),
]
