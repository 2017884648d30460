"""Numbers of which there is one for each channel of a result: sums of weights, and biases.

Of constants they are constants: nothing of them is computed in a run.
"""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.shared.reductions import reduce
from lowtide.ir import Opcode
from lowtide.ir.attributes import Constant
from lowtide.ir.element_type import ElementType
from lowtide.ir.literal import DTYPES, Array


def totals(b: Builder, x: Op, axes: Sequence[int], type_: ElementType) -> Op:
    """Return sums of integers over some dimensions, in a wider type."""
    known = _known(x)
    if known is None:
        return reduce(b, "sum", b.convert(x, type_), list(axes))
    return b.constant(known.sum(tuple(axes), dtype=DTYPES[type_]))


def product(b: Builder, x: Op, factor: int) -> Op:
    """Return integers times a number."""
    known = _known(x)
    return x * factor if known is None else b.constant(known * known.dtype.type(factor))


def difference(b: Builder, x: Op, y: Op) -> Op:
    """Return integers less others of the same type and shape."""
    these, others = _known(x), _known(y)
    return x - y if these is None or others is None else b.constant(these - others)


def widened(b: Builder, x: Op, type_: ElementType) -> Op:
    """Return integers in a wider type."""
    known = _known(x)
    if x.element_type is type_:
        return x
    return b.convert(x, type_) if known is None else b.constant(known.astype(DTYPES[type_]))


def _known(x: Op) -> Array | None:
    if x.instruction.opcode is not Opcode.CONSTANT:
        return None
    return x.instruction.attributes_as(Constant).literal.array
