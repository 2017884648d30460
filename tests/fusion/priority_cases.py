"""Priority fusion: bodies in the notation of the rules' cases, and the kernels made of them.

A fusion is `kind(operands): members`, the root last; all else by its name.
"""

CASES: list[tuple[str, str, str]] = [
    (
        "an elementwise chain",
        "x: f32[256,256]; y: f32[256,256]; p = f32[256,256] multiply(x, y); "
        "d = f32[256,256] subtract(p, y); e = f32[256,256] exponential(d)",
        "loop(x, y): p d e",
    ),
    (
        "a broadcast goes into its reader",
        "x: f32[64,64]; b: f32[64]; w = f32[64,64] broadcast(b), dimensions={1}; "
        "s = f32[64,64] add(x, w)",
        "loop(b, x): w s",
    ),
    (
        "what is cheap is computed in both readers",
        "x: f32[256,256]; y: f32[256,256]; p = f32[256,256] negate(x); "
        "a = f32[256,256] add(p, y); b = f32[256,256] multiply(p, y); "
        "t = (f32[256,256], f32[256,256]) tuple(a, b)",
        "loop(x, y): p a | loop(x, y): p b",
    ),
    (
        "what is expensive is not computed twice",
        "x: f32[256,256]; y: f32[256,256]; p = f32[256,256] exponential(x); "
        "a = f32[256,256] add(p, y); b = f32[256,256] multiply(p, y); "
        "t = (f32[256,256], f32[256,256]) tuple(a, b)",
        "p | a | b",
    ),
    (
        "an expensive vector is not computed for each row",
        "x: f32[256,256]; y: f32[256]; p = f32[256] exponential(y); "
        "w = f32[256,256] broadcast(p), dimensions={1}; a = f32[256,256] add(x, w)",
        "p | loop(p, x): w a",
    ),
    (
        "an expensive column is computed once for each row",
        "x: f32[256,256]; y: f32[256]; p = f32[256] exponential(y); "
        "w = f32[256,256] broadcast(p), dimensions={0}; a = f32[256,256] add(x, w)",
        "loop(y, x): p w a",
    ),
    (
        "a reduction with what it reduces",
        "x: f32[256,256]; y: f32[256,256]; z: f32[] = 0; p = f32[256,256] multiply(x, y); "
        "r = f32[256] reduce(p, z), dimensions={1}, to_apply=add_f32",
        "input(x, y): p r",
    ),
    (
        "a reduction with what its result goes through",
        "x: f32[256,256]; z: f32[] = 0; "
        "r = f32[256] reduce(x, z), dimensions={1}, to_apply=add_f32; n: f32[256] = 256; "
        "m = f32[256] divide(r, n); q = f32[256] sqrt(m)",
        "input(x): r n m q",
    ),
    (
        "a reduction of columns with both",
        "x: f32[256,256]; z: f32[] = 0; p = f32[256,256] abs(x); "
        "r = f32[256] reduce(p, z), dimensions={0}, to_apply=add_f32; "
        "q = f32[256] negate(r)",
        "input(x): p r q",
    ),
    (
        "a reduction with two readers is stored",
        "x: f32[256,256]; z: f32[] = 0; "
        "r = f32[256] reduce(x, z), dimensions={0}, to_apply=add_f32; "
        "a = f32[256] negate(r); b = f32[256] abs(r); t = (f32[256], f32[256]) tuple(a, b)",
        "r | a | b",
    ),
    (
        "softmax works in rows",
        "x: f32[64,128]; l: f32[] = -inf; z: f32[] = 0; "
        "m = f32[64] reduce(x, l), dimensions={1}, to_apply=maximum_f32; "
        "mw = f32[64,128] broadcast(m), dimensions={0}; d = f32[64,128] subtract(x, mw); "
        "e = f32[64,128] exponential(d); "
        "s = f32[64] reduce(e, z), dimensions={1}, to_apply=add_f32; "
        "sw = f32[64,128] broadcast(s), dimensions={0}; p = f32[64,128] divide(e, sw)",
        "rows(x): m mw d e s sw p",
    ),
    (
        "layer norm works in rows",
        "x: f32[64,128]; g: f32[128]; z: f32[] = 0; n: f32[64] = 128; "
        "s = f32[64] reduce(x, z), dimensions={1}, to_apply=add_f32; "
        "mean = f32[64] divide(s, n); mw = f32[64,128] broadcast(mean), dimensions={0}; "
        "d = f32[64,128] subtract(x, mw); sq = f32[64,128] multiply(d, d); "
        "v = f32[64] reduce(sq, z), dimensions={1}, to_apply=add_f32; "
        "var = f32[64] divide(v, n); i = f32[64] rsqrt(var); "
        "iw = f32[64,128] broadcast(i), dimensions={0}; o = f32[64,128] multiply(d, iw); "
        "gw = f32[64,128] broadcast(g), dimensions={1}; y = f32[64,128] multiply(o, gw)",
        "rows(x, g): s n mean mw d sq v var i iw o gw y",
    ),
    (
        "rows that do not fit the cache",
        "x: f32[2,70000]; z: f32[] = 0; "
        "s = f32[2] reduce(x, z), dimensions={1}, to_apply=add_f32; "
        "sw = f32[2,70000] broadcast(s), dimensions={0}; p = f32[2,70000] divide(x, sw)",
        "s | loop(s, x): sw p",
    ),
    (
        "columns do not work in rows",
        "x: f32[128,64]; z: f32[] = 0; "
        "s = f32[64] reduce(x, z), dimensions={0}, to_apply=add_f32; "
        "sw = f32[128,64] broadcast(s), dimensions={1}; p = f32[128,64] divide(x, sw)",
        "s | loop(s, x): sw p",
    ),
    (
        "a transpose goes into its reader",
        "x: f32[64,32]; y: f32[32,64]; t = f32[32,64] transpose(x), dimensions={1,0}; "
        "a = f32[32,64] add(t, y)",
        "loop(x, y): t a",
    ),
    (
        "a slice goes into its reader",
        "x: f32[64,64]; s = f32[32,64] slice(x), slice={[16:48],[0:64]}; a = f32[32,64] abs(s)",
        "loop(x): s a",
    ),
    (
        "a pad with both",
        "x: f32[64]; y: f32[72]; z: f32[] = 0; a = f32[64] abs(x); "
        "p = f32[72] pad(a, z), padding=4_4; s = f32[72] add(p, y)",
        "loop(x, y): a p s",
    ),
    (
        "a concatenate with both",
        "x: f32[64]; y: f32[64]; z: f32[128]; a = f32[64] abs(x); b = f32[64] negate(y); "
        "c = f32[128] concatenate(a, b), dimensions={0}; s = f32[128] multiply(c, z)",
        "loop(x, y, z): a b c s",
    ),
    (
        "a concatenate of too many",
        "a: f32[8]; b: f32[8]; c: f32[8]; d: f32[8]; e: f32[8]; f: f32[8]; g: f32[8]; "
        "h: f32[8]; i: f32[8]; n = f32[8] negate(a); "
        "j = f32[72] concatenate(n, b, c, d, e, f, g, h, i), dimensions={0}; "
        "k = f32[72] abs(j)",
        "loop(a, b, c, d, e, f, g, h, i): n j | k",
    ),
    (
        "a reverse goes into its reader",
        "x: f32[64]; r = f32[64] reverse(x), dimensions={0}; a = f32[64] add(r, x)",
        "loop(x): r a",
    ),
    (
        "a gather with both",
        "x: f32[64,32]; i: s32[16]; h = f32[64,32] abs(x); "
        "g = f32[16,32] gather(h, i), offset_dims={1}, collapsed_slice_dims={0}, "
        "start_index_map={0}, index_vector_dim=1, slice_sizes={1,32}; "
        "n = f32[16,32] negate(g)",
        "loop(x, i): h g n",
    ),
    (
        "rows that are looked up go into a product that packs them",
        "x: f32[64,32]; i: s32[16]; w: f32[32,8]; "
        "g = f32[16,32] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, "
        "start_index_map={0}, index_vector_dim=1, slice_sizes={1,32}; "
        "d = f32[16,8] dot(g, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}; "
        "n = f32[16,8] negate(d)",
        "epilogue(x, i, w): g d n",
    ),
    (
        "but single bytes are looked up once",
        "x: u8[256]; i: s32[16,32]; w: u8[32,8]; "
        "g = u8[16,32] gather(x, i), offset_dims={}, collapsed_slice_dims={0}, "
        "start_index_map={0}, index_vector_dim=2, slice_sizes={1}; "
        "d = s32[16,8] dot(g, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}; "
        "n = s32[16,8] negate(d)",
        "g | epilogue(g, w): d n",
    ),
    (
        "of a dynamic slice only the part is read",
        "x: f32[64,32]; i: s32[]; z: s32[] = 0; "
        "d = f32[1,32] dynamic-slice(x, i, z), dynamic_slice_sizes={1,32}; "
        "n = f32[1,32] negate(d)",
        "loop(x, i): d n",
    ),
    (
        "an update in place with what is written",
        "x: f32[64,32]; y: f32[1,32]; i: s32[]; z: s32[] = 0; s = f32[1,32] exponential(y); "
        "u = f32[64,32] dynamic-update-slice(x, s, i, z)",
        "loop(y, x, i): s u",
    ),
    (
        "what is overwritten is stored",
        "x: f32[64,32]; y: f32[1,32]; i: s32[]; z: s32[] = 0; s = f32[64,32] negate(x); "
        "u = f32[64,32] dynamic-update-slice(s, y, i, z)",
        "s | u",
    ),
    (
        "an update may read what it writes over",
        "x: f32[64,32]; y: f32[32]; i: s32[]; z: s32[] = 0; "
        "r = f32[1,32] dynamic-slice(x, i, z), dynamic_slice_sizes={1,32}; q = f32[32] reshape(r); "
        "a = f32[32] add(q, y); b = f32[1,32] reshape(a); "
        "u = f32[64,32] dynamic-update-slice(x, b, i, z)",
        "loop(x, i, y): r q a b u",
    ),
    (
        "also where that is known, clamped into the array",
        "x: f32[64,32]; i: s32[] = 99; z: s32[] = 0; r = f32[1,32] slice(x), "
        "slice={[63:64],[0:32]}; n = f32[1,32] negate(r); "
        "u = f32[64,32] dynamic-update-slice(x, n, i, z)",
        "loop(x): r n u",
    ),
    (
        "but not what lies elsewhere, which it may have overwritten",
        "x: f32[64,32]; i: s32[]; j: s32[]; z: s32[] = 0; "
        "r = f32[4,32] dynamic-slice(x, i, z), dynamic_slice_sizes={4,32}; n = f32[4,32] negate(r);"
        " u = f32[64,32] dynamic-update-slice(x, n, j, z)",
        "loop(x, i): r n | u",
    ),
    (
        "neither a row behind",
        "x: f32[64,32]; i: s32[] = 1; z: s32[] = 0; r = f32[63,32] slice(x), "
        "slice={[0:63],[0:32]}; n = f32[63,32] negate(r); "
        "u = f32[64,32] dynamic-update-slice(x, n, i, z)",
        "loop(x): r n | u",
    ),
    (
        "nor the same in another order",
        "x: f32[32,32]; i: s32[]; z: s32[] = 0; "
        "r = f32[4,32] dynamic-slice(x, i, z), dynamic_slice_sizes={4,32}; "
        "v = f32[4,32] reverse(r), dimensions={1}; n = f32[4,32] negate(v); "
        "u = f32[32,32] dynamic-update-slice(x, n, i, z)",
        "loop(x, i): r v n | u",
    ),
    (
        "and a scatter, which may write an element twice, nothing",
        "x: f32[64,32]; i: s32[4]; "
        "g = f32[4,32] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, "
        "start_index_map={0}, index_vector_dim=1, slice_sizes={1,32}; n = f32[4,32] negate(g); "
        "s = f32[64,32] scatter(x, i, n), update_window_dims={1}, inserted_window_dims={0}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add_f32",
        "loop(x, i): g n | s",
    ),
    (
        "an update ends a kernel",
        "x: f32[64,32]; y: f32[1,32]; i: s32[]; z: s32[] = 0; "
        "u = f32[64,32] dynamic-update-slice(x, y, i, z); n = f32[64,32] negate(u)",
        "u | n",
    ),
    (
        "a scatter in place with what is written",
        "x: f32[64,32]; i: s32[16,1]; y: f32[16,32]; n = f32[16,32] negate(y); "
        "s = f32[64,32] scatter(x, i, n), update_window_dims={1}, inserted_window_dims={0}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add_f32",
        "loop(y, x, i): n s",
    ),
    (
        "a dot with bias and activation",
        "x: f32[64,32]; w: f32[32,128]; b: f32[128]; "
        "d = f32[64,128] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}; "
        "bw = f32[64,128] broadcast(b), dimensions={1}; a = f32[64,128] add(d, bw); "
        "z: f32[64,128] = 0; r = f32[64,128] maximum(a, z)",
        "epilogue(x, w, b): d bw a z r",
    ),
    (
        "weights are made wider while they are packed",
        "x: f32[64,32]; w: s8[32,128]; s: f32[128]; c = f32[32,128] convert(w); "
        "sw = f32[32,128] broadcast(s), dimensions={1}; q = f32[32,128] multiply(c, sw); "
        "d = f32[64,128] dot(x, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "epilogue(w, s, x): c sw q d",
    ),
    (
        "what is expensive is not packed",
        "x: f32[256,256]; w: f32[256,256]; e = f32[256,256] tanh(x); "
        "d = f32[256,256] dot(e, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "e | d",
    ),
    (
        "a dot with two readers is stored",
        "x: f32[64,32]; w: f32[32,128]; "
        "d = f32[64,128] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}; "
        "a = f32[64,128] negate(d); b = f32[64,128] abs(d); "
        "t = (f32[64,128], f32[64,128]) tuple(a, b)",
        "d | a | b",
    ),
    (
        "one dot in a kernel",
        "x: f32[64,32]; w: f32[32,128]; v: f32[128,16]; "
        "d = f32[64,128] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}; "
        "a = f32[64,128] tanh(d); "
        "o = f32[64,16] dot(a, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "epilogue(x, w): d a | o",
    ),
    (
        "a dot with a residual",
        "x: f32[64,32]; w: f32[32,64]; y: f32[64,64]; "
        "d = f32[64,64] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}; "
        "a = f32[64,64] add(d, y)",
        "epilogue(x, w, y): d a",
    ),
    (
        "a transpose is packed, and one behind is how the result is written",
        "x: f32[64,32]; w: f32[128,32]; t = f32[32,128] transpose(w), dimensions={1,0}; "
        "d = f32[64,128] dot(x, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}; "
        "o = f32[128,64] transpose(d), dimensions={1,0}",
        "epilogue(w, x): t d o",
    ),
    (
        "a convolution with bias and activation",
        "x: f32[1,8,8,4]; w: f32[3,3,4,8]; b: f32[8]; "
        "c = f32[1,6,6,8] convolution(x, w), window={size=3x3}, dim_labels=b01f_01io->b01f; "
        "bw = f32[1,6,6,8] broadcast(b), dimensions={3}; a = f32[1,6,6,8] add(c, bw); "
        "z: f32[1,6,6,8] = 0; r = f32[1,6,6,8] maximum(a, z)",
        "epilogue(x, w, b): c bw a z r",
    ),
    (
        "an image is converted while it is packed",
        "x: u8[1,8,8,4]; w: f32[3,3,4,8]; f = f32[1,8,8,4] convert(x); "
        "c = f32[1,6,6,8] convolution(f, w), window={size=3x3}, dim_labels=b01f_01io->b01f",
        "epilogue(x, w): f c",
    ),
    (
        "an image of few features that lie apart is stored with its features side by side",
        "x: f32[1,3,112,112]; w: f32[3,3,3,8]; "
        "t = f32[1,112,112,3] transpose(x), dimensions={0,2,3,1}; "
        "c = f32[1,37,37,8] convolution(t, w), "
        "window={size=3x3 stride=3x3}, dim_labels=b01f_01io->b01f",
        "t | c",
    ),
    (
        "an image of many features is put in order while it is packed",
        "x: f32[1,64,112,112]; w: f32[3,3,64,8]; "
        "t = f32[1,112,112,64] transpose(x), dimensions={0,2,3,1}; "
        "c = f32[1,37,37,8] convolution(t, w), "
        "window={size=3x3 stride=3x3}, dim_labels=b01f_01io->b01f",
        "epilogue(x, w): t c",
    ),
    (
        "few features that lie side by side are made while they are packed",
        "x: u8[1,112,112,3]; w: f32[3,3,3,8]; f = f32[1,112,112,3] convert(x); "
        "c = f32[1,37,37,8] convolution(f, w), "
        "window={size=3x3 stride=3x3}, dim_labels=b01f_01io->b01f",
        "epilogue(x, w): f c",
    ),
    (
        "few features with a number for each place are made while they are packed",
        "x: u8[1,112,112,3]; s: f32[112,112]; w: f32[3,3,3,8]; f = f32[1,112,112,3] convert(x); "
        "b = f32[1,112,112,3] broadcast(s), dimensions={1,2}; m = f32[1,112,112,3] multiply(f, b); "
        "c = f32[1,37,37,8] convolution(m, w), "
        "window={size=3x3 stride=3x3}, dim_labels=b01f_01io->b01f",
        "epilogue(x, s, w): f b m c",
    ),
    (
        "a mask of iotas is made where it is read",
        "x: f32[64,64]; i = s32[64,64] iota(), iota_dimension=0; "
        "j = s32[64,64] iota(), iota_dimension=1; "
        "m = pred[64,64] compare(i, j), direction=GE; z: f32[64,64] = 0; "
        "a = f32[64,64] select(m, x, z); b = f32[64,64] select(m, z, x); "
        "t = (f32[64,64], f32[64,64]) tuple(a, b)",
        "loop(x): i j m z a | loop(x): i j m z b",
    ),
    (
        "an expensive function of an iota is not computed for each row",
        "x: f32[256,256]; i = f32[256] iota(), iota_dimension=0; p = f32[256] sine(i); "
        "w = f32[256,256] broadcast(p), dimensions={1}; a = f32[256,256] add(x, w)",
        "loop(): i p | loop(p, x): w a",
    ),
    (
        "an iota that is also a result",
        "x: f32[64]; i = s32[64] iota(), iota_dimension=0; c = f32[64] convert(i); "
        "a = f32[64] add(c, x); t = (s32[64], f32[64]) tuple(i, a)",
        "i | loop(x): i c a",
    ),
    (
        "a sort is opaque",
        "x: f32[64]; a = f32[64] abs(x); "
        "s = f32[64] sort(a), dimensions={0}, to_apply=less_of_one; n = f32[64] negate(s)",
        "a | s | n",
    ),
    (
        "a Fourier transform is opaque",
        "x: f32[64]; a = f32[64] abs(x); s = c64[33] fft(a), fft_type=RFFT, fft_length={64}; "
        "n = c64[33] negate(s)",
        "a | s | n",
    ),
    (
        "nothing crosses a barrier",
        "x: f32[64]; a = f32[64] abs(x); b = f32[64] opt-barrier(a); n = f32[64] negate(b)",
        "a | n",
    ),
    (
        "control edges are left alone",
        "x: f32[64]; a = f32[64] abs(x); b = f32[64] negate(a), control-predecessors={x}; "
        "c = f32[64] exponential(b)",
        "a | b | c",
    ),
    (
        "a result of the program is stored",
        "x: f32[64]; a = f32[64] abs(x); b = f32[64] negate(a); t = (f32[64], f32[64]) tuple(a, b)",
        "a | b",
    ),
    (
        "through a reshape that merges dimensions",
        "x: f32[64,32]; a = f32[64,32] abs(x); r = f32[2048] reshape(a); b = f32[2048] negate(r)",
        "loop(x): a r b",
    ),
    (
        "through a reshape that splits one",
        "x: f32[2048]; y: f32[64,32]; a = f32[2048] abs(x); r = f32[64,32] reshape(a); "
        "b = f32[64,32] add(r, y)",
        "loop(x, y): a r b",
    ),
    (
        "reducers are left alone",
        "x: f32[64]; i: s32[64]; z: f32[] = 0; zi: s32[] = 0; "
        "r = (f32[], s32[]) reduce(x, i, z, zi), dimensions={0}, to_apply=two_sums",
        "r",
    ),
    (
        "a window is opaque",
        "x: f32[64]; z: f32[] = 0; a = f32[64] abs(x); "
        "r = f32[62] reduce-window(a, z), window={size=3}, to_apply=add_f32; "
        "n = f32[62] negate(r)",
        "a | r | n",
    ),
    (
        "a diamond is computed once",
        "x: f32[256,256]; y: f32[256]; a = f32[256,256] abs(x); b = f32[256,256] negate(a); "
        "c = f32[256,256] exponential(a); d = f32[256,256] add(b, c)",
        "loop(x): a b c d",
    ),
    (
        "reductions of two spaces",
        "x: f32[64,64,64]; z: f32[] = 0; "
        "r = f32[64,64] reduce(x, z), dimensions={2}, to_apply=add_f32; "
        "s = f32[64] reduce(r, z), dimensions={1}, to_apply=add_f32",
        "r | s",
    ),
    (
        "a reduction is not packed",
        "x: f32[64,32,4]; z: f32[] = 0; w: f32[32,16]; "
        "r = f32[64,32] reduce(x, z), dimensions={2}, to_apply=add_f32; "
        "d = f32[64,16] dot(r, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "r | d",
    ),
]
