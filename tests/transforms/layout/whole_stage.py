"""Cases of all layout passes in turn, in the notation of rules: a name, a body before and after."""

from tests.transforms.layout.single_passes import Cases

CONVOLUTIONS: Cases = (
    (
        "channels-first convolution",
        "x: f32[2,3,8,8]; k: f32[4,3,3,3]; "
        "c = f32[2,4,6,6] convolution(x, k), window={size=3x3}, dim_labels=bf01_oi01->bf01",
        "x: f32[2,3,8,8]; k: f32[4,3,3,3]; t = f32[2,8,8,3] transpose(x), dimensions={0,2,3,1}; "
        "t2 = f32[3,3,3,4] transpose(k), dimensions={2,3,1,0}; "
        "c = f32[2,6,6,4] convolution(t, t2), window={size=3x3}, dim_labels=b01f_01io->b01f; "
        "t3 = f32[2,4,6,6] transpose(c), dimensions={0,3,1,2}",
    ),
    (
        "convolution, bias, activation, convolution",
        "x: f32[2,3,8,8]; k: f32[4,3,3,3]; b: f32[4]; h: f32[5,4,3,3]; "
        "c = f32[2,4,8,8] convolution(x, k), window={size=3x3 pad=1_1x1_1}, "
        "dim_labels=bf01_oi01->bf01; bb = f32[2,4,8,8] broadcast(b), dimensions={1}; "
        "s = f32[2,4,8,8] add(c, bb); t = f32[2,4,8,8] tanh(s); "
        "d = f32[2,5,8,8] convolution(t, h), window={size=3x3 pad=1_1x1_1}, "
        "dim_labels=bf01_oi01->bf01",
        "x: f32[2,3,8,8]; k: f32[4,3,3,3]; b: f32[4]; h: f32[5,4,3,3]; "
        "t = f32[2,8,8,3] transpose(x), dimensions={0,2,3,1}; "
        "t2 = f32[3,3,3,4] transpose(k), dimensions={2,3,1,0}; "
        "c = f32[2,8,8,4] convolution(t, t2), window={size=3x3 pad=1_1x1_1}, "
        "dim_labels=b01f_01io->b01f; bb = f32[2,8,8,4] broadcast(b), dimensions={3}; "
        "s = f32[2,8,8,4] add(c, bb); t3 = f32[2,8,8,4] tanh(s); "
        "t4 = f32[3,3,4,5] transpose(h), dimensions={2,3,1,0}; "
        "d = f32[2,8,8,5] convolution(t3, t4), window={size=3x3 pad=1_1x1_1}, "
        "dim_labels=b01f_01io->b01f; t5 = f32[2,5,8,8] transpose(d), dimensions={0,3,1,2}",
    ),
    (
        "residual of convolutions",
        "x: f32[2,3,8,8]; k: f32[4,3,3,3]; h: f32[4,4,3,3]; "
        "c = f32[2,4,8,8] convolution(x, k), window={size=3x3 pad=1_1x1_1}, "
        "dim_labels=bf01_oi01->bf01; "
        "d = f32[2,4,8,8] convolution(c, h), window={size=3x3 pad=1_1x1_1}, "
        "dim_labels=bf01_oi01->bf01; s = f32[2,4,8,8] add(c, d)",
        "x: f32[2,3,8,8]; k: f32[4,3,3,3]; h: f32[4,4,3,3]; "
        "t = f32[2,8,8,3] transpose(x), dimensions={0,2,3,1}; "
        "t2 = f32[3,3,3,4] transpose(k), dimensions={2,3,1,0}; "
        "c = f32[2,8,8,4] convolution(t, t2), window={size=3x3 pad=1_1x1_1}, "
        "dim_labels=b01f_01io->b01f; t3 = f32[3,3,4,4] transpose(h), dimensions={2,3,1,0}; "
        "d = f32[2,8,8,4] convolution(c, t3), window={size=3x3 pad=1_1x1_1}, "
        "dim_labels=b01f_01io->b01f; s = f32[2,8,8,4] add(c, d); "
        "t4 = f32[2,4,8,8] transpose(s), dimensions={0,3,1,2}",
    ),
    (
        "channels last stays",
        "x: f32[2,8,8,3]; k: f32[3,3,3,4]; "
        "c = f32[2,6,6,4] convolution(x, k), window={size=3x3}, dim_labels=b01f_01io->b01f",
        "x: f32[2,8,8,3]; k: f32[3,3,3,4]; "
        "c = f32[2,6,6,4] convolution(x, k), window={size=3x3}, dim_labels=b01f_01io->b01f",
    ),
    (
        "pooling of channels first",
        "x: f32[2,4,8,8]; k: f32[4,4,3,3]; z = f32[] constant(0); "
        "c = f32[2,4,6,6] convolution(x, k), window={size=3x3}, dim_labels=bf01_oi01->bf01; "
        "p = f32[2,4,3,3] reduce-window(c, z), window={size=1x1x2x2 stride=1x1x2x2}, "
        "to_apply=maximum_f32; m = f32[2,4] reduce(p, z), dimensions={2,3}, to_apply=add_f32",
        "x: f32[2,4,8,8]; k: f32[4,4,3,3]; t = f32[2,8,8,4] transpose(x), dimensions={0,2,3,1}; "
        "t2 = f32[3,3,4,4] transpose(k), dimensions={2,3,1,0}; "
        "c = f32[2,6,6,4] convolution(t, t2), window={size=3x3}, dim_labels=b01f_01io->b01f; "
        "z = f32[] constant(0); "
        "p = f32[2,3,3,4] reduce-window(c, z), window={size=1x2x2x1 stride=1x2x2x1}, "
        "to_apply=maximum_f32; m = f32[2,4] reduce(p, z), dimensions={1,2}, to_apply=add_f32",
    ),
    (
        "mean over space behind a convolution",
        "x: f32[2,8,8,3]; k: f32[4,3,3,3]; z = f32[] constant(0); "
        "c = f32[2,4,6,6] convolution(x, k), window={size=3x3}, dim_labels=b01f_oi01->bf01; "
        "m = f32[2,4] reduce(c, z), dimensions={2,3}, to_apply=add_f32",
        "x: f32[2,8,8,3]; k: f32[4,3,3,3]; t = f32[3,3,3,4] transpose(k), dimensions={2,3,1,0}; "
        "c = f32[2,6,6,4] convolution(x, t), window={size=3x3}, dim_labels=b01f_01io->b01f; "
        "z = f32[] constant(0); m = f32[2,4] reduce(c, z), dimensions={1,2}, to_apply=add_f32",
    ),
    (
        "padding between convolutions",
        "x: f32[2,8,8,3]; k: f32[4,3,3,3]; h: f32[5,4,3,3]; z = f32[] constant(0); "
        "c = f32[2,4,6,6] convolution(x, k), window={size=3x3}, dim_labels=b01f_oi01->bf01; "
        "p = f32[2,4,8,9] pad(c, z), padding=0_0x0_0x1_1x1_2; "
        "d = f32[2,5,6,7] convolution(p, h), window={size=3x3}, dim_labels=bf01_oi01->bf01",
        "x: f32[2,8,8,3]; k: f32[4,3,3,3]; h: f32[5,4,3,3]; "
        "t = f32[3,3,3,4] transpose(k), dimensions={2,3,1,0}; "
        "c = f32[2,6,6,4] convolution(x, t), window={size=3x3}, dim_labels=b01f_01io->b01f; "
        "z = f32[] constant(0); p = f32[2,8,9,4] pad(c, z), padding=0_0x1_1x1_2x0_0; "
        "t2 = f32[3,3,4,5] transpose(h), dimensions={2,3,1,0}; "
        "d = f32[2,6,7,5] convolution(p, t2), window={size=3x3}, dim_labels=b01f_01io->b01f; "
        "t3 = f32[2,5,6,7] transpose(d), dimensions={0,3,1,2}",
    ),
    (
        "forward and gradient convolutions",
        "x: f32[2,3,8,8]; k: f32[4,3,3,3]; "
        "c = f32[2,4,6,6] convolution(x, k), window={size=3x3}, dim_labels=bf01_oi01->bf01; "
        "t = f32[2,4,6,6] tanh(c); "
        "w = f32[3,4,3,3] convolution(x, t), window={size=6x6}, dim_labels=fb01_io01->bf01; "
        "d = f32[2,3,8,8] convolution(t, k), window={size=3x3 pad=2_2x2_2 rhs_reversal=1x1}, "
        "dim_labels=bf01_io01->bf01; r = (f32[3,4,3,3], f32[2,3,8,8]) tuple(w, d)",
        "x: f32[2,3,8,8]; k: f32[4,3,3,3]; t = f32[2,8,8,3] transpose(x), dimensions={0,2,3,1}; "
        "t2 = f32[3,3,3,4] transpose(k), dimensions={2,3,1,0}; "
        "c = f32[2,6,6,4] convolution(t, t2), window={size=3x3}, dim_labels=b01f_01io->b01f; "
        "t3 = f32[2,6,6,4] tanh(c); "
        "w = f32[3,3,3,4] convolution(t, t3), window={size=6x6}, dim_labels=f01b_i01o->b01f; "
        "t4 = f32[3,4,3,3] transpose(w), dimensions={0,3,1,2}; "
        "t5 = f32[4,3,3,3] transpose(k), dimensions={0,2,3,1}; "
        "d = f32[2,8,8,3] convolution(t3, t5), window={size=3x3 pad=2_2x2_2 rhs_reversal=1x1}, "
        "dim_labels=b01f_i01o->b01f; t6 = f32[2,3,8,8] transpose(d), dimensions={0,3,1,2}; "
        "r = (f32[3,4,3,3], f32[2,3,8,8]) tuple(t4, t6)",
    ),
    (
        "one-dimensional convolutions",
        "x: f32[2,3,16]; k: f32[4,3,3]; h: f32[5,4,3]; "
        "c = f32[2,4,14] convolution(x, k), window={size=3}, dim_labels=bf0_oi0->bf0; "
        "d = f32[2,5,12] convolution(c, h), window={size=3}, dim_labels=bf0_oi0->bf0",
        "x: f32[2,3,16]; k: f32[4,3,3]; h: f32[5,4,3]; "
        "t = f32[2,16,3] transpose(x), dimensions={0,2,1}; "
        "t2 = f32[3,3,4] transpose(k), dimensions={2,1,0}; "
        "c = f32[2,14,4] convolution(t, t2), window={size=3}, dim_labels=b0f_0io->b0f; "
        "t3 = f32[3,4,5] transpose(h), dimensions={2,1,0}; "
        "d = f32[2,12,5] convolution(c, t3), window={size=3}, dim_labels=b0f_0io->b0f; "
        "t4 = f32[2,5,12] transpose(d), dimensions={0,2,1}",
    ),
)

TRANSPOSES: Cases = (
    (
        "transposes cancel through elementwise",
        "x: f32[4,8]; t = f32[8,4] transpose(x), dimensions={1,0}; e = f32[8,4] exponential(t); "
        "n = f32[8,4] negate(e); u = f32[4,8] transpose(n), dimensions={1,0}",
        "x: f32[4,8]; e = f32[4,8] exponential(x); n = f32[4,8] negate(e)",
    ),
    (
        "transposes of both operands",
        "x: f32[4,8]; y: f32[4,8]; t = f32[8,4] transpose(x), dimensions={1,0}; "
        "u = f32[8,4] transpose(y), dimensions={1,0}; s = f32[8,4] multiply(t, u); "
        "v = f32[4,8] transpose(s), dimensions={1,0}",
        "x: f32[4,8]; y: f32[4,8]; s = f32[4,8] multiply(x, y)",
    ),
    (
        "transpose cancels through a reduction",
        "x: f32[4,8,6]; z = f32[] constant(0); t = f32[8,4,6] transpose(x), dimensions={1,0,2}; "
        "r = f32[8,4] reduce(t, z), dimensions={2}, to_apply=add_f32; "
        "u = f32[4,8] transpose(r), dimensions={1,0}",
        "x: f32[4,8,6]; z = f32[] constant(0); "
        "r = f32[4,8] reduce(x, z), dimensions={2}, to_apply=add_f32",
    ),
    (
        "transposes cancel through a concatenate",
        "x: f32[4,8]; y: f32[4,8]; t = f32[8,4] transpose(x), dimensions={1,0}; "
        "u = f32[8,4] transpose(y), dimensions={1,0}; "
        "c = f32[16,4] concatenate(t, u), dimensions={0}; "
        "v = f32[4,16] transpose(c), dimensions={1,0}",
        "x: f32[4,8]; y: f32[4,8]; c = f32[4,16] concatenate(x, y), dimensions={1}",
    ),
    (
        "transposes cancel through a pad",
        "x: f32[4,8]; z = f32[] constant(0); t = f32[8,4] transpose(x), dimensions={1,0}; "
        "p = f32[9,6] pad(t, z), padding=1_0x0_2; u = f32[6,9] transpose(p), dimensions={1,0}",
        "x: f32[4,8]; z = f32[] constant(0); p = f32[6,9] pad(x, z), padding=0_2x1_0",
    ),
    (
        "transposes cancel through a slice",
        "x: f32[4,8]; t = f32[8,4] transpose(x), dimensions={1,0}; "
        "s = f32[3,2] slice(t), slice={[1:7:2], [2:4]}; "
        "u = f32[2,3] transpose(s), dimensions={1,0}",
        "x: f32[4,8]; s = f32[2,3] slice(x), slice={[2:4:1], [1:7:2]}",
    ),
    (
        "transposes cancel through a reverse",
        "x: f32[4,8]; t = f32[8,4] transpose(x), dimensions={1,0}; "
        "r = f32[8,4] reverse(t), dimensions={0}; u = f32[4,8] transpose(r), dimensions={1,0}",
        "x: f32[4,8]; r = f32[4,8] reverse(x), dimensions={1}",
    ),
    (
        "transposes cancel through a dynamic slice",
        "x: f32[4,8]; i: s32[]; j: s32[]; t = f32[8,4] transpose(x), dimensions={1,0}; "
        "d = f32[2,3] dynamic-slice(t, i, j), dynamic_slice_sizes={2,3}; "
        "u = f32[3,2] transpose(d), dimensions={1,0}",
        "x: f32[4,8]; i: s32[]; j: s32[]; "
        "d = f32[3,2] dynamic-slice(x, j, i), dynamic_slice_sizes={3,2}",
    ),
    (
        "transposes cancel through an update",
        "x: f32[4,8]; y: f32[3,2]; i: s32[]; j: s32[]; "
        "t = f32[8,4] transpose(x), dimensions={1,0}; "
        "v = f32[2,3] transpose(y), dimensions={1,0}; "
        "d = f32[8,4] dynamic-update-slice(t, v, i, j); "
        "u = f32[4,8] transpose(d), dimensions={1,0}",
        "x: f32[4,8]; y: f32[3,2]; i: s32[]; j: s32[]; "
        "d = f32[4,8] dynamic-update-slice(x, y, j, i)",
    ),
    (
        "transposes cancel through a broadcast",
        "x: f32[4,8]; t = f32[8,4] transpose(x), dimensions={1,0}; "
        "b = f32[8,2,4] broadcast(t), dimensions={0,2}; "
        "u = f32[2,4,8] transpose(b), dimensions={1,2,0}",
        "x: f32[4,8]; b = f32[2,4,8] broadcast(x), dimensions={1,2}",
    ),
    (
        "transposes cancel through a reshape",
        "x: f32[4,6,5]; t = f32[6,4,5] transpose(x), dimensions={1,0,2}; "
        "r = f32[2,3,4,5] reshape(t); u = f32[4,2,3,5] transpose(r), dimensions={2,0,1,3}",
        "x: f32[4,6,5]; r = f32[4,2,3,5] reshape(x)",
    ),
    (
        "a gather keeps its rows",
        "x: f32[4,8]; i: s32[3,1]; t = f32[8,4] transpose(x), dimensions={1,0}; "
        "g = f32[3,4] gather(t, i), offset_dims={1}, collapsed_slice_dims={0}, "
        "start_index_map={0}, index_vector_dim=1, slice_sizes={1,4}; "
        "u = f32[4,3] transpose(g), dimensions={1,0}",
        "x: f32[4,8]; i: s32[3,1]; t = f32[8,4] transpose(x), dimensions={1,0}; "
        "g = f32[3,4] gather(t, i), offset_dims={1}, collapsed_slice_dims={0}, "
        "start_index_map={0}, index_vector_dim=1, slice_sizes={1,4}; "
        "u = f32[4,3] transpose(g), dimensions={1,0}",
    ),
    (
        "constant and iota follow",
        "x: f32[2,3]; t = f32[3,2] transpose(x), dimensions={1,0}; "
        "c = f32[3,2] constant({{1,2},{3,4},{5,6}}); i = f32[3,2] iota(), iota_dimension=0; "
        "s = f32[3,2] add(t, c); v = f32[3,2] multiply(s, i); "
        "u = f32[2,3] transpose(v), dimensions={1,0}",
        "x: f32[2,3]; c = f32[2,3] constant({{1,3,5},{2,4,6}}); s = f32[2,3] add(x, c); "
        "i = f32[2,3] iota(), iota_dimension=1; v = f32[2,3] multiply(s, i)",
    ),
    (
        "select with a mask",
        "x: f32[4,8]; y: f32[4,8]; p: pred[8,4]; t = f32[8,4] transpose(x), dimensions={1,0}; "
        "u = f32[8,4] transpose(y), dimensions={1,0}; s = f32[8,4] select(p, t, u); "
        "v = f32[4,8] transpose(s), dimensions={1,0}",
        "x: f32[4,8]; y: f32[4,8]; p: pred[8,4]; t = pred[4,8] transpose(p), dimensions={1,0}; "
        "s = f32[4,8] select(t, x, y)",
    ),
    (
        "conflict: the lighter side moves",
        "x: f32[8,8]; y: bf16[8,8]; t = f32[8,8] transpose(x), dimensions={1,0}; "
        "w = f32[8,8] convert(y); s = f32[8,8] add(t, w); "
        "u = f32[8,8] transpose(s), dimensions={1,0}",
        "x: f32[8,8]; y: bf16[8,8]; t = bf16[8,8] transpose(y), dimensions={1,0}; "
        "w = f32[8,8] convert(t); s = f32[8,8] add(x, w)",
    ),
    (
        "conflict: nothing gained",
        "x: f32[8,8]; y: f32[8,8]; t = f32[8,8] transpose(x), dimensions={1,0}; "
        "s = f32[8,8] add(t, y)",
        "x: f32[8,8]; y: f32[8,8]; t = f32[8,8] transpose(x), dimensions={1,0}; "
        "s = f32[8,8] add(t, y)",
    ),
    (
        "dot takes any order",
        "x: f32[4,8,6]; y: f32[8,5]; t = f32[8,4,6] transpose(x), dimensions={1,0,2}; "
        "n = f32[8,4,6] negate(t); "
        "d = f32[4,6,5] dot(n, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
        "x: f32[4,8,6]; y: f32[8,5]; n = f32[4,8,6] negate(x); "
        "d = f32[4,6,5] dot(n, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ),
    (
        "dot with its operands exchanged",
        "x: f32[4,8]; y: f32[8,6]; "
        "d = f32[4,6] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}; "
        "n = f32[4,6] negate(d); u = f32[6,4] transpose(n), dimensions={1,0}",
        "x: f32[4,8]; y: f32[8,6]; "
        "d = f32[6,4] dot(y, x), lhs_contracting_dims={0}, rhs_contracting_dims={1}; "
        "n = f32[6,4] negate(d)",
    ),
    (
        "batches of a dot in another order",
        "x: f32[2,3,4,8]; y: f32[2,3,8,6]; "
        "d = f32[2,3,4,6] dot(x, y), lhs_batch_dims={0,1}, lhs_contracting_dims={3}, "
        "rhs_batch_dims={0,1}, rhs_contracting_dims={2}; n = f32[2,3,4,6] negate(d); "
        "u = f32[3,2,4,6] transpose(n), dimensions={1,0,2,3}",
        "x: f32[2,3,4,8]; y: f32[2,3,8,6]; "
        "d = f32[3,2,4,6] dot(x, y), lhs_batch_dims={1,0}, lhs_contracting_dims={3}, "
        "rhs_batch_dims={1,0}, rhs_contracting_dims={2}; n = f32[3,2,4,6] negate(d)",
    ),
    (
        "softmax keeps its rows",
        "x: f32[8,4]; z = f32[] constant(0); t = f32[4,8] transpose(x), dimensions={1,0}; "
        "e = f32[4,8] exponential(t); r = f32[4] reduce(e, z), dimensions={1}, to_apply=add_f32; "
        "b = f32[4,8] broadcast(r), dimensions={0}; d = f32[4,8] divide(e, b)",
        "x: f32[8,4]; t = f32[4,8] transpose(x), dimensions={1,0}; e = f32[4,8] exponential(t); "
        "z = f32[] constant(0); r = f32[4] reduce(e, z), dimensions={1}, to_apply=add_f32; "
        "b = f32[4,8] broadcast(r), dimensions={0}; d = f32[4,8] divide(e, b)",
    ),
    (
        "entry layouts kept",
        "x: f32[4,8]{0,1}; y = f32[4,8]{1,0} copy(x); n = f32[4,8]{1,0} negate(y); "
        "c = f32[4,8]{0,1} copy(n)",
        "x: f32[4,8]{0,1}; b = f32[8,4] bitcast(x); n = f32[8,4] negate(b); "
        "b2 = f32[4,8]{0,1} bitcast(n)",
    ),
    (
        "result in another layout",
        "x: f32[4,8]; y: f32[8,6]; "
        "d = f32[4,6] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}; "
        "n = f32[4,6] negate(d); c = f32[4,6]{0,1} copy(n)",
        "x: f32[4,8]; y: f32[8,6]; "
        "d = f32[6,4] dot(y, x), lhs_contracting_dims={0}, rhs_contracting_dims={1}; "
        "n = f32[6,4] negate(d); b = f32[4,6]{0,1} bitcast(n)",
    ),
    (
        "argument in another layout",
        "x: f32[4,8]{0,1}; y: f32[4,8]; c = f32[4,8]{1,0} copy(x); s = f32[4,8] add(c, y); "
        "t = f32[4,8] tanh(s)",
        "x: f32[4,8]{0,1}; y: f32[4,8]; b = f32[8,4] bitcast(x); "
        "t = f32[4,8] transpose(b), dimensions={1,0}; s = f32[4,8] add(t, y); "
        "t2 = f32[4,8] tanh(s)",
    ),
    (
        "tuple of results",
        "x: f32[4,8]; n = f32[4,8] negate(x); c = f32[4,8]{0,1} copy(n); "
        "t = (f32[4,8]{0,1}, f32[4,8]) tuple(c, n)",
        "x: f32[4,8]; n = f32[4,8] negate(x); t = f32[8,4] transpose(n), dimensions={1,0}; "
        "b = f32[4,8]{0,1} bitcast(t); t2 = (f32[4,8]{0,1}, f32[4,8]) tuple(b, n)",
    ),
    (
        "custom call with a layout",
        "x: f32[4,8]; t = f32[8,4] transpose(x), dimensions={1,0}; n = f32[8,4] negate(t); "
        'c = f32[8,4] custom-call(n), custom_call_target="Sharding", '
        "operand_layout_constraints={f32[8,4]{1,0}}; u = f32[4,8] transpose(c), dimensions={1,0}",
        "x: f32[4,8]; t = f32[8,4] transpose(x), dimensions={1,0}; n = f32[8,4] negate(t); "
        'c = f32[8,4] custom-call(n), custom_call_target="Sharding", '
        "operand_layout_constraints={f32[8,4]}; u = f32[4,8] transpose(c), dimensions={1,0}",
    ),
    (
        "sorted along a dimension",
        "x: f32[4,8]; t = f32[8,4] transpose(x), dimensions={1,0}; f = f32[32] reshape(t); "
        "r = f32[32] negate(f)",
        "x: f32[4,8]; t = f32[8,4] transpose(x), dimensions={1,0}; f = f32[32] reshape(t); "
        "r = f32[32] negate(f)",
    ),
    (
        "no order to choose",
        "x: f32[8]; y: f32[8]; s = f32[8] add(x, y)",
        "x: f32[8]; y: f32[8]; s = f32[8] add(x, y)",
    ),
    (
        "dimensions of size 1 lie anywhere",
        "x: f32[4,1,8]; t = f32[8,1,4] transpose(x), dimensions={2,1,0}; "
        "n = f32[8,1,4] negate(t); u = f32[1,4,8] transpose(n), dimensions={1,2,0}",
        "x: f32[4,1,8]; r = f32[1,4,8] reshape(x); n = f32[1,4,8] negate(r)",
    ),
    (
        "transposes cancel through a gather",
        "x: f32[4,8,6]; i: s32[3,1]; t = f32[4,6,8] transpose(x), dimensions={0,2,1}; "
        "g = f32[3,6,8] gather(t, i), offset_dims={1,2}, collapsed_slice_dims={0}, "
        "start_index_map={0}, index_vector_dim=1, slice_sizes={1,6,8}; "
        "u = f32[3,8,6] transpose(g), dimensions={0,2,1}",
        "x: f32[4,8,6]; i: s32[3,1]; "
        "g = f32[3,8,6] gather(x, i), offset_dims={1,2}, collapsed_slice_dims={0}, "
        "start_index_map={0}, index_vector_dim=1, slice_sizes={1,8,6}",
    ),
    (
        "a copy sinks below a slice",
        "x: f32[16,8]; n = f32[16,8] negate(x); e = f32[16,8] exponential(n); "
        "t = f32[8,16] transpose(e), dimensions={1,0}; s = f32[8,2] slice(t), slice={[0:8], [3:5]}",
        "x: f32[16,8]; n = f32[16,8] negate(x); e = f32[16,8] exponential(n); "
        "s = f32[2,8] slice(e), slice={[3:5], [0:8]}; t = f32[8,2] transpose(s), dimensions={1,0}",
    ),
)
