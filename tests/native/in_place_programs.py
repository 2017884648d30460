"""Programs around one operation in place, drawn by a seed: what it reads, layouts, fused or not."""

from __future__ import annotations

import random

TYPES = ("f32", "s32", "f64", "bf16", "s8", "c64")
COMBINE = {
    "add": "ROOT r = {t}[] add(a, b)",
    "set": "n = {t}[] negate(a) ROOT r = {t}[] copy(b)",
    "both": "s = {t}[] add(a, b) ROOT r = {t}[] subtract(s, a)",
}
READERS = {
    "other": "new = {part}{lu} slice(q), slice={{[0:{k}], [0:{n}]}}",
    "same slice": "new = {part}{lu} dynamic-slice(x, i, z), dynamic_slice_sizes={{{k},{n}}}",
    "reshaped slice": "d = {part} dynamic-slice(x, i, z), dynamic_slice_sizes={{{k},{n}}}\n"
    "e = {t}[{kn}] reshape(d)\n f = {t}[{kn}] add(e, e)\n new = {part}{lu} reshape(f)",
    "fixed slice": "new = {part}{lu} slice(x), slice={{[1:{k1}], [0:{n}]}}",
    "reversed slice": "d = {part} dynamic-slice(x, i, z), dynamic_slice_sizes={{{k},{n}}}\n"
    "new = {part}{lu} reverse(d), dimensions={{0,1}}",
    "slice of all": "d = {whole} add(x, x)\n"
    "new = {part}{lu} dynamic-slice(d, i, z), dynamic_slice_sizes={{{k},{n}}}",
    "transposed": "d = {whole} transpose(x), dimensions={{1,0}}\n"
    "new = {part}{lu} slice(d), slice={{[0:{k}], [0:{n}]}}",
    "sums": "zero = {t}[] constant({nil})\n d = {t}[{n}] reduce(x, zero), dimensions={{0}}, "
    "to_apply=plus\n new = {part}{lu} broadcast(d), dimensions={{1}}",
    "reversed whole": "new = {whole}{lu} reverse(x), dimensions={{0}}",
    "negated whole": "new = {whole}{lu} negate(x)",
    "whole": "",
}
WHOLE = ("reversed whole", "negated whole", "whole")
UPDATES = {
    "update": "r = {whole}{lr} dynamic-update-slice({x}, {new}, {at}, z)",
    "scatter": "r = {whole}{lr} scatter({x}, j, {new}), {how}, to_apply=combine",
    "two scatters": "r = ({whole}{lr}, {whole}{ls}) scatter({x}, q, j, {new}, {new}), {how}, "
    "to_apply=pairs",
}
HOW = (
    "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
    "index_vector_dim=1"
)
SECONDS = ("", "", "", "x", "negate(x)", "reverse(x), dimensions={1}", "negate(r)")


def program(seed: int) -> str:
    """Return the text of a program of parameters p, q: array, i: start, j: rows."""
    rng = random.Random(seed)
    t, n = rng.choice(TYPES), rng.choice([3, 8, 40])
    reader, update = rng.choice(list(READERS)), rng.choice(list(UPDATES))
    if reader == "sums" and t == "bf16":
        t = "f32"  # Sums of bf16 would be rounded.
    k = n if reader in WHOLE else rng.choice([1, 2, n - 1])
    layouts = [rng.choice(["{1,0}", "{1,0}", "{0,1}"]) for _ in range(5)]
    if rng.random() < 0.5:
        layouts = [rng.choice(["{1,0}", "{0,1}"])] * 5
    lx, lu, lr, ls, lq = layouts
    whole, part = f"{t}[{n},{n}]", f"{t}[{k},{n}]"
    words = {
        "t": t, "nil": "(0, 0)" if t == "c64" else 0,
        "n": n, "k": k, "kn": k * n, "k1": k + 1 if k < n else n,
        "whole": whole, "part": part, "lu": lu, "lr": lr, "ls": ls, "how": HOW,
        "x": "x", "new": "x" if reader == "whole" else "new",
        "at": rng.choice(["i", "i", "one"]),
    }  # fmt: skip
    second = rng.choice(SECONDS)
    if update == "two scatters" and second == "negate(r)":
        second = ""
    lines = ["z = s32[] constant(0)", "one = s32[] constant(1)"]
    lines += [READERS[reader].format(**words), UPDATES[update].format(**words)]
    result = f"({whole}{lr}, {whole}{ls})" if update == "two scatters" else f"{whole}{lr}"
    root = "r"
    if second:
        if second != "x":
            lines.append(f"s = {whole}{lx if 'x' in second else lr} {second}")
        other = "x" if second == "x" else "s"
        shape = f"{whole}{lr if second == 'negate(r)' else lx}"
        result, root = f"({result}, {shape})", "t"
        if update == "two scatters":
            lines += [f"g = {whole}{lr} get-tuple-element(r), index=0"]
            lines += [f"h = {whole}{ls} get-tuple-element(r), index=1"]
            result = f"({whole}{lr}, {whole}{ls}, {shape})"
            lines.append(f"t = {result} tuple(g, h, {other})")
        else:
            lines.append(f"t = {result} tuple(r, {other})")
    body = [x if not x.startswith(f"{root} =") else "ROOT " + x for x in lines if x]
    given = f"q = {whole}{lq} parameter(1)\n i = s32[] parameter(2)\n j = s32[{k},1] parameter(3)"
    is_fused = rng.random() < 0.6
    where = rng.choice(["made", "given", "donated"])
    source = f"y = {whole}{lx} parameter(0)\n {given}\n x = {whole}{lx} negate(y)\n"
    if where != "made":
        source = f"x = {whole}{lx} parameter(0)\n {given}\n"
    header = "" if rng.random() < 0.5 else ", is_scheduled=true"
    if where == "donated":
        aliased = "0" if result.startswith("(") else ""
        header += f", input_output_alias={{ {{{aliased}}}: (0, {{}}, may-alias) }}"
    combine = COMBINE[rng.choice(list(COMBINE))].format(t=t)
    text = f"""HloModule m{header}
plus {{ a = {t}[] parameter(0) b = {t}[] parameter(1) ROOT r = {t}[] add(a, b) }}
combine {{ a = {t}[] parameter(0) b = {t}[] parameter(1) {combine} }}
pairs {{ a = {t}[] parameter(0) b = {t}[] parameter(1) c = {t}[] parameter(2) d = {t}[] parameter(3)
 e = {t}[] add(a, d) f = {t}[] subtract(b, c) ROOT r = ({t}[], {t}[]) tuple(e, f) }}
"""
    inner = "\n ".join(body)
    if not is_fused:
        return text + f"ENTRY e {{\n {source} {inner}\n}}\n"
    fused = f"f {{\n x = {whole}{lx} parameter(0)\n {given}\n {inner}\n}}\n"
    kind = rng.choice(["kLoop", "kInput"])
    call = f"ROOT c = {result} fusion(x, q, i, j), kind={kind}, calls=f"
    return text + fused + f"ENTRY e {{\n {source} {call}\n}}\n"
