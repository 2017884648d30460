"""Parts of arrays: between places, in steps, of some sizes."""

from __future__ import annotations

from typing import Final, final

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.context import OpKernelContext
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared import arrays
from lowtide.frontend.tflite.node import DOMAIN, LiteNode
from lowtide.ir import Opcode
from lowtide.ir.attributes import Constant

_ALIKE: Final = frozenset({Opcode.CONVERT, Opcode.RESHAPE})
"""Operations that leave elements as they are."""


@op("SLICE", domain=DOMAIN, inputs=3)
def slice_(context: OpKernelContext) -> None:
    """Give the part at a place, of some sizes; -1 is what is left.

    The place may depend on arguments where no size does, nor is what is left.
    """
    node, b, x = LiteNode(context), context.builder, context.input(0)
    begin, sizes = context.input(1), context.ints(2)
    found = []
    for start, size, n in zip(_known(context, 1), sizes, x.dimensions, strict=True):
        if size < 0 and start is None:
            context.ints(1)  # It has to be a constant, which this says.
        found.append(n - (start or 0) if size < 0 else size)
    if context.known(1) is None:
        starts = [_element(b, begin, i) for i in range(x.rank)]
        node.give(b.dynamic_slice(x, starts, found))
        return
    places = zip(context.ints(1), found, strict=True)
    node.give(arrays.sliced(b, x, [slice(i, i + n) for i, n in places]))


@op("STRIDED_SLICE", domain=DOMAIN, inputs=4)
def strided_slice(context: OpKernelContext) -> None:
    """Give the part between two places in steps.

    Masks leave out ends, take dimensions away, and put in all that is left or new dimensions.
    Places at which a dimension is taken away may depend on arguments.
    """
    node, found = LiteNode(context), _Parts(context)
    begin, end, ellipsis, new, shrink = [node.number(i) for i in range(5)]
    count = len(found.steps)
    given = count - ((new | ellipsis) & ((1 << count) - 1)).bit_count()
    for i in range(count):
        bit = 1 << i
        if ellipsis & bit:
            found.add_whole(found.x.rank - given)
        elif new & bit:
            found.sizes.append(1)
        elif len(found.parts) >= found.x.rank:
            raise node.error(f"{count} places for {found.x.rank} dimensions")
        elif shrink & bit:
            found.add_place(i)
        else:
            found.add_part(i, is_open=(bool(begin & bit), bool(end & bit)))
    found.add_whole(found.x.rank - len(found.parts))
    part = arrays.sliced(node.b, found.x, found.parts)
    node.give(arrays.reshaped(node.b, part, found.sizes))


@final
class _Parts:
    """The parts of the dimensions so far, and the sizes of the result."""

    def __init__(self, context: OpKernelContext) -> None:
        self.context, self.node = context, LiteNode(context)
        self.x, self.steps = context.input(0), context.ints(3)
        self.begins, self.ends = _known(context, 1), _known(context, 2)
        self.parts: list[slice] = []
        self.sizes: list[int] = []
        counts = {len(x) for x in (self.begins, self.ends, self.steps)}
        if len(counts) > 1 or 0 in self.steps:
            text = f"steps {self.steps} from {self.begins} to {self.ends}"
            raise self.node.error(text)

    def add_whole(self, count: int) -> None:
        """Add all of some dimensions."""
        start = len(self.parts)
        self.parts += [slice(None)] * count
        self.sizes += self.x.dimensions[start : start + count]

    def add_place(self, number: int) -> None:
        """Add one place, and take its dimension away."""
        b, dimension, first = self.node.b, len(self.parts), self.begins[number]
        n = self.x.dimensions[dimension]
        if first is None:
            place = _element(b, self.context.input(1), number)
            place = b.select(place.lt(0), place + n, place)
            starts = [b.constant(0, place.element_type)] * self.x.rank
            starts[dimension] = place
            sizes = list(self.x.dimensions)
            sizes[dimension] = 1
            self.x, first, n = b.dynamic_slice(self.x, starts, sizes), 0, 1
        if not -n <= first < n:
            raise self.node.error(f"place {first} of {n}")
        self.parts.append(slice(first % n, first % n + 1))

    def add_part(self, number: int, is_open: tuple[bool, bool]) -> None:
        """Add what lies between two places, of which masks may leave out either."""
        first = None if is_open[0] else self.constant(1, number)
        last = None if is_open[1] else self.constant(2, number)
        if last is not None and self.node.code(5):
            last += self.constant(1, number)
        part = slice(first, last, self.steps[number])
        n = self.x.dimensions[len(self.parts)]
        self.parts.append(part)
        self.sizes.append(len(range(n)[part]))

    def constant(self, place: int, number: int) -> int:
        """An element of an input that has to be known; raises NotConstantError for any other."""
        found = (self.begins if place == 1 else self.ends)[number]
        return self.context.ints(place)[number] if found is None else found


def _known(context: OpKernelContext, number: int) -> list[int | None]:
    """The elements of an input that is a vector, None for those that depend on arguments."""
    if context.known(number) is not None:
        return [*context.ints(number)]
    whole = context.input(number).instruction
    found: list[int | None] = []
    for part in whole.operands if whole.opcode is Opcode.CONCATENATE else (whole,):
        inner = part
        while inner.opcode in _ALIKE:
            inner = inner.operands[0]
        if inner.opcode is Opcode.CONSTANT:
            found += inner.attributes_as(Constant).literal.array.reshape(-1).tolist()
        else:
            found += [None] * part.shape.element_count
    return found


def _element(b: Builder, x: Op, number: int) -> Op:
    """An element of a vector."""
    return b.reshape(arrays.sliced(b, x, [slice(number, number + 1)]), [])
