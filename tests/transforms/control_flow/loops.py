"""Loops as short text: what is carried, the condition, a step, and what surrounds the loop."""

import re

LESS_THAN_3 = "n = s32[] constant(3)\nROOT more = pred[] compare(c0, n), direction=LT"
COUNT = "one = s32[] constant(1)\nnext = s32[] add(b0, one)"


def loop_text(
    carried: str,
    step: str,
    results: str,
    given: str,
    starts: str,
    after: str,
    more: str = LESS_THAN_3,
    outside: str = "",
    config: str = "",
) -> str:
    """Return the text of a module with one loop.

    `carried` lists shapes. Condition and body read element k as `ck` and `bk`; `results` and
    `starts` are what the tuples are made of; `after` has the lines of the entry behind `loop`.
    """
    shapes = carried.split("; ")
    shape = f"({', '.join(shapes)})"
    lines = [
        "HloModule m",
        outside,
        "condition {",
        f"c = {shape} parameter(0)",
        *elements("c", shapes, more),
        more,
        "}",
        "body {",
        f"b = {shape} parameter(0)",
        *elements("b", shapes, f"{step} {results}"),
        step,
        f"ROOT r = {shape} tuple({results})",
        "}",
        "ENTRY main {",
        given,
        f"start = {shape} tuple({starts})",
        f"loop = {shape} while(start), condition=condition, body=body{config}",
        after,
        "}",
    ]
    text = "\n".join([line for line in lines if line])
    return text if "ROOT" in after else re.sub(r"\nloop =", "\nROOT loop =", text)


def elements(source: str, shapes: list[str], used_in: str) -> list[str]:
    return [
        f"{source}{k} = {shape} get-tuple-element({source}), index={k}"
        for k, shape in enumerate(shapes)
        if re.search(rf"\b{source}{k}\b", used_in)
    ]


def element(name: str, shape: str, index: int, *, root: bool = False) -> str:
    """Return the line that reads an element of the loop."""
    return f"{'ROOT ' if root else ''}{name} = {shape} get-tuple-element(loop), index={index}"
