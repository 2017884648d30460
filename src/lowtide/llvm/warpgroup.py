"""Instructions of NVPTX that LLVM has no intrinsic for, as functions with names of their own.

Code calls functions that nobody defines, such as `@wgmma.product.m64n256k16.bf16.k.n`. Where the
text goes to NVPTX each call becomes inline assembly, and where it goes to the host a function.

A warpgroup is four warps, whose threads call all of these together. A product adds that of a 64x16
matrix and a 16xN one, which descriptors of shared memory name, to sums that are spread over the
threads. It is asynchronous: sums are not read, and what it reads is not written, before a wait.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from lowtide.llvm.callee import Callee, external

HIGH, DEEP = 64, 16
"""Rows of a product, and how deep it is."""

FENCE: Final = external("wgmma.fence", "void")
"""Orders what threads did with their sums ahead of the products that follow."""

COMMIT: Final = external("wgmma.commit", "void")
"""Makes a group of the products that were called since the last one."""

PROXY_FENCE: Final = external("wgmma.proxy.fence", "void")
"""Shows what the thread stored in shared memory to products, after a barrier."""


def sums_of(wide: int) -> int:
    """Return how many sums each thread has of a product of `wide` columns."""
    return wide // 2


def sums_type(count: int) -> str:
    """Return the type of so many sums."""
    return f"{{ {', '.join(['float'] * count)} }}"


def product(wide: int, element: str, across: Sequence[bool]) -> Callee:
    """Return the product of matrices of "bf16" or "f16" with so many columns in the right one.

    It takes their descriptors and the sums, and returns the sums. `across` tells of each operand
    whether numbers side by side are rows or columns apart, "m" and "n", or lie along the depth.
    """
    count = sums_of(wide)
    places = f"{'m' if across[0] else 'k'}.{'n' if across[1] else 'k'}"
    name = f"wgmma.product.m{HIGH}n{wide}k{DEEP}.{element}.{places}"
    return external(name, sums_type(count), "i64", "i64", *["float"] * count)


def wait(pending: int, count: int) -> Callee:
    """Return the wait until at most `pending` groups of products go on; it passes `count` sums."""
    return external(f"wgmma.wait.{pending}.{count}", sums_type(count), *["float"] * count)


_CALL: Final = re.compile(r"^(  (?:%\S+ = )?call .+?) @(wgmma\.[\w.]+)(\(.*\))$", re.MULTILINE)
_DECLARED: Final = re.compile(r"^declare .* @wgmma\..*\n", re.MULTILINE)
_PRODUCT: Final = re.compile(r"wgmma\.product\.(m\d+n(\d+)k\d+)\.(\w+)\.(\w)\.(\w)")
_WAIT: Final = re.compile(r"wgmma\.wait\.(\d+)\.(\d+)")

_PLAIN: Final = {
    "wgmma.fence": "wgmma.fence.sync.aligned;",
    "wgmma.commit": "wgmma.commit_group.sync.aligned;",
    "wgmma.proxy.fence": "fence.proxy.async.shared::cta;",
}


def with_assembly(text: str) -> str:
    """Return a module for NVPTX, in which inline assembly stands for these functions."""
    text = _DECLARED.sub("", text)
    return _CALL.sub(lambda x: f"{x[1]} asm sideeffect {_assembly(x[2])}{x[3]} convergent", text)


def _assembly(name: str) -> str:
    """The instructions that a function is, and the registers of its values."""
    if name in _PLAIN:
        return f'"{_PLAIN[name]}", "~{{memory}}"'
    found = _WAIT.fullmatch(name)
    if found:
        sums = _constraints(int(found[2]), ())
        return f'"wgmma.wait_group.sync.aligned {found[1]};", "{sums},~{{memory}}"'
    found = _PRODUCT.fullmatch(name)
    assert found is not None, name
    shape, wide, element, *places = found.groups()
    count = sums_of(int(wide))
    sums = ", ".join([f"${i}" for i in range(count)])
    across = ", ".join([str(int(x != "k")) for x in places])
    what = f"wgmma.mma_async.sync.aligned.{shape}.f32.{element}.{element}"
    values = f"{{{sums}}}, ${count}, ${count + 1}, added, 1, 1, {across}"
    lines = f"{{ .reg .pred added; setp.ne.b32 added, 1, 0; {what} {values}; }}"
    return f'"{lines}", "{_constraints(count, ("l", "l"))},~{{memory}}"'


def _constraints(count: int, others: Sequence[str]) -> str:
    """So many sums in registers that return in the same ones, after other values."""
    return ",".join([*["=f"] * count, *others, *map(str, range(count))])
