"""Lists of tensors of one shape as arrays: their first dimension counts the entries."""

from __future__ import annotations

import numpy as np

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.context import OpKernelContext, flag
from lowtide.frontend.graphs.expression import Expression
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared.arrays import padded
from lowtide.frontend.graphs.shared.indexing import put_vectors, take
from lowtide.frontend.graphs.shared.loops import part_at, with_part
from lowtide.frontend.tensorflow.graph_def import DOMAIN
from lowtide.frontend.tensorflow.open_lists import LENGTH, OpenList
from lowtide.ir.literal import DTYPES


def _sizes(context: OpKernelContext, number: int) -> tuple[int, ...] | None:
    """The sizes of entries in an input; None where one is open."""
    found = context.constant(number)
    sizes = tuple([int(x) for x in found.reshape(-1)])
    return None if min(sizes, default=0) < 0 or (found.ndim == 0 and sizes[0] < 0) else sizes


@op("TensorListReserve", domain=DOMAIN, inputs=2)
def reserve(context: OpKernelContext) -> None:
    """Give a list of zeros; what is stored in it tells the sizes that are open."""
    sizes, count = _sizes(context, 0), context.one_int(1)
    made = OpenList(context.element_type("element_dtype"), sizes, count or None)
    closed = made.filled(context.builder, sizes, count) if sizes is not None and count else made
    context.set_output(0, closed)


@op("EmptyTensorList", domain=DOMAIN, inputs=2)
def empty(context: OpKernelContext) -> None:
    """Give a list to which entries are added; a loop tells how many these are."""
    sizes, most = _sizes(context, 0), context.one_int(1)
    room = most if most > 0 else None
    made = OpenList(context.element_type("element_dtype"), sizes, room, grows=True)
    is_known = sizes is not None and room is not None
    context.set_output(
        0, made.filled(context.builder, sizes or (), room or 0) if is_known else made
    )


def _zero(b: Builder, like: Op) -> Op:
    return b.constant(np.zeros((), DTYPES[like.element_type]))


def _list(context: OpKernelContext) -> tuple[Op, Op | None]:
    """Return the entries of a list, and how many count where it grows."""
    b, x = context.builder, context.input(0)
    if not x.shape.is_tuple:
        return x, None
    return b.get_tuple_element(x, 0), b.get_tuple_element(x, 1)


@op("TensorListPushBack", domain=DOMAIN, inputs=2)
def push_back(context: OpKernelContext) -> None:
    """Give a list with an entry behind the last one."""
    b, item, given = context.builder, context.input(1), context.expression(0)
    if isinstance(given, OpenList):
        if given.room is None:
            context.set_output(0, given.stored(item, added=1))
            return
        given = Expression(given.filled(b, item.dimensions, given.room))
    pair = given.op(b)
    if not pair.shape.is_tuple:
        raise context.error("the list has all of its entries: nothing can be added")
    entries, count = b.get_tuple_element(pair, 0), b.get_tuple_element(pair, 1)
    context.set_output(0, b.tuple([with_part(b, entries, item, count), count + 1]))


@op("TensorListPopBack", domain=DOMAIN, inputs=(1, 2))
def pop_back(context: OpKernelContext) -> None:
    """Give a list without its last entry, and that entry."""
    b = context.builder
    entries, count = _list(context)
    if count is None:
        last = entries.dimensions[0] - 1
        if last < 0:
            raise context.error("the list is empty")
        context.set_output(0, b.slice(entries, [0] * entries.rank, [last, *entries.dimensions[1:]]))
        context.set_output(1, part_at(b, entries, b.constant(last, LENGTH)))
        return
    context.set_output(0, b.tuple([entries, count - 1]))
    context.set_output(1, part_at(b, entries, count - 1))


@op("TensorListFromTensor", domain=DOMAIN, inputs=2)
def from_tensor(context: OpKernelContext) -> None:
    """Give the entries along the first dimension as a list."""
    context.set_output(0, context.expression(0))


@op("TensorListStack", domain=DOMAIN, inputs=2)
def stack(context: OpKernelContext) -> None:
    """Give the entries along the first dimension of a tensor."""
    given = context.expression(0)
    if isinstance(given, OpenList) and given.room is None and not given.added:
        sizes = given.sizes if given.sizes is not None else _sizes(context, 1)
        if sizes is not None:
            context.set_output(0, np.zeros((0, *sizes), DTYPES[given.element_type]))
            return
    entries, count = _list(context)
    if count is not None:
        raise context.error("how many entries the list has depends on numbers")
    context.set_output(0, entries)


@op("TensorListLength", domain=DOMAIN, inputs=1)
def length(context: OpKernelContext) -> None:
    """Give how many entries a list has."""
    given = context.expression(0)
    if isinstance(given, OpenList):
        if given.room is None and (given.added or given.by_place):
            given.op(context.builder)
        context.set_output(0, np.array(0 if given.grows else given.room or 0, np.int32))
        return
    entries, count = _list(context)
    context.set_output(0, np.array(entries.dimensions[0], np.int32) if count is None else count)


@op("TensorListElementShape", domain=DOMAIN, inputs=1)
def element_shape(context: OpKernelContext) -> None:
    """Give the sizes of an entry."""
    entries, _ = _list(context)
    context.set_output(0, np.array(entries.dimensions[1:], np.int32))


def _place(context: OpKernelContext) -> Op:
    return context.builder.reshape(context.input(1), [])


@op("TensorListGetItem", domain=DOMAIN, inputs=(2, 3))
def get_item(context: OpKernelContext) -> None:
    """Give an entry."""
    context.set_output(0, part_at(context.builder, _list(context)[0], _place(context)))


@op("TensorListSetItem", domain=DOMAIN, inputs=3)
def set_item(context: OpKernelContext) -> None:
    """Give a list with another entry, which may stand behind the last one if the list may grow."""
    b, item, given = context.builder, context.input(2), context.expression(0)
    grows = context.attribute("resize_if_index_out_of_bounds", flag, False)
    place = context.known(1)
    if isinstance(given, OpenList):
        room = given.room
        if room is None and grows:
            if place is None:
                context.set_output(0, given.stored(item, by_place=True))
                return
            room = int(place.reshape(-1)[0]) + 1
        if room is None:
            raise context.error("the list has no entries")
        given = Expression(given.filled(b, item.dimensions, room))
    entries = given.op(b)
    if entries.shape.is_tuple:
        raise context.error("entries are added to the list, not stored at places")
    if grows and place is not None:
        entries = _widened(context, entries, int(place.reshape(-1)[0]) + 1)
    context.set_output(0, with_part(b, entries, item, _place(context)))


def _widened(context: OpKernelContext, entries: Op, room: int) -> Op:
    """Entries with zeros behind them where there is less than some room."""
    b, more = context.builder, room - entries.dimensions[0]
    if more <= 0:
        return entries
    zero = _zero(b, entries)
    return padded(b, entries, zero, [(0, more), *[(0, 0)] * (entries.rank - 1)])


@op("TensorListResize", domain=DOMAIN, inputs=2)
def resize(context: OpKernelContext) -> None:
    """Give a list of another number of entries, zeros where there are more."""
    b, room, given = context.builder, context.one_int(1), context.expression(0)
    if isinstance(given, OpenList):
        context.set_output(0, OpenList(given.element_type, given.sizes, room or None))
        return
    entries = b.slice(
        given.op(b),
        [0] * given.shape.rank,
        [min(room, given.shape.dimensions[0]), *given.shape.dimensions[1:]],
    )
    context.set_output(0, _widened(context, entries, room))


@op("TensorListGather", domain=DOMAIN, inputs=3)
def gather(context: OpKernelContext) -> None:
    """Give the entries at some places as one tensor."""
    context.set_output(0, take(context.builder, _list(context)[0], context.input(1), 0))


@op("TensorListScatter", "TensorListScatterV2", domain=DOMAIN, inputs=(3, 4))
def scatter(context: OpKernelContext) -> None:
    """Give a list whose entries at some places are those of a tensor."""
    b, items, places = context.builder, context.input(0), context.constant(1).reshape(-1)
    count = int(places.max()) + 1 if places.size else 0
    if context.input_count == 4:
        count = max(count, context.one_int(3))
    zeros = b.broadcast(_zero(b, items), [count, *items.dimensions[1:]], [])
    at = b.constant(places.reshape(-1, 1))
    context.set_output(0, put_vectors(b, zeros, at, items))


@op("TensorListConcat", "TensorListConcatV2", domain=DOMAIN, inputs=(1, 3))
def concat(context: OpKernelContext) -> None:
    """Give the entries one behind another, and the length of each of them."""
    b = context.builder
    entries, count = _list(context)
    if count is not None or entries.rank < 2:
        raise context.error("the entries of the list have no length that is known")
    total, each = entries.dimensions[:2]
    context.set_output(0, b.reshape(entries, [total * each, *entries.dimensions[2:]]))
    context.set_output(1, np.full(total, each, np.int64))


@op("TensorListSplit", domain=DOMAIN, inputs=3)
def split(context: OpKernelContext) -> None:
    """Give parts of equal lengths of a tensor as a list."""
    b, x, lengths = context.builder, context.input(0), context.ints(2)
    if not lengths or len(set(lengths)) > 1 or sum(lengths) != x.dimensions[0]:
        raise context.error(f"a list of parts of the lengths {lengths}: they have to be equal")
    context.set_output(0, b.reshape(x, [len(lengths), lengths[0], *x.dimensions[1:]]))
