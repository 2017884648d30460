"""Products of warpgroups and what belongs to them as functions of the host.

Each hands over to the scheduler with the words in `Lanes`: what it is, two values, and how many
sums the thread passes; these go through a place of their own (`warpgroup.py` says what happens).
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Final


class WarpgroupCall(IntEnum):
    """What a warpgroup is told to do."""

    FENCE = 0
    COMMIT = 1
    WAIT = 2
    PRODUCT = 3


HALF, LEFT_ACROSS, RIGHT_ACROSS = 1 << 8, 1 << 9, 1 << 10
"""Of a product: operands are f16 and not bf16, and lie across the depth."""

_NAME: Final = re.compile(r"@(wgmma\.[\w.]+)")
_DECLARED: Final = re.compile(r"^declare .* @wgmma\..*\n", re.MULTILINE)
_PRODUCT: Final = re.compile(r"wgmma\.product\.m64n(\d+)k16\.(bf16|f16)\.([mk])\.([nk])")
_WAIT: Final = re.compile(r"wgmma\.wait\.(\d+)\.(\d+)")


def with_warpgroups(text: str) -> tuple[str, str]:
    """Return a module that calls functions of the host, and these functions."""
    names = dict.fromkeys(_NAME.findall(text))
    if not names:
        return text, ""
    text = _DECLARED.sub("", text)
    functions = [_function(x) for x in names if x != "wgmma.proxy.fence"]
    return _NAME.sub(lambda x: f"@{_host_name(x[1])}", text), "".join(functions)


def _host_name(name: str) -> str:
    return f"gpu_{name.removeprefix('wgmma.').replace('.', '_')}"


def _function(name: str) -> str:
    """The function of the host for one of the device."""
    found = _WAIT.fullmatch(name)
    if found:
        return _passing(name, WarpgroupCall.WAIT, found[1], int(found[2]), ())
    found = _PRODUCT.fullmatch(name)
    if found:
        wide, element, left, right = found.groups()
        what = WarpgroupCall.PRODUCT | (HALF if element == "f16" else 0)
        what |= (LEFT_ACROSS if left == "m" else 0) | (RIGHT_ACROSS if right == "n" else 0)
        return _passing(name, what, "%a", int(wide) // 2, ("%a", "%b"))
    what = {"wgmma.fence": WarpgroupCall.FENCE, "wgmma.commit": WarpgroupCall.COMMIT}[name]
    call = f"call ptr @gpu_warpgroup(i64 {int(what)}, i64 0, i64 0, i64 0)"
    return f"define internal void @{_host_name(name)}() {{\n  %sums = {call}\n  ret void\n}}\n"


def _passing(name: str, what: int, first: str, count: int, given: tuple[str, ...]) -> str:
    """A function that hands sums over, and returns what becomes of them."""
    type_ = f"{{ {', '.join(['float'] * count)} }}"
    parameters = [f"i64 {x}" for x in given] + [f"float %x{i}" for i in range(count)]
    second = given[1] if given else "0"
    lines = ["  %own = call ptr @gpu_sums()"]
    for i in range(count):
        lines.append(f"  %p{i} = getelementptr float, ptr %own, i64 {i}")
        lines.append(f"  store float %x{i}, ptr %p{i}")
    values = f"i64 {int(what)}, i64 {first}, i64 {second}, i64 {count}"
    lines.append(f"  %sums = call ptr @gpu_warpgroup({values})")
    for i in range(count):
        before = f"%s{i - 1}" if i else "poison"
        lines.append(f"  %r{i} = load float, ptr %p{i}")
        lines.append(f"  %s{i} = insertvalue {type_} {before}, float %r{i}, {i}")
    body = "\n".join(lines)
    head = f"define internal {type_} @{_host_name(name)}({', '.join(parameters)}) noinline"
    return f"{head} {{\n{body}\n  ret {type_} %s{count - 1}\n}}\n"
