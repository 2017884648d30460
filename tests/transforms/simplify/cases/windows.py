"""Reductions in windows; sorts and reductions of several operands; tuples and tokens."""

from tests.transforms.simplify.cases.notation import Case

READS_SECOND = "ROOT y = s32[4] get-tuple-element(r), index=1"

CASES: list[Case] = [
    (
        "window-of-one",
        "x: f32[2,3]; v: f32[]; "
        "a = f32[2,3] reduce-window(x, v), window={size=1x1}, to_apply=add_f32",
        "x: f32[2,3]; v: f32[]; b = f32[2,3] broadcast(v), dimensions={}; a = f32[2,3] add(x, b)",
    ),
    (
        "window-of-repeats",
        "x: f32[2,3]; v: f32[]; a = f32[2,6] reduce-window(x, v), "
        "window={size=1x2 pad=0_0x1_1 lhs_dilate=1x2}, to_apply=add_f32",
        "x: f32[2,3]; v: f32[]; b = f32[2,3] broadcast(v), dimensions={}; c = f32[2,3] add(x, b); "
        "d = f32[2,3,2] broadcast(c), dimensions={0,1}; a = f32[2,6] reshape(d)",
    ),
    (
        "window-of-repeats",
        "x: f32[2,3]; v: f32[]; a = f32[3,7] reduce-window(x, v), "
        "window={size=2x3 pad=0_1x0_2 lhs_dilate=2x3 rhs_reversal=0x1}, to_apply=maximum_f32",
        "x: f32[2,3]; v: f32[]; b = f32[2,3] broadcast(v), dimensions={}; "
        "c = f32[2,3] maximum(x, b); d = f32[2,2,3,3] broadcast(c), dimensions={0,2}; "
        "e = f32[4,9] reshape(d); a = f32[3,7] slice(e), slice={[1:4], [2:9]}",
    ),
    (
        "window-of-repeats",
        "x: f32[2,3]; v: f32[]; a = f32[2,7] reduce-window(x, v), "
        "window={size=1x2 pad=0_0x2_1 lhs_dilate=1x2}, to_apply=add_f32",
        None,
    ),
    (
        "window-of-repeats",
        "x: f32[2,3]; v: f32[]; a = f32[2,5] reduce-window(x, v), "
        "window={size=1x3 pad=0_0x1_1 lhs_dilate=1x2}, to_apply=add_f32",
        None,
    ),
    (
        "window-of-everything",
        "x: f32[2,3]; v: f32[]; "
        "a = f32[2,1] reduce-window(x, v), window={size=1x3 stride=1x2}, to_apply=add_f32",
        "x: f32[2,3]; v: f32[]; b = f32[2] reduce(x, v), dimensions={1}, to_apply=add_f32; "
        "a = f32[2,1] reshape(b)",
    ),
    (
        "window-of-everything",
        "x: f32[2,3]; v: f32[]; "
        "a = f32[2,2] reduce-window(x, v), window={size=1x3 pad=0_0x0_1}, to_apply=add_f32",
        None,
    ),
    (
        "window-of-pad",
        "x: f32[2,3]; v: f32[]; p = f32[2,8] pad(x, v), padding=0_0x1_2_1; "
        "a = f32[2,7] reduce-window(p, v), window={size=1x2}, to_apply=maximum_f32",
        "x: f32[2,3]; v: f32[]; a = f32[2,7] reduce-window(x, v), "
        "window={size=1x2 pad=0_0x1_2 lhs_dilate=1x2}, to_apply=maximum_f32",
    ),
    (
        "window-of-pad",
        "x: f32[2,3]; v: f32[] = 0; w: f32[] = 1; p = f32[2,5] pad(x, v), padding=0_0x1_1; "
        "a = f32[2,4] reduce-window(p, w), window={size=1x2}, to_apply=maximum_f32",
        None,
    ),
    (
        "window-of-pad",
        "x: f32[2,3]; v: f32[] = 2; p = f32[2,5] pad(x, v), padding=0_0x1_1; "
        "a = f32[2,4] reduce-window(p, v), window={size=1x2}, to_apply=add_f32",
        None,
    ),
    (
        "window-of-pad",
        "x: f32[2,3]; v: f32[] = 0; p = f32[2,5] pad(x, v), padding=0_0x1_1; "
        "a = f32[2,4] reduce-window(p, v), window={size=1x2}, to_apply=add_f32",
        "x: f32[2,3]; v: f32[] = 0; a = f32[2,4] reduce-window(x, v), "
        "window={size=1x2 pad=0_0x1_1}, to_apply=add_f32",
    ),
    (
        "reduce-what-is-read",
        "x: f32[4,3]; k: s32[4,3]; v: f32[]; w: s32[]; "
        "r = (f32[4], s32[4]) reduce(x, k, v, w), dimensions={1}, to_apply=two_sums; "
        f"{READS_SECOND}",
        "x: f32[4,3]; k: s32[4,3]; v: f32[]; w: s32[]; "
        "b = f32[4] broadcast(v), dimensions={}; "
        "n = s32[4] reduce(k, w), dimensions={1}, to_apply=add_s32; "
        f"r = (f32[4], s32[4]) tuple(b, n); {READS_SECOND}",
    ),
    (
        "reduce-what-is-read",
        "x: f32[4,3]; k: s32[4,3]; v: f32[]; w: s32[]; "
        "r = (f32[4], s32[4]) reduce(x, k, v, w), dimensions={1}, to_apply=sum_by_greatest; "
        f"{READS_SECOND}",
        None,
    ),
    (
        "sort-one",
        "x: f32[4,1]; a = f32[4,1] sort(x), dimensions={1}, to_apply=less_of_one",
        "x: f32[4,1]",
    ),
    (
        "sort-one",
        "x: f32[4,1]; k: s32[4,1]; "
        "a = (f32[4,1], s32[4,1]) sort(x, k), dimensions={1}, to_apply=less_of_pair",
        "x: f32[4,1]; k: s32[4,1]; a = (f32[4,1], s32[4,1]) tuple(x, k)",
    ),
    (
        "sort-what-is-read",
        "x: f32[4]; k: s32[4]; "
        "r = (f32[4], s32[4]) sort(x, k), dimensions={0}, to_apply=less_of_pair; "
        "ROOT a = f32[4] get-tuple-element(r), index=0",
        "x: f32[4]; k: s32[4]; r = f32[4] sort(x), dimensions={0}, to_apply=less_of_one; "
        "t = (f32[4], s32[4]) tuple(r, k); ROOT a = f32[4] get-tuple-element(t), index=0",
    ),
    (
        "sort-what-is-read",
        "x: f32[4]; k: s32[4]; "
        "r = (f32[4], s32[4]) sort(x, k), dimensions={0}, to_apply=less_of_pair; "
        f"{READS_SECOND}",
        None,
    ),
    (
        "element-of-tuple",
        "x: f32[4]; y: s32[4]; r = (f32[4], s32[4]) tuple(x, y); "
        "ROOT a = f32[4] get-tuple-element(r), index=0",
        "x: f32[4]; y: s32[4]; ROOT x",
    ),
    (
        "element-of-tuple",
        "x: f32[4]; y: s32[4]; r = (f32[4], s32[4]) tuple(x, y); "
        "b = (f32[4], s32[4]) opt-barrier(r); ROOT a = f32[4] get-tuple-element(b), index=0",
        None,
    ),
    (
        "tuple-of-elements",
        "x: (f32[4],s32[4]); a = f32[4] get-tuple-element(x), index=0; "
        "b = s32[4] get-tuple-element(x), index=1; c = (f32[4], s32[4]) tuple(a, b)",
        "x: (f32[4],s32[4])",
    ),
    (
        "tuple-of-elements",
        "x: (f32[4],f32[4]); a = f32[4] get-tuple-element(x), index=0; "
        "b = f32[4] get-tuple-element(x), index=1; c = (f32[4], f32[4]) tuple(b, a)",
        None,
    ),
    (
        "after-one-token",
        "x: f32[4]; t = token[] after-all(); u = token[] after-all(t, t); "
        "ROOT a = f32[4] add-dependency(x, u)",
        "x: f32[4]; t = token[] after-all(); ROOT a = f32[4] add-dependency(x, t)",
    ),
    (
        "after-nested-tokens",
        "x: f32[4]; t: token[]; u: token[]; w: token[]; v = token[] after-all(t, u); "
        "z = token[] after-all(v, w); a = f32[4] add-dependency(x, z)",
        "x: f32[4]; t: token[]; u: token[]; w: token[]; z = token[] after-all(t, u, w); "
        "a = f32[4] add-dependency(x, z)",
    ),
    (
        "dependency-on-nothing",
        "x: f32[4]; t = token[] after-all(); a = f32[4] add-dependency(x, t)",
        "x: f32[4]",
    ),
]
