"""Multi-output fusion: bodies in the notation of the rules' cases, and the kernels made of them.

A fusion is `kind(operands): members`, with a star at each result; all else stands by its name. None
says that nothing changes.
"""

M = "f32[64,64]"
SUM_ROWS = "dimensions={1}, to_apply=add_f32"
SUM_COLUMNS = "dimensions={0}, to_apply=add_f32"


def _matrices(text: str) -> str:
    """Return a body in which `name: opcode(operands)` computes a matrix."""
    return text.replace("M ", f"{M} ").replace("M,", f"{M},").replace("M)", f"{M})")


CASES: list[tuple[str, str, str | None]] = [
    # -- siblings
    (
        "two readers of one operand",
        "x: f32[64,64]; s = M sine(x); c = M cosine(x); t = (M, M) tuple(s, c)",
        "loop(x): s* c*",
    ),
    (
        "three readers of one operand",
        "x: f32[64,64]; s = M sine(x); c = M cosine(x); e = M exponential(x); "
        "t = (M, M, M) tuple(s, c, e)",
        "loop(x): s* c* e*",
    ),
    (
        "siblings with other operands of their own",
        "x: f32[64,64]; y: f32[64,64]; z: f32[64,64]; a = M add(x, y); b = M multiply(x, z); "
        "t = (M, M) tuple(a, b)",
        "loop(x, y, z): a* b*",
    ),
    (
        "siblings through a third one",
        "x: f32[64,64]; y: f32[64,64]; a = M sine(x); b = M add(x, y); c = M sine(y); "
        "t = (M, M, M) tuple(a, b, c)",
        "loop(x, y): a* b* c*",
    ),
    (
        "siblings that share a row vector",
        "v: f32[64]; x: f32[64,64]; y: f32[64,64]; w = M broadcast(v), dimensions={1}; "
        "a = M add(x, w); b = M add(y, w); t = (M, M) tuple(a, b)",
        "loop(v, x, y): w a* b*",
    ),
    (
        "siblings that share next to nothing",
        "p: pred[]; x: f32[512,512]; y: f32[512,512]; v: f32[512,512]; w: f32[512,512]; "
        "a = f32[512,512] select(p, x, y); b = f32[512,512] select(p, v, w); "
        "t = (f32[512,512], f32[512,512]) tuple(a, b)",
        None,
    ),
    (
        "siblings of different spaces",
        "x: f32[64,64]; s = f32[32,64] slice(x), slice={[0:32], [0:64]}; c = M cosine(x); "
        "t = (f32[32,64], M) tuple(s, c)",
        None,
    ),
    (
        "siblings that read in different orders",
        "x: f32[64,64]; s = M transpose(x), dimensions={1,0}; c = M cosine(x); "
        "t = (M, M) tuple(s, c)",
        None,
    ),
    (
        "siblings that both read in another order",
        "x: f32[64,64]; w = M transpose(x), dimensions={1,0}; s = M sine(w); c = M cosine(w); "
        "t = (M, M) tuple(s, c)",
        "loop(x): w s* c*",
    ),
    (
        "siblings of which one depends on the other through a third kernel",
        'x: f32[64,64]; s = M sine(x); k = M custom-call(s), custom_call_target="opaque"; '
        "a = M add(x, k); t = (M, M) tuple(s, a)",
        None,
    ),
    # -- one reads the other
    (
        "a producer that is a result too",
        "x: f32[64,64]; s = M sine(x); n = M negate(s); t = (M, M) tuple(s, n)",
        "loop(x): s* n*",
    ),
    (
        "a producer that only one reads",
        "x: f32[64,64]; s = M sine(x); n = M negate(s)",
        "loop(x): s n*",
    ),
    (
        "a producer that an opaque kernel reads too",
        "x: f32[64,64]; s = M sine(x); n = M negate(s); d = M dot(s, x), "
        "lhs_contracting_dims={1}, rhs_contracting_dims={0}; t = (M, M) tuple(n, d)",
        "loop(x): s* n* | d",
    ),
    (
        "a diamond",
        "x: f32[64,64]; e = M exponential(x); a = M sine(e); b = M cosine(e); c = M multiply(a, b)",
        "loop(x): e a b c*",
    ),
    (
        "a producer that is read in another order",
        "x: f32[64,64]; s = M sine(x); n = M transpose(s), dimensions={1,0}; "
        "t = (M, M) tuple(s, n)",
        None,
    ),
    (
        "a producer that a product needs first",
        "x: f32[64,64]; s = M sine(x); d = M dot(s, x), lhs_contracting_dims={1}, "
        "rhs_contracting_dims={0}; a = M add(s, d); t = (M, M) tuple(s, a)",
        "s | epilogue(s, x): d a*",
    ),
    # -- reductions
    (
        "two reductions of one operand along the same dimensions",
        "x: f32[64,64]; z: f32[] = 0; l: f32[] = -inf; a = f32[64] reduce(x, z), "
        f"{SUM_COLUMNS}; b = f32[64] reduce(x, l), dimensions={{0}}, to_apply=maximum_f32; "
        "t = (f32[64], f32[64]) tuple(a, b)",
        "one_pass(x): b* a*",
    ),
    (
        "two reductions along different dimensions",
        f"x: f32[64,64]; z: f32[] = 0; a = f32[64] reduce(x, z), {SUM_COLUMNS}; "
        f"b = f32[64] reduce(x, z), {SUM_ROWS}; t = (f32[64], f32[64]) tuple(a, b)",
        None,
    ),
    (
        "what is reduced is stored in passing",
        f"x: f32[64,64]; z: f32[] = 0; d = M sine(x); s = f32[64] reduce(d, z), {SUM_COLUMNS}; "
        "t = (M, f32[64]) tuple(d, s)",
        "one_pass(x): d* s*",
    ),
    (
        "a loop and a reduction over the same operand",
        f"x: f32[64,64]; z: f32[] = 0; d = M sine(x); s = f32[64] reduce(x, z), {SUM_COLUMNS}; "
        "t = (M, f32[64]) tuple(d, s)",
        "one_pass(x): s* d*",
    ),
    (
        "mean and mean of squares",
        f"x: f32[64,64]; z: f32[] = 0; q = M multiply(x, x); a = f32[64] reduce(x, z), {SUM_ROWS}; "
        f"b = f32[64] reduce(q, z), {SUM_ROWS}; t = (f32[64], f32[64]) tuple(a, b)",
        "one_pass(x): q b* a*",
    ),
    (
        "a loop over what a reduction yields",
        f"x: f32[64,64]; z: f32[] = 0; a = f32[64] reduce(x, z), {SUM_COLUMNS}; "
        "r = f32[64] rsqrt(a); t = (f32[64], f32[64]) tuple(a, r)",
        "one_pass(x): a* r*",
    ),
    (
        "rows that keep the sums",
        f"x: f32[64,64]; z: f32[] = 0; a = f32[64] reduce(x, z), {SUM_ROWS}; "
        "w = M broadcast(a), dimensions={0}; d = M subtract(x, w); t = (f32[64], M) tuple(a, d)",
        "rows(x): a* w d*",
    ),
    (
        "no rows along columns",
        f"x: f32[64,64]; z: f32[] = 0; a = f32[64] reduce(x, z), {SUM_COLUMNS}; "
        "w = M broadcast(a), dimensions={1}; d = M subtract(x, w); t = (f32[64], M) tuple(a, d)",
        "a | loop(a, x): w d*",
    ),
    (
        "no rows that do not fit the cache",
        "x: f32[4,131072]; z: f32[] = 0; a = f32[4] reduce(x, z), dimensions={1}, "
        "to_apply=add_f32; w = f32[4,131072] broadcast(a), dimensions={0}; "
        "d = f32[4,131072] subtract(x, w); t = (f32[4], f32[4,131072]) tuple(a, d)",
        "a | loop(a, x): w d*",
    ),
    (
        "reductions of two results are left alone",
        "x: f32[64,64]; i: s32[64,64]; z: f32[] = 0; j: s32[] = 0; "
        "r = (f32[64], s32[64]) reduce(x, i, z, j), dimensions={1}, to_apply=two_sums; "
        "a = f32[64] get-tuple-element(r), index=0; s = f32[64] sine(a); "
        "t = (f32[64], f32[64]) tuple(a, s)",
        None,
    ),
    # -- contractions
    (
        "a product and its activation",
        "x: f32[64,64]; y: f32[64,64]; d = M dot(x, y), lhs_contracting_dims={1}, "
        "rhs_contracting_dims={0}; a = M tanh(d); t = (M, M) tuple(d, a)",
        "epilogue(x, y): d* a*",
    ),
    (
        "two products of one operand",
        "x: f32[64,64]; y: f32[64,64]; z: f32[64,64]; d = M dot(x, y), lhs_contracting_dims={1}, "
        "rhs_contracting_dims={0}; e = M dot(x, z), lhs_contracting_dims={1}, "
        "rhs_contracting_dims={0}; t = (M, M) tuple(d, e)",
        None,
    ),
    (
        "a loop over the operand of a product",
        "x: f32[64,64]; y: f32[64,64]; d = M dot(x, y), lhs_contracting_dims={1}, "
        "rhs_contracting_dims={0}; s = M sine(x); t = (M, M) tuple(d, s)",
        None,
    ),
    # -- updates
    (
        "what is written is a result too",
        "x: f32[64]; y: f32[8,64]; i: s32[]; z: s32[] = 0; s = f32[64] sine(x); "
        "r = f32[1,64] reshape(s); u = f32[8,64] dynamic-update-slice(y, r, i, z); "
        "t = (f32[64], f32[8,64]) tuple(s, u)",
        None,
    ),
    (
        "what is written as it is made is a result too",
        "x: f32[1,64]; y: f32[8,64]; i: s32[]; z: s32[] = 0; s = f32[1,64] sine(x); "
        "u = f32[8,64] dynamic-update-slice(y, s, i, z); t = (f32[1,64], f32[8,64]) tuple(s, u)",
        "one_pass(x, y, i): s* u*",
    ),
    (
        "a reader of what is overwritten",
        "x: f32[8,64]; y: f32[8,64]; i: s32[]; z: s32[] = 0; s = f32[8,64] sine(y); "
        "u = f32[8,64] dynamic-update-slice(y, x, i, z); c = f32[8,64] cosine(x); "
        "t = (f32[8,64], f32[8,64], f32[8,64]) tuple(s, u, c)",
        "s | one_pass(y, x, i): u* c*",
    ),
    # -- what stays
    (
        "nothing moves across a barrier",
        "x: f32[64,64]; s = M sine(x); k = M opt-barrier(x); c = M cosine(k); "
        "t = (M, M) tuple(s, c)",
        None,
    ),
    (
        "control edges",
        "x: f32[64,64]; s = M sine(x); c = M cosine(x), control-predecessors={s}; "
        "t = (M, M) tuple(s, c)",
        None,
    ),
    (
        "views store nothing",
        "x: f32[64,64]; r = f32[4096] reshape(x); s = f32[4096] sine(r); "
        "t = (f32[4096], f32[4096]) tuple(r, s)",
        None,
    ),
    (
        "what is not read is not computed",
        "x: f32[64,64]; s = M sine(x); dead = M cosine(x); n = M negate(x); t = (M, M) tuple(s, n)",
        "dead | loop(x): s* n*",
    ),
]
CASES = [(name, _matrices(before), after) for name, before, after in CASES]
