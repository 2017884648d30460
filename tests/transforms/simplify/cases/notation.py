"""A short notation for the bodies of computations in cases of rules.

Lines are separated by semicolons. `x: f32[4]` is the next parameter, `c: f32[4] = 2` a scalar
constant repeated to the sizes, `ROOT x` names the result where it is not the last line. Other lines
are HLO. Computations `NAME_TYPE` that `to_apply=` names are made of the opcode NAME.
"""

from __future__ import annotations

import re

Case = tuple[str, str, str | None]
"""The name of a rule, a body before it, and the body after it or None where it does not fit."""

_PARAMETER = re.compile(r"(\w+): (\S+)")
_CONSTANT = re.compile(r"(\w+): (\w+)\[([\d,]*)\] = (\S+)")
_ROOT = re.compile(r"ROOT (\w+)")
_REDUCER = re.compile(r"to_apply=([a-z]+)_(\w+?)\b")


def body(text: str) -> str:
    """Return the HLO lines of a body."""
    lines: list[str] = []
    parameters = 0
    for part in text.split(";"):
        part = part.strip()
        if found := _PARAMETER.fullmatch(part):
            lines.append(f"{found[1]} = {found[2]} parameter({parameters})")
            parameters += 1
        elif found := _CONSTANT.fullmatch(part):
            lines += _constant(*found.groups())
        elif found := _ROOT.fullmatch(part):
            lines = [f"ROOT {x}" if x.startswith(f"{found[1]} =") else x for x in lines]
        else:
            lines.append(part)
    return "\n".join(lines)


def _constant(name: str, element_type: str, sizes: str, value: str) -> list[str]:
    scalar = f"{element_type}[] constant({value})"
    if not sizes:
        return [f"{name} = {scalar}"]
    repeated = f"{name} = {element_type}[{sizes}] broadcast({name}_scalar), dimensions={{}}"
    return [f"{name}_scalar = {scalar}", repeated]


NAMED = {
    "two_sums": """two_sums {
  a = f32[] parameter(0)
  b = s32[] parameter(1)
  c = f32[] parameter(2)
  d = s32[] parameter(3)
  e = f32[] add(a, c)
  f = s32[] add(b, d)
  ROOT g = (f32[], s32[]) tuple(e, f)
}
""",
    "sum_by_greatest": """sum_by_greatest {
  a = f32[] parameter(0)
  b = s32[] parameter(1)
  c = f32[] parameter(2)
  d = s32[] parameter(3)
  e = f32[] maximum(a, c)
  p = pred[] compare(a, c), direction=GE
  f = s32[] select(p, b, d)
  ROOT g = (f32[], s32[]) tuple(e, f)
}
""",
    "less_of_pair": """less_of_pair {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = s32[] parameter(2)
  d = s32[] parameter(3)
  ROOT e = pred[] compare(a, b), direction=LT
}
""",
    "less_of_one": """less_of_one {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT e = pred[] compare(a, b), direction=LT
}
""",
}
"""Computations that bodies call by these names."""


def outside(text: str) -> str:
    """Return the computations that a body calls."""
    computations = [NAMED[name] for name in sorted(NAMED) if name in text]
    for opcode, element_type in sorted(set(_REDUCER.findall(text))):
        if f"{opcode}_{element_type}" in NAMED:
            continue
        computations.append(
            f"{opcode}_{element_type} {{\n  a = {element_type}[] parameter(0)\n"
            f"  b = {element_type}[] parameter(1)\n"
            f"  ROOT c = {element_type}[] {opcode}(a, b)\n}}\n"
        )
    return "\n".join(computations)


def on_both(name: str, before: str, after: str) -> list[Case]:
    """Return the cases of a pair of rules: with `T` an integer, then a floating point type."""
    return [
        (name, before.replace("T", "s32"), after.replace("T", "s32")),
        (f"{name}-inexactly", before.replace("T", "f32"), after.replace("T", "f32")),
    ]
