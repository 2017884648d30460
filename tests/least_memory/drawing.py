"""Small modules of operations that compilations may compute again, in place, or only once."""

from __future__ import annotations

from random import Random

from lowtide.frontend.hlo_text.parser import parse_hlo
from lowtide.ir import Module

SIZES = (2, 3, 4, 6)
REDUCER = (
    "add {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] add(a, b)\n}\n"
)
ORDER = """less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT
}
"""


def drawn_module(seed: int, operations: int) -> Module:
    """Return a module with donated arguments and so many operations, all of which are needed."""
    random = Random(seed)
    lines: list[str] = []
    values: list[tuple[str, int, int]] = []
    parameters = random.randint(1, 2)
    for k in range(parameters):
        rows, columns = random.choice(SIZES), random.choice(SIZES)
        lines.append(f"p{k} = f32[{rows},{columns}]{{1,0}} parameter({k})")
        values.append((f"p{k}", rows, columns))
    lines += [_operation(random, f"x{k}", values) for k in range(operations)]
    used = "\n".join(lines)
    results = [x for x, _, _ in values if f"({x}" not in used and f" {x})" not in used]
    shapes = [next(v for v in values if v[0] == x) for x in results]
    tuple_type = ", ".join([f"f32[{r},{c}]{{1,0}}" for _, r, c in shapes])
    lines.append(f"ROOT t = ({tuple_type}) tuple({', '.join(results)})")
    body = "".join([f"  {x}\n" for x in lines])
    donors = ", ".join([f"({k}, {{}})" for k in range(parameters)])
    head = f"HloModule m, buffer_donor={{ {donors} }}\n"
    return parse_hlo(f"{head}{REDUCER}{ORDER}ENTRY e {{\n{body}}}\n")


def _operation(random: Random, name: str, values: list[tuple[str, int, int]]) -> str:
    x, rows, columns = random.choice(values[-4:])
    kind = random.choice(("negate", "add", "dot", "dot", "sort", "pool", "slice", "wide", "sum"))
    other = random.choice([v for v in values if v[1:] == (rows, columns)])[0]
    if kind == "dot":
        pairs = [v for v in values if v[1] == columns]
        if pairs:
            y, _, columns = random.choice(pairs)
            text = f"dot({x}, {y}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
        else:
            columns = rows
            text = f"dot({x}, {x}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}"
    elif kind == "slice" and columns > 1:
        columns -= 1
        text = f"slice({x}), slice={{[0:{rows}], [0:{columns}]}}"
    elif kind == "wide" and columns < 8:
        text = f"concatenate({x}, {other}), dimensions={{1}}"
        columns *= 2
    elif kind == "sort":
        text = f"sort({x}), dimensions={{1}}, to_apply=less"
    elif kind == "pool":
        text = f"reverse({x}), dimensions={{0}}"
    elif kind == "add":
        text = f"add({x}, {other})"
    else:
        text = f"negate({x})"
    values.append((name, rows, columns))
    return f"{name} = f32[{rows},{columns}]{{1,0}} {text}"
