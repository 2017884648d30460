"""Kernels that do as much as a processor can: multiply-adds in registers, and copies."""

from __future__ import annotations

from typing import Final

from lowtide.llvm.callee import parameters
from lowtide.llvm.function import Function, module_text
from lowtide.llvm.target import Target

CHAINS: Final = 12
"""Independent sums: more than the latency of a multiply-add times the units that do it."""


def peaks_text(target: Target) -> str:
    """Return a module with `multiply_add` and `copy`."""
    return module_text([_multiply_add(target), _copy(target)])


def _multiply_add(target: Target) -> Function:
    """`multiply_add(ptr factors, ptr sums, i64 count)`: `CHAINS` multiply-adds, `count` times."""
    f = Function("multiply_add", parameters(factors="ptr", sums="ptr", count="i64"))
    lanes = target.vector_bytes // 4
    vector = f"<{lanes} x float>"
    a = f.load(vector, "%factors", 4)
    b = f.load(vector, f.gep("%factors", target.vector_bytes), 4)
    start = [(vector, f.op(f"fadd {vector} {a}, {_splat(lanes, i)}")) for i in range(CHAINS)]
    with f.loop(0, "%count", carry=start) as each:
        each.next = [f.intrinsic("fmuladd", vector, x, a, b) for x in each.values]
    total = each.results[0]
    for value in each.results[1:]:
        total = f.op(f"fadd {vector} {total}, {value}")
    f.store(vector, total, "%sums", 4)
    return f


def _splat(lanes: int, number: int) -> str:
    return f"<{', '.join([f'float {number}.0'] * lanes)}>"


def _copy(target: Target) -> Function:
    """`copy(ptr source, ptr target, i64 count)`: a multiple of four vectors of bytes."""
    f = Function("copy", parameters(source="ptr", target="ptr", count="i64"))
    vector = f"<{target.vector_bytes} x i8>"
    with f.loop(0, "%count", 4 * target.vector_bytes) as each:
        places = [f.add(each.index, i * target.vector_bytes) for i in range(4)]
        values = [f.load(vector, f.gep("%source", x), 1) for x in places]
        for x, value in zip(places, values, strict=True):
            f.store(vector, value, f.gep("%target", x), 1)
    return f
