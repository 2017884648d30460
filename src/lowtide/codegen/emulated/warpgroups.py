"""Products of warpgroups and what belongs to them as functions of the host.

Each hands over to the scheduler with the words in `Lanes`: what it is, two values, and how many
sums the thread passes; these go through a place of their own (`emulator/warpgroup.py` says what
happens).
"""

from __future__ import annotations

import re
from typing import Final

from lowtide.codegen.emulated.calls import (
    HALF,
    LEFT_ACROSS,
    RIGHT_ACROSS,
    WarpgroupCall,
    handing_over,
)

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
    values = f"i64 {int(what)}, i64 {first}, i64 {given[1] if given else '0'}, i64 {count}"
    call = f"%sums = call ptr @gpu_warpgroup({values})"
    parameters = [f"i64 {x}" for x in given]
    return handing_over(_host_name(name), parameters, ["float"] * count, count, "gpu_sums", call)
