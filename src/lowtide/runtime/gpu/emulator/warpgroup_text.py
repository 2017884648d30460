"""Products of warpgroups and what belongs to them as functions of the host.

Each hands over to the scheduler with the words in `Lanes`: what it is, two values, and how many
sums the thread passes; these go through a place of their own (`warpgroup.py` says what happens).
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Final

from lowtide.runtime.gpu.emulator.state import StateField, Wait, field

MOST_SUMS: Final = 256
"""Sums that a thread passes at once, at most."""


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

_SUPPORT: Final = f"""
define internal ptr @gpu_warpgroup(i64 %what, i64 %a, i64 %b, i64 %count) noinline {{
  %lane = call ptr @gpu_lane()
  %second = getelementptr i64, ptr %lane, i64 1
  %third = getelementptr i64, ptr %lane, i64 2
  %fourth = getelementptr i64, ptr %lane, i64 3
  store i64 %what, ptr %lane
  store i64 %a, ptr %second
  store i64 %b, ptr %third
  store i64 %count, ptr %fourth
  call void @gpu_wait(i64 {int(Wait.WARPGROUP)})
  %sums = call ptr @gpu_sums()
  ret ptr %sums
}}
define internal ptr @gpu_sums() {{
  %t = load i64, ptr {field(StateField.THREAD)}
  %all = load ptr, ptr {field(StateField.SUMS)}
  %sums = getelementptr [{MOST_SUMS} x float], ptr %all, i64 %t
  ret ptr %sums
}}
define internal void @gpu_proxy_fence() {{
  call void @gpu_log(ptr null, i64 0)
  ret void
}}
"""


def with_warpgroups(text: str) -> tuple[str, str]:
    """Return a module that calls functions of the host, and these functions."""
    names = dict.fromkeys(_NAME.findall(text))
    if not names:
        return text, ""
    text = _DECLARED.sub("", text)
    functions = [_function(x) for x in names if x != "wgmma.proxy.fence"]
    return _NAME.sub(lambda x: f"@{_host_name(x[1])}", text), "".join([_SUPPORT, *functions])


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
