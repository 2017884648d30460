"""Random operations on arrays of whole numbers: sorts, windows, gathers, loops and branches.

Each maker returns None where it has nothing to do to an array of that shape.
"""

import random
from collections.abc import Callable

from lowtide.builder.builder import Builder
from lowtide.builder.values import Op
from lowtide.ir import ElementType, Opcode, array_shape, tuple_shape
from lowtide.ir.attributes import ConvolutionDimensions, Gather, Scatter, Window, WindowDimension

MOST = 600
"""The most elements that an array gets."""

LEAST, LARGEST = -9.0, 9.0
"""Where numbers are brought back to, so that sums and products stay exact."""

Maker = Callable[[Builder, random.Random, Op], Op | None]


def small(b: Builder, x: Op) -> Op:
    """Return the numbers brought between bounds."""
    return b.clamp(b.constant(LEAST), x, b.constant(LARGEST))


def _less(b: Builder, *types: ElementType) -> object:
    shapes = [array_shape(t, ()) for t in types for _ in range(2)]
    return b.sub_computation("less", shapes, lambda x, y, *_: x.builder.compare(x, y, "LT"))


def sort(b: Builder, source: random.Random, x: Op) -> Op | None:
    if not x.rank:
        return None
    d = source.randrange(x.rank)
    if source.random() < 0.5:
        return b.sort(x, _less(b, ElementType.F32), d, is_stable=True)
    places = b.iota(array_shape(ElementType.S32, x.dimensions), d)
    both = b.sort([x, places], _less(b, ElementType.F32, ElementType.S32), d, is_stable=True)
    return small(b, b.convert(b.get_tuple_element(both, 1), ElementType.F32))


def top_k(b: Builder, source: random.Random, x: Op) -> Op | None:
    if not x.rank:
        return None
    found = b.topk(x, source.randrange(1, x.dimensions[-1] + 1))
    if source.random() < 0.5:
        return b.get_tuple_element(found, 0)
    return small(b, b.convert(b.get_tuple_element(found, 1), ElementType.F32))


def pad(b: Builder, source: random.Random, x: Op) -> Op | None:
    if not x.rank:
        return None
    padding = [(0, 0, 0)] * x.rank
    d = source.randrange(x.rank)
    low, high = source.randrange(-1, 3), source.randrange(-1, 3)
    padding[d] = (low, high, source.choice([0, 0, 1]))
    if x.dimensions[d] + low + high < 1:
        return None
    return b.pad(x, b.constant(source.choice([0.0, 5.0])), padding)


def reverse(b: Builder, source: random.Random, x: Op) -> Op | None:
    return b.reverse(x, source.sample(range(x.rank), source.randrange(x.rank + 1)))


def strided(b: Builder, source: random.Random, x: Op) -> Op | None:
    if not x.rank:
        return None
    d = source.randrange(x.rank)
    starts, strides = [0] * x.rank, [1] * x.rank
    starts[d], strides[d] = source.randrange(x.dimensions[d]), source.choice([1, 2, 3])
    return b.slice(x, starts, x.dimensions, strides)


def window(b: Builder, source: random.Random, x: Op) -> Op | None:
    if not x.rank:
        return None
    d = source.randrange(x.rank)
    size = source.randrange(1, min(4, x.dimensions[d]) + 1)
    low = source.randrange(size)
    row = WindowDimension(size, source.choice([1, 1, 2]), low, source.randrange(size))
    if source.random() < 0.3:  # A sum of all that stands before.
        row = WindowDimension(x.dimensions[d], 1, x.dimensions[d] - 1, 0)
    rows = tuple([row if i == d else WindowDimension(1) for i in range(x.rank)])
    opcode = source.choice([Opcode.ADD, Opcode.MAXIMUM])
    start = b.constant(0.0 if opcode is Opcode.ADD else -100.0)
    made = b.reduce_window(x, start, b.scalar_computation(opcode, x.element_type), Window(rows))
    return small(b, made)


def gather(b: Builder, source: random.Random, x: Op) -> Op | None:
    if not x.rank:
        return None
    d = source.randrange(x.rank)
    count = source.choice([1, 2, 4, 6])
    others = [i for i in range(x.rank) if i != d]
    rows = [source.randrange(-1, x.dimensions[d] + 1) for _ in range(count)]
    sizes = [1 if i == d else n for i, n in enumerate(x.dimensions)]
    attributes = Gather(tuple(range(1, x.rank)), (d,), (d,), 1, tuple(sizes))
    if count * x.instruction.shape.nbytes // 4 // x.dimensions[d] > MOST:
        return None
    assert len(others) == x.rank - 1
    return b.gather(x, b.constant(rows, ElementType.S32), attributes)


def scatter(b: Builder, source: random.Random, x: Op) -> Op | None:
    if not x.rank:
        return None
    d = source.randrange(x.rank)
    count = source.choice([1, 2, 4, 6])
    rows = [source.randrange(-1, x.dimensions[d] + 1) for _ in range(count)]
    others = [n for i, n in enumerate(x.dimensions) if i != d]
    numbers = b.iota(array_shape(ElementType.F32, (count, *others)), 0)
    attributes = Scatter(tuple(range(1, x.rank)), (d,), (d,), 1)
    opcode = source.choice([Opcode.ADD, Opcode.MAXIMUM])
    reducer = b.scalar_computation(opcode, x.element_type)
    return small(b, b.scatter(x, b.constant(rows, ElementType.S32), numbers, reducer, attributes))


def convolve(b: Builder, source: random.Random, x: Op) -> Op | None:
    if x.rank != 3:
        return None
    features, length = x.dimensions[1:]
    size = source.randrange(1, min(3, length) + 1)
    kernel = b.iota(array_shape(ElementType.F32, (size, features, 4)), source.randrange(3))
    rows = Window((WindowDimension(size, source.choice([1, 2]), size // 2, size // 2),))
    numbers = ConvolutionDimensions(0, 1, (2,), 1, 2, (0,), 0, 1, (2,))
    return small(b, b.convolution(x, kernel, numbers, rows))


def largest_place(b: Builder, source: random.Random, x: Op) -> Op | None:
    if not x.rank:
        return None
    types = (ElementType.F32, ElementType.S32)
    shapes = [array_shape(t, ()) for t in (*types, *types)]

    def better(x: Op, i: Op, y: Op, j: Op) -> Op:
        inner = x.builder
        before = inner.and_(inner.compare(x, y, "EQ"), inner.compare(i, j, "LT"))
        left = inner.or_(inner.compare(x, y, "GT"), before)
        return inner.tuple([inner.select(left, x, y), inner.select(left, i, j)])

    d = source.randrange(x.rank)
    places = b.iota(array_shape(ElementType.S32, x.dimensions), d)
    starts = [b.constant(-100.0), b.constant(0, ElementType.S32)]
    found = b.reduce([x, places], starts, b.sub_computation("better", shapes, better), [d])
    return small(b, b.convert(b.get_tuple_element(found, 1), ElementType.F32))


def masked(b: Builder, source: random.Random, x: Op) -> Op | None:
    if not x.rank:
        return None
    rows = b.iota(array_shape(ElementType.F32, x.dimensions), source.randrange(x.rank))
    return b.select(b.compare(rows, x, "LT"), x, b.opt_barrier(rows))


def bits(b: Builder, source: random.Random, x: Op) -> Op | None:
    if x.rank > 3:
        return None
    parts = b.bitcast_convert(x, ElementType.U8)
    return small(b, b.convert(parts, ElementType.F32))


def loop(b: Builder, source: random.Random, x: Op) -> Op | None:
    """Stack what a loop makes of an array, step by step."""
    steps = source.randrange(1, 4)
    if steps * x.instruction.shape.nbytes // 4 > MOST or x.rank > 3 or not x.rank:
        return None
    count = array_shape(ElementType.S32, ())
    stacked = array_shape(ElementType.F32, (steps, *x.dimensions))
    state = (count, x.instruction.shape, stacked)
    step = source.choice([reverse, masked, window])
    seed = source.randrange(1000)

    def body(i: Op, y: Op, out: Op) -> Op:
        inner = i.builder
        made = step(inner, random.Random(seed), y)
        if made is None or made.dimensions != y.dimensions:
            made = inner.negate(y)
        row = inner.reshape(made, (1, *y.dimensions))
        zero = inner.constant(0, ElementType.S32)
        out = inner.dynamic_update_slice(out, row, [i, *[zero] * y.rank])
        return inner.tuple([inner.add(i, inner.constant(1, ElementType.S32)), made, out])

    whole = tuple_shape(state)

    def unpacked(s: Op) -> Op:
        return body(*[s.builder.get_tuple_element(s, k) for k in range(3)])

    def goes_on(s: Op) -> Op:
        inner = s.builder
        return inner.compare(
            inner.get_tuple_element(s, 0), inner.constant(steps, ElementType.S32), "LT"
        )

    empty = b.broadcast(b.constant(0.0), stacked.dimensions, [])
    start = b.tuple([b.constant(0, ElementType.S32), x, empty])
    end = b.while_(
        b.sub_computation("goes_on", [whole], goes_on),
        b.sub_computation("step", [whole], unpacked),
        start,
    )
    return b.get_tuple_element(end, source.choice([1, 2]))


def accumulate(b: Builder, source: random.Random, x: Op) -> Op | None:
    """Add up, in a loop, sums of an array along one dimension."""
    if not x.rank:
        return None
    d = source.randrange(x.rank)
    steps = source.randrange(1, 4)
    kept = tuple([n for i, n in enumerate(x.dimensions) if i != d])
    sums = array_shape(ElementType.F32, kept)
    count = array_shape(ElementType.S32, ())
    state = tuple_shape([count, x.instruction.shape, sums])

    def step(s: Op) -> Op:
        inner = s.builder
        i, y, total = [inner.get_tuple_element(s, k) for k in range(3)]
        reducer = inner.scalar_computation(Opcode.ADD, ElementType.F32)
        more = inner.add(total, inner.reduce(y, inner.constant(1.0), reducer, [d]))
        after = inner.add(i, inner.constant(1, ElementType.S32))
        return inner.tuple([after, inner.negate(y), more])

    def goes_on(s: Op) -> Op:
        inner = s.builder
        last = inner.constant(steps, ElementType.S32)
        return inner.compare(inner.get_tuple_element(s, 0), last, "LT")

    start = b.broadcast(b.constant(source.choice([0.0, 3.0])), sums.dimensions, [])
    end = b.while_(
        b.sub_computation("goes_on", [state], goes_on),
        b.sub_computation("step", [state], step),
        b.tuple([b.constant(0, ElementType.S32), x, start]),
    )
    return small(b, b.get_tuple_element(end, 2))


def branch(b: Builder, source: random.Random, x: Op) -> Op | None:
    shape = x.instruction.shape
    yes = b.sub_computation("yes", [shape], lambda y: y.builder.negate(y))
    no = b.sub_computation("no", [shape], lambda y: y)
    zero = b.constant(0.0)
    total = b.reduce(x, zero, b.scalar_computation(Opcode.ADD, x.element_type))
    return b.conditional(b.compare(total, zero, "GT"), [x, x], [yes, no])


MAKERS: tuple[Maker, ...] = (
    *(sort, top_k, pad, reverse, strided, window, gather, scatter, convolve, largest_place),
    *(masked, bits, loop, accumulate, branch),
)
