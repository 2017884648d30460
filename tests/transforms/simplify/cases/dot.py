"""Dots."""

from tests.transforms.simplify.cases.notation import Case, on_both

MATRICES = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
BATCHES = (
    "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}"
)

CASES: list[Case] = [
    (
        "dot-of-nothing",
        f"x: f32[2,0]; y: f32[0,3]; a = f32[2,3] dot(x, y), {MATRICES}",
        "x: f32[2,0]; y: f32[0,3]; a: f32[2,3] = 0",
    ),
    *on_both(
        "dot-of-zeros",
        f"x: T[2,4]; y: T[4,3] = 0; a = T[2,3] dot(x, y), {MATRICES}",
        "x: T[2,4]; a: T[2,3] = 0",
    ),
    (
        "dot-of-single-products",
        f"x: f32[2,1]; y: f32[1,3]; a = f32[2,3] dot(x, y), {MATRICES}",
        "x: f32[2,1]; y: f32[1,3]; b = f32[2] reshape(x); c = f32[2,3] broadcast(b), "
        "dimensions={0}; "
        "d = f32[3] reshape(y); e = f32[2,3] broadcast(d), dimensions={1}; "
        "f = f32[2,3] multiply(c, e); z: f32[2,3] = 0; a = f32[2,3] add(f, z)",
    ),
    (
        "dot-of-single-products",
        "x: s32[2,5]; y: s32[5,3]; a = s32[5,2,3] dot(x, y), lhs_batch_dims={1}, "
        "rhs_batch_dims={0}, lhs_contracting_dims={}, rhs_contracting_dims={}",
        "x: s32[2,5]; y: s32[5,3]; b = s32[5,2,3] broadcast(x), dimensions={1,0}; "
        "c = s32[5,2,3] broadcast(y), dimensions={0,2}; a = s32[5,2,3] multiply(b, c)",
    ),
    (
        "dot-of-single-products",
        f"x: bf16[2,1]; y: bf16[1,3]; a = f32[2,3] dot(x, y), {MATRICES}",
        None,  # the product is not rounded to bf16
    ),
    *on_both(
        "dot-of-repeated-scalar",
        f"v: T[]; y: T[4,3]; x = T[2,4] broadcast(v), dimensions={{}}; "
        f"a = T[2,3] dot(x, y), {MATRICES}",
        "v: T[]; y: T[4,3]; z: T[] = 0; b = T[3] reduce(y, z), dimensions={0}, to_apply=add_T; "
        "c = T[3] broadcast(v), dimensions={}; d = T[3] multiply(b, c); "
        "a = T[2,3] broadcast(d), dimensions={1}",
    ),
    (
        "dot-of-repeated-scalar",
        f"v: s32[]; x: s32[5,2,4]; y = s32[5,4,3] broadcast(v), dimensions={{}}; "
        f"a = s32[5,2,3] dot(x, y), {BATCHES}",
        "v: s32[]; x: s32[5,2,4]; z: s32[] = 0; "
        "b = s32[5,2] reduce(x, z), dimensions={2}, to_apply=add_s32; "
        "c = s32[5,2] broadcast(v), dimensions={}; d = s32[5,2] multiply(b, c); "
        "a = s32[5,2,3] broadcast(d), dimensions={0,1}",
    ),
    (
        "dot-without-units",
        f"x: f32[1,2,4]; y: f32[1,4,3]; a = f32[1,2,3] dot(x, y), {BATCHES}",
        "x: f32[1,2,4]; y: f32[1,4,3]; b = f32[2,4] reshape(x); c = f32[4,3] reshape(y); "
        f"d = f32[2,3] dot(b, c), {MATRICES}; a = f32[1,2,3] reshape(d)",
    ),
    (
        "dot-without-units",
        "x: f32[2,4,1]; y: f32[1,4,3]; a = f32[2,3] dot(x, y), lhs_contracting_dims={1,2}, "
        "rhs_contracting_dims={1,0}",
        "x: f32[2,4,1]; y: f32[1,4,3]; b = f32[2,4] reshape(x); c = f32[4,3] reshape(y); "
        f"a = f32[2,3] dot(b, c), {MATRICES}",
    ),
    (
        "dot-without-units",
        f"x: f32[5,1,4]; y: f32[5,4,3]; a = f32[5,1,3] dot(x, y), {BATCHES}",
        None,
    ),
    (
        "dot-of-transpose",
        "x: f32[4,2]; y: f32[4,3]; b = f32[2,4] transpose(x), dimensions={1,0}; "
        f"a = f32[2,3] dot(b, y), {MATRICES}",
        "x: f32[4,2]; y: f32[4,3]; "
        "a = f32[2,3] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
    ),
    (
        "dot-of-transpose",
        "x: f32[2,4]; y: bf16[3,4]; b = bf16[4,3] transpose(y), dimensions={1,0}; "
        f"c = f32[4,3] convert(b); a = f32[2,3] dot(x, c), {MATRICES}",
        "x: f32[2,4]; y: bf16[3,4]; c = f32[3,4] convert(y); "
        "a = f32[2,3] dot(x, c), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
    ),
    (
        "dot-of-transpose",
        "x: f32[2,5,4]; y: f32[5,4,3]; b = f32[5,2,4] transpose(x), dimensions={1,0,2}; "
        f"a = f32[5,2,3] dot(b, y), {BATCHES}",
        None,  # batch dimensions stay in front
    ),
    (
        "dot-of-transpose",
        "x: f32[2,5,4]; y: f32[4,3]; b = f32[5,2,4] transpose(x), dimensions={1,0,2}; "
        "a = f32[5,2,3] dot(b, y), lhs_contracting_dims={2}, rhs_contracting_dims={0}",
        None,  # free dimensions would change places
    ),
    (
        "transpose-of-dot",
        f"x: f32[5,2,4]; y: f32[5,4,3]; a = f32[5,2,3] dot(x, y), {BATCHES}; "
        "b = f32[5,3,2] transpose(a), dimensions={0,2,1}",
        "x: f32[5,2,4]; y: f32[5,4,3]; b = f32[5,3,2] dot(y, x), lhs_batch_dims={0}, "
        "rhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_contracting_dims={2}",
    ),
    (
        "transpose-of-dot",
        f"x: f32[5,2,4]; y: f32[5,4,3]; a = f32[5,2,3] dot(x, y), {BATCHES}; "
        "b = f32[2,5,3] transpose(a), dimensions={1,0,2}",
        None,
    ),
    (
        "dot-of-free-units",
        "x: f32[2,4]; y: f32[4,3]; b = f32[2,1,4] reshape(x); "
        "a = f32[2,1,3] dot(b, y), lhs_contracting_dims={2}, rhs_contracting_dims={0}",
        f"x: f32[2,4]; y: f32[4,3]; b = f32[2,3] dot(x, y), {MATRICES}; a = f32[2,1,3] reshape(b)",
    ),
    (
        "dot-of-free-units",
        "x: f32[2,4]; y: f32[8]; b = f32[8] reshape(x); "
        "a = f32[] dot(b, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
        None,
    ),
    *on_both(
        "dot-of-concatenates",
        "a: T[2,4]; b: T[2,3]; c: T[4,2]; d: T[3,2]; x = T[2,7] concatenate(a, b), dimensions={1}; "
        f"y = T[7,2] concatenate(c, d), dimensions={{0}}; e = T[2,2] dot(x, y), {MATRICES}",
        f"a: T[2,4]; b: T[2,3]; c: T[4,2]; d: T[3,2]; x = T[2,2] dot(a, c), {MATRICES}; "
        f"y = T[2,2] dot(b, d), {MATRICES}; e = T[2,2] add(x, y)",
    ),
]
