"""Cases of layout passes: a name, a body before, and the body after, in the notation of rules."""

Cases = tuple[tuple[str, str, str], ...]

COPY_SINKING: Cases = (
    (
        "below a slice",
        "x: f32[8,8]; c = f32[8,8]{0,1} copy(x); "
        "s = f32[2,8]{0,1} slice(c), slice={[2:4], [0:8]}; y = f32[2,8]{0,1} negate(s)",
        "x: f32[8,8]; s = f32[2,8] slice(x), slice={[2:4], [0:8]}; c = f32[2,8]{0,1} copy(s); "
        "y = f32[2,8]{0,1} negate(c)",
    ),
    (
        "below a reduction",
        "x: f32[4,8,6]; z: f32[]; c = f32[4,8,6]{2,0,1} copy(x); "
        "r = f32[4,8]{0,1} reduce(c, z), dimensions={2}, to_apply=add_f32; "
        "y = f32[4,8]{0,1} negate(r)",
        "x: f32[4,8,6]; z: f32[]; r = f32[4,8] reduce(x, z), dimensions={2}, to_apply=add_f32; "
        "c = f32[4,8]{0,1} copy(r); y = f32[4,8]{0,1} negate(c)",
    ),
    (
        "below a conversion to fewer bits",
        "x: f32[4,8]; c = f32[4,8]{0,1} copy(x); n = bf16[4,8]{0,1} convert(c); "
        "y = bf16[4,8]{0,1} negate(n)",
        "x: f32[4,8]; n = bf16[4,8] convert(x); c = bf16[4,8]{0,1} copy(n); "
        "y = bf16[4,8]{0,1} negate(c)",
    ),
    (
        "not below a conversion to more bits",
        "x: bf16[4,8]; c = bf16[4,8]{0,1} copy(x); n = f32[4,8]{0,1} convert(c); "
        "y = f32[4,8]{0,1} negate(n)",
        "x: bf16[4,8]; c = bf16[4,8]{0,1} copy(x); n = f32[4,8]{0,1} convert(c); "
        "y = f32[4,8]{0,1} negate(n)",
    ),
    (
        "two meet",
        "x: f32[4,8]; c = f32[4,8]{0,1} copy(x); n = f32[4,8]{0,1} negate(c); "
        "d = f32[4,8]{1,0} copy(n); y = f32[4,8] exponential(d)",
        "x: f32[4,8]; n = f32[4,8] negate(x); y = f32[4,8] exponential(n)",
    ),
    (
        "of both operands",
        "x: f32[4,8]; y: f32[4,8]; c = f32[4,8]{0,1} copy(x); d = f32[4,8]{0,1} copy(y); "
        "s = f32[4,8]{0,1} multiply(c, d); t = f32[4,8]{0,1} negate(s)",
        "x: f32[4,8]; y: f32[4,8]; s = f32[4,8] multiply(x, y); c = f32[4,8]{0,1} copy(s); "
        "t = f32[4,8]{0,1} negate(c)",
    ),
    (
        "above a broadcast",
        "x: f32[4]; b = f32[4,8] broadcast(x), dimensions={0}; c = f32[4,8]{0,1} copy(b); "
        "y = f32[4,8]{0,1} negate(c)",
        "x: f32[4]; b = f32[4,8]{0,1} broadcast(x), dimensions={0}; y = f32[4,8]{0,1} negate(b)",
    ),
    (
        "above a pad",
        "x: f32[4,8]; z: f32[]; p = f32[9,12] pad(x, z), padding=2_3x4_0; "
        "c = f32[9,12]{0,1} copy(p); y = f32[9,12]{0,1} negate(c)",
        "x: f32[4,8]; z: f32[]; c = f32[4,8]{0,1} copy(x); "
        "p = f32[9,12]{0,1} pad(c, z), padding=2_3x4_0; y = f32[9,12]{0,1} negate(p)",
    ),
    (
        "before a dot nothing is copied",
        "x: f32[4,8]; y: f32[8,6]; c = f32[4,8]{0,1} copy(x); "
        "d = f32[4,6] dot(c, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "x: f32[4,8]; y: f32[8,6]; "
        "d = f32[4,6] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ),
    (
        "before a convolution it stays",
        "x: f32[2,3,8]; k: f32[3,3,4]; c = f32[2,3,8]{1,2,0} copy(x); "
        "d = f32[2,6,4] convolution(c, k), window={size=3}, dim_labels=bf0_0io->b0f",
        "x: f32[2,3,8]; k: f32[3,3,4]; c = f32[2,3,8]{1,2,0} copy(x); "
        "d = f32[2,6,4] convolution(c, k), window={size=3}, dim_labels=bf0_0io->b0f",
    ),
    (
        "that others read stays",
        "x: f32[8,8]; c = f32[8,8]{0,1} copy(x); "
        "s = f32[2,8]{0,1} slice(c), slice={[2:4], [0:8]}; "
        "t = f32[2,8]{0,1} slice(c), slice={[0:2], [0:8]}; y = f32[2,8]{0,1} add(s, t)",
        "x: f32[8,8]; c = f32[8,8]{0,1} copy(x); "
        "s = f32[2,8]{0,1} slice(c), slice={[2:4], [0:8]}; "
        "t = f32[2,8]{0,1} slice(c), slice={[0:2], [0:8]}; y = f32[2,8]{0,1} add(s, t)",
    ),
)

RESHAPE_DECOMPOSER: Cases = (
    (
        "merges what lies apart",
        "x: f32[2,3]{0,1}; y = f32[6] reshape(x)",
        "x: f32[2,3]{0,1}; c = f32[2,3] copy(x); y = f32[6] reshape(c)",
    ),
    (
        "splits into another layout",
        "x: f32[6]; y = f32[2,3]{0,1} reshape(x)",
        "x: f32[6]; r = f32[2,3] reshape(x); c = f32[2,3]{0,1} copy(r)",
    ),
    (
        "merges what lies together",
        "x: f32[2,3,4]{2,1,0}; y = f32[6,4]{1,0} reshape(x)",
        "x: f32[2,3,4]; y = f32[6,4] reshape(x)",
    ),
    (
        "merges within a layout",
        "x: f32[2,3,4]{1,0,2}; y = f32[6,4]{0,1} reshape(x)",
        "x: f32[2,3,4]{1,0,2}; y = f32[6,4]{0,1} reshape(x)",
    ),
    (
        "sizes of 1 lie anywhere",
        "x: f32[2,1,3]{1,2,0}; y = f32[2,3] reshape(x)",
        "x: f32[2,1,3]{1,2,0}; y = f32[2,3] reshape(x)",
    ),
)

DOT_DIMENSIONS: Cases = (
    (
        "contracted heads",
        "x: f32[2,4,8,16]; y: f32[64,32]; t = f32[2,8,4,16] transpose(x), dimensions={0,2,1,3}; "
        "r = f32[2,8,64] reshape(t); "
        "d = f32[2,8,32] dot(r, y), lhs_contracting_dims={2}, rhs_contracting_dims={0}",
        "x: f32[2,4,8,16]; y: f32[64,32]; t = f32[2,8,4,16] transpose(x), dimensions={0,2,1,3}; "
        "r = f32[4,16,32] reshape(y); "
        "dot = f32[2,8,32] dot(t, r), lhs_contracting_dims={2,3}, rhs_contracting_dims={0,1}",
    ),
    (
        "on the right",
        "x: f32[64,32]; y: f32[4,8,16]; t = f32[8,4,16] transpose(y), dimensions={1,0,2}; "
        "r = f32[8,64] reshape(t); "
        "d = f32[32,8] dot(x, r), lhs_contracting_dims={0}, rhs_contracting_dims={1}",
        "x: f32[64,32]; y: f32[4,8,16]; r = f32[4,16,32] reshape(x); "
        "t = f32[8,4,16] transpose(y), dimensions={1,0,2}; "
        "dot = f32[32,8] dot(r, t), lhs_contracting_dims={0,1}, rhs_contracting_dims={1,2}",
    ),
    (
        "on both sides",
        "x: f32[4,8,16]; y: f32[4,16,5]; t = f32[8,4,16] transpose(x), dimensions={1,0,2}; "
        "r = f32[8,64] reshape(t); u = f32[4,16,5] negate(y); s = f32[64,5] reshape(u); "
        "d = f32[8,5] dot(r, s), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "x: f32[4,8,16]; y: f32[4,16,5]; t = f32[8,4,16] transpose(x), dimensions={1,0,2}; "
        "u = f32[4,16,5] negate(y); "
        "dot = f32[8,5] dot(t, u), lhs_contracting_dims={1,2}, rhs_contracting_dims={0,1}",
    ),
    (
        "the transpose of a product stays",
        "p: f32[4,8,6]; q: f32[4,6,16]; y: f32[64,5]; "
        "x = f32[4,8,16] dot(p, q), lhs_batch_dims={0}, lhs_contracting_dims={2}, "
        "rhs_batch_dims={0}, rhs_contracting_dims={1}; "
        "t = f32[8,4,16] transpose(x), dimensions={1,0,2}; r = f32[8,64] reshape(t); "
        "d = f32[8,5] dot(r, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "p: f32[4,8,6]; q: f32[4,6,16]; y: f32[64,5]; "
        "x = f32[4,8,16] dot(p, q), lhs_batch_dims={0}, lhs_contracting_dims={2}, "
        "rhs_batch_dims={0}, rhs_contracting_dims={1}; "
        "t = f32[8,4,16] transpose(x), dimensions={1,0,2}; r = f32[8,64] reshape(t); "
        "d = f32[8,5] dot(r, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ),
    (
        "merged batches stay",
        "x: f32[4,2,8,16]; y: f32[8,16,5]; t = f32[2,4,8,16] transpose(x), dimensions={1,0,2,3}; "
        "r = f32[8,8,16] reshape(t); "
        "d = f32[8,8,5] dot(r, y), lhs_batch_dims={0}, lhs_contracting_dims={2}, "
        "rhs_batch_dims={0}, rhs_contracting_dims={1}",
        "x: f32[4,2,8,16]; y: f32[8,16,5]; t = f32[2,4,8,16] transpose(x), dimensions={1,0,2,3}; "
        "r = f32[8,8,16] reshape(t); "
        "d = f32[8,8,5] dot(r, y), lhs_batch_dims={0}, lhs_contracting_dims={2}, "
        "rhs_batch_dims={0}, rhs_contracting_dims={1}",
    ),
    (
        "a reshape of no transpose stays",
        "x: f32[8,4,16]; y: f32[64,5]; n = f32[8,4,16] negate(x); r = f32[8,64] reshape(n); "
        "d = f32[8,5] dot(r, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "x: f32[8,4,16]; y: f32[64,5]; n = f32[8,4,16] negate(x); r = f32[8,64] reshape(n); "
        "d = f32[8,5] dot(r, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ),
)

ASSIGNMENT: Cases = (
    (
        "transposes become bitcasts",
        "x: f32[4,8]; t = f32[8,4] transpose(x), dimensions={1,0}; n = f32[8,4] negate(t); "
        "u = f32[4,8] transpose(n), dimensions={1,0}",
        "x: f32[4,8]; t = f32[8,4]{0,1} transpose(x), dimensions={1,0}; "
        "n = f32[8,4]{0,1} negate(t); u = f32[4,8] transpose(n), dimensions={1,0}",
    ),
    (
        "copies around a convolution",
        "x: f32[2,3,8]; k: f32[3,3,4]; "
        "c = f32[2,4,6] convolution(x, k), window={size=3}, dim_labels=bf0_0io->bf0",
        "x: f32[2,3,8]; k: f32[3,3,4]; c = f32[2,3,8]{1,2,0} copy(x); "
        "c2 = f32[2,4,6]{1,2,0} convolution(c, k), window={size=3}, dim_labels=bf0_0io->bf0; "
        "c3 = f32[2,4,6] copy(c2)",
    ),
    (
        "a copy where two layouts meet",
        "x: f32[8,8]; y: bf16[8,8]; t = f32[8,8] transpose(x), dimensions={1,0}; "
        "w = f32[8,8] convert(y); s = f32[8,8] add(t, w); "
        "u = f32[8,8] transpose(s), dimensions={1,0}",
        "x: f32[8,8]; y: bf16[8,8]; t = f32[8,8]{0,1} transpose(x), dimensions={1,0}; "
        "c = bf16[8,8]{0,1} copy(y); w = f32[8,8]{0,1} convert(c); s = f32[8,8]{0,1} add(t, w); "
        "u = f32[8,8] transpose(s), dimensions={1,0}",
    ),
    (
        "a copy that is needed no more",
        "x: f32[4,8]{0,1}; c = f32[4,8] copy(x); n = f32[4,8] negate(c); d = f32[4,8]{0,1} copy(n)",
        "x: f32[4,8]{0,1}; n = f32[4,8]{0,1} negate(x)",
    ),
)
