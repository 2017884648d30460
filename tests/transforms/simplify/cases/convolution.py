"""Convolutions."""

from tests.transforms.simplify.cases.notation import Case

LAST = "dim_labels=b01f_01io->b01f"

CASES: list[Case] = [
    (
        "convolution-of-nothing",
        f"x: f32[2,5,5,0]; k: f32[3,3,0,4]; a = f32[2,3,3,4] convolution(x, k), "
        f"window={{size=3x3}}, {LAST}",
        "x: f32[2,5,5,0]; k: f32[3,3,0,4]; a: f32[2,3,3,4] = 0",
    ),
    (
        "convolution-of-pad",
        "x: f32[2,5,3]; k: f32[3,3,4]; v: f32[] = 0; p = f32[2,7,3] pad(x, v), "
        "padding=0_0x1_1x0_0; "
        "a = f32[2,6,4] convolution(p, k), window={size=3 pad=0_1}, dim_labels=b0f_0io->b0f",
        "x: f32[2,5,3]; k: f32[3,3,4]; a = f32[2,6,4] convolution(x, k), "
        "window={size=3 pad=1_2}, dim_labels=b0f_0io->b0f",
    ),
    (
        "convolution-of-pad",
        "x: f32[2,5,3]; k: f32[3,3,4]; v: f32[] = 0; p = f32[2,11,3] pad(x, v), "
        "padding=0_0x1_1_1x0_0; "
        "a = f32[2,10,4] convolution(p, k), window={size=3 pad=0_1}, dim_labels=b0f_0io->b0f",
        None,
    ),
    (
        "convolution-of-pad",
        "x: f32[2,5,3]; k: f32[3,3,4]; v: f32[] = 0; p = f32[2,7,3] pad(x, v), "
        "padding=0_0x1_1x0_0; a = f32[2,11,4] convolution(p, k), "
        "window={size=3 lhs_dilate=2}, dim_labels=b0f_0io->b0f",
        None,
    ),
    (
        "convolution-of-pad",
        "x: f32[2,5,3]; k: f32[3,3,4]; v: f32[] = 1; p = f32[2,7,3] pad(x, v), "
        "padding=0_0x1_1x0_0; "
        "a = f32[2,5,4] convolution(p, k), window={size=3}, dim_labels=b0f_0io->b0f",
        None,
    ),
    (
        "convolution-of-reversed-kernel",
        "x: f32[2,5,5,3]; k: f32[3,3,3,4]; r = f32[3,3,3,4] reverse(k), dimensions={1}; "
        f"a = f32[2,3,3,4] convolution(x, r), window={{size=3x3 rhs_reversal=1x1}}, {LAST}",
        "x: f32[2,5,5,3]; k: f32[3,3,3,4]; "
        f"a = f32[2,3,3,4] convolution(x, k), window={{size=3x3 rhs_reversal=1x0}}, {LAST}",
    ),
    (
        "convolution-of-reversed-kernel",
        "x: f32[2,5,5,3]; k: f32[3,3,3,4]; r = f32[3,3,3,4] reverse(k), dimensions={2}; "
        f"a = f32[2,3,3,4] convolution(x, r), window={{size=3x3}}, {LAST}",
        None,
    ),
    (
        "convolution-of-transpose",
        "x: f32[2,5,5,3]; k: f32[3,3,3,4]; y = f32[2,3,5,5] transpose(x), dimensions={0,3,1,2}; "
        "l = f32[4,3,3,3] transpose(k), dimensions={3,2,0,1}; "
        "a = f32[2,3,3,4] convolution(y, l), window={size=3x3}, dim_labels=bf01_oi01->b01f",
        f"x: f32[2,5,5,3]; k: f32[3,3,3,4]; "
        f"a = f32[2,3,3,4] convolution(x, k), window={{size=3x3}}, {LAST}",
    ),
    (
        "convolution-of-transpose",
        "x: f32[2,3,5,5]; k: f32[3,3,3,4]; y = f32[2,5,5,3] transpose(x), dimensions={0,2,3,1}; "
        f"a = f32[2,3,3,4] convolution(y, k), window={{size=3x3}}, {LAST}",
        None,  # channels would no longer be last
    ),
    (
        "transpose-of-convolution",
        "x: f32[2,5,5,3]; k: f32[3,3,3,4]; a = f32[2,4,3,3] convolution(x, k), "
        "window={size=3x3}, dim_labels=b01f_01io->bf01; "
        "b = f32[2,3,3,4] transpose(a), dimensions={0,2,3,1}",
        "x: f32[2,5,5,3]; k: f32[3,3,3,4]; "
        f"b = f32[2,3,3,4] convolution(x, k), window={{size=3x3}}, {LAST}",
    ),
    (
        "transpose-of-convolution",
        f"x: f32[2,5,5,3]; k: f32[3,3,3,4]; a = f32[2,3,3,4] convolution(x, k), "
        f"window={{size=3x3}}, {LAST}; "
        "b = f32[2,4,3,3] transpose(a), dimensions={0,3,1,2}",
        None,  # channels would no longer be last
    ),
    (
        "convolution-of-single-taps",
        f"x: s32[2,5,6,3]; k: s32[1,1,3,4]; a = s32[2,5,6,4] convolution(x, k), "
        f"window={{size=1x1}}, {LAST}",
        "x: s32[2,5,6,3]; k: s32[1,1,3,4]; m = s32[3,4] reshape(k); "
        "a = s32[2,5,6,4] dot(x, m), lhs_contracting_dims={3}, rhs_contracting_dims={0}",
    ),
    (
        "convolution-of-single-taps",
        "x: s32[2,3,5,6]; k: s32[4,1,1,3]; "
        "a = s32[4,2,5,6] convolution(x, k), window={size=1x1}, dim_labels=bf01_o01i->fb01",
        "x: s32[2,3,5,6]; k: s32[4,1,1,3]; m = s32[4,3] reshape(k); "
        "a = s32[4,2,5,6] dot(m, x), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
    ),
    (
        "convolution-of-single-taps",
        "x: s32[2,3,5,6]; k: s32[4,3,1,1]; "
        "a = s32[2,4,5,6] convolution(x, k), window={size=1x1}, dim_labels=bf01_oi01->bf01",
        None,  # a dot would have to be transposed
    ),
    (
        "convolution-of-single-taps",
        f"x: s32[2,5,6,3]; k: s32[1,1,3,4]; "
        f"a = s32[2,3,3,4] convolution(x, k), window={{size=1x1 stride=2x2}}, {LAST}",
        None,
    ),
    (
        "convolution-of-everything",
        f"x: s32[2,5,6,3]; k: s32[5,6,3,4]; a = s32[2,1,1,4] convolution(x, k), "
        f"window={{size=5x6}}, {LAST}",
        "x: s32[2,5,6,3]; k: s32[5,6,3,4]; b = s32[2,4] dot(x, k), lhs_contracting_dims={3,1,2}, "
        "rhs_contracting_dims={2,0,1}; a = s32[2,1,1,4] reshape(b)",
    ),
    (
        "convolution-of-everything",
        "x: s32[2,5,6,3]; k: s32[5,6,3,4]; "
        "a = s32[4,1,2,1] convolution(x, k), window={size=5x6 stride=3x1}, "
        "dim_labels=b01f_01io->f0b1",
        "x: s32[2,5,6,3]; k: s32[5,6,3,4]; b = s32[4,2] dot(k, x), lhs_contracting_dims={2,0,1}, "
        "rhs_contracting_dims={3,1,2}; a = s32[4,1,2,1] reshape(b)",
    ),
    (
        "convolution-of-patches",
        "x: s32[2,3,8,12]; k: s32[5,3,4,6]; a = s32[2,5,2,2] convolution(x, k), "
        "window={size=4x6 stride=4x6}, dim_labels=bf01_oi01->bf01",
        "x: s32[2,3,8,12]; k: s32[5,3,4,6]; y = s32[2,3,2,4,2,6] reshape(x); "
        "b = s32[2,2,2,5] dot(y, k), lhs_contracting_dims={1,3,5}, rhs_contracting_dims={1,2,3}; "
        "a = s32[2,5,2,2] transpose(b), dimensions={0,3,1,2}",
    ),
    (
        "convolution-of-patches",
        "x: s32[3,2,8,12]; k: s32[4,6,3,5]; a = s32[2,2,5,2] convolution(x, k), "
        "window={size=4x6 stride=4x6}, dim_labels=fb01_01io->b1f0",
        "x: s32[3,2,8,12]; k: s32[4,6,3,5]; y = s32[3,2,2,4,2,6] reshape(x); "
        "b = s32[2,2,2,5] dot(y, k), lhs_contracting_dims={0,3,5}, rhs_contracting_dims={2,0,1}; "
        "a = s32[2,2,5,2] transpose(b), dimensions={0,2,3,1}",
    ),
    (
        "convolution-of-patches",
        "x: s32[2,3,8,13]; k: s32[5,3,4,6]; a = s32[2,5,2,2] convolution(x, k), "
        "window={size=4x6 stride=4x6}, dim_labels=bf01_oi01->bf01",
        None,  # a column is left over
    ),
    (
        "convolution-of-patches",
        "x: s32[2,3,8,12]; k: s32[5,3,4,6]; a = s32[2,5,3,2] convolution(x, k), "
        "window={size=4x6 stride=2x6}, dim_labels=bf01_oi01->bf01",
        None,  # windows overlap
    ),
    (
        "convolution-of-patches",
        f"x: s32[2,8,12,3]; k: s32[4,6,3,5]; a = s32[2,2,2,5] convolution(x, k), "
        f"window={{size=4x6 stride=4x6}}, {LAST}",
        None,  # features lie together
    ),
    (
        "convolution-of-patches",
        "x: s32[2,16,8,12]; k: s32[5,16,4,6]; a = s32[2,5,2,2] convolution(x, k), "
        "window={size=4x6 stride=4x6}, dim_labels=bf01_oi01->bf01",
        None,  # features are many
    ),
]
