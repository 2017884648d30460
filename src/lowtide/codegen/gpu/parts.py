"""Products whose depth is divided among blocks, where there are too few tiles to keep them busy.

The sums of each part go to scratch. A second function adds these up in order, the same in each run,
and stores what is made of them.
"""

from __future__ import annotations

from math import prod
from typing import Final

from lowtide.codegen.gpu.kernel import GpuCode
from lowtide.codegen.gpu.product import TileKernel, TileSizes, lanes_of
from lowtide.codegen.gpu.threads import SharedArray
from lowtide.codegen.value import register_type
from lowtide.llvm.function import Integer

_THREADS: Final = 256

_AT_ONCE: Final = 4
"""Columns that a thread adds up at once, where they lie side by side."""


def product_code(kernel: TileKernel, shared: list[SharedArray]) -> GpuCode:
    """Return the code of a product whose kernel is written, or that of its parts is."""
    functions, launches = [kernel.fn], [kernel.launch]
    if kernel.parts > 1:
        sums = _sums_of_parts(kernel)
        functions.append(sums.fn)
        launches.append(sums.launch)
    constants = [kernel.done(), *[x.definition for x in shared]]
    return GpuCode(tuple(functions), tuple(launches), "\n".join([x for x in constants if x]))


def _sums_of_parts(kernel: TileKernel) -> TileKernel:
    """The kernel that adds up the sums of all parts."""
    product, several = kernel.product, max(lanes_of(kernel.product, _AT_ONCE), 1)
    beside = min(_power(-(-prod(product.layout.columns) // several)), _THREADS)
    sizes = TileSizes(_THREADS // beside, beside * several, 1, _THREADS, 1, 1)
    sums = TileKernel(product, sizes, several if several > 1 else 0, "sums_of_parts")
    sums.elements.globals = kernel.elements.globals
    fn, thread = sums.fn, sums.thread
    row = fn.add(sums.row, fn.div(thread, beside))
    column = fn.add(sums.column, fn.mul(fn.rem(thread, beside), several))
    with sums.inside(row, column):
        sums.store(row, column, _total(kernel, sums, (row, column), several))
    return sums


def _total(
    kernel: TileKernel, sums: TileKernel, place: tuple[Integer, Integer], several: int
) -> list[str]:
    """The sums of all parts side by side from a place on, added up in order."""
    fn, total = sums.fn, kernel.product.total
    kind = register_type(total)
    lanes = f"<{several} x {kind}>" if several > 1 else kind

    def loaded(part: Integer) -> str:
        return fn.load(lanes, sums.place_of_sum(part, *place), total.nbytes * several)

    with fn.loop(1, kernel.parts, 1, [(lanes, loaded(0))]) as loop:
        operation = "fadd" if total.is_floating else "add"
        loop.next = [fn.op(f"{operation} {lanes} {loop.values[0]}, {loaded(loop.index)}")]
    (name,) = loop.results
    if several == 1:
        return [name]
    return [fn.op(f"extractelement {lanes} {name}, i64 {i}") for i in range(several)]


def _power(number: int) -> int:
    """The least power of 2 that is not less than a number."""
    return 1 << max(number - 1, 0).bit_length()
