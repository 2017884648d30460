"""Elements that lie a few apart: whole vectors are loaded or stored, and shuffled.

What lies between the wanted elements is loaded with them. No byte outside of an array is touched: a
last vector that would reach further is loaded so that it ends with the last wanted element.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lowtide.codegen.arrays import Array, element_address
from lowtide.codegen.cpu.shuffles import interleaved, picked
from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elements.lanes import first_lanes
from lowtide.codegen.elements.values import Mask
from lowtide.codegen.elementwise import memory
from lowtide.codegen.indexing import Affine
from lowtide.codegen.value import Value
from lowtide.ir import ElementType
from lowtide.llvm.function import Function, Integer

FARTHEST: Final = 12
"""The most elements from one lane to the next for which vectors are loaded whole."""


def strided(elements: Elements, array: Array, place: Affine, mask: Mask | None) -> Value | None:
    """Return a vector of elements 1 .. 12 apart in either direction; None for any others.

    A mask has to hold for the first lanes, and is ignored otherwise: None is returned.
    """
    step = place.lane_step
    lanes = elements.lanes
    count = lanes if mask is None else mask.count
    if step is None or not 1 <= abs(step) <= FARTHEST or not count:
        return None
    size = abs(step)
    first = place if step > 0 else place + step * (count - 1)
    is_whole = all(x % size == 0 for _, x in first.terms)
    before = first.constant % size if is_whole else 0
    last = before + size * (count - 1)
    is_inside = place.high - before + size <= array.shape.element_count
    ending = last - before + size if is_inside else last + 1
    base = first + -before
    vectors: tuple[Value, ...] = elements.scopes.once(
        ("block", array, base, ending), base.level, lambda: _block(elements, array, base, ending)
    )
    order = [before + size * lane if lane < count else -1 for lane in range(lanes)]
    if step < 0:
        order = [*order[count - 1 :: -1], *order[count:]]
    return _picked(elements, array.shape.element_type, vectors, _moved(order, ending, lanes))


def _block(elements: Elements, array: Array, base: Affine, ending: int) -> tuple[Value, ...]:
    """The vectors of `ending` elements; the last one is whole if there are enough before it."""
    lanes = elements.lanes
    start = elements.indices.scalar(base)
    found = []
    for at in range(0, ending, lanes):
        begin = min(at, max(ending - lanes, 0))
        found.append(_piece(elements, array, elements.function.add(start, begin), ending))
    return tuple(found)


def _piece(elements: Elements, array: Array, start: Integer, ending: int) -> Value:
    """A vector from memory, of which only the first `ending` elements are touched."""
    fn, lanes = elements.function, elements.lanes
    type_ = array.shape.element_type
    pointer = element_address(fn, array, start)
    given = ElementType.U8 if type_ is ElementType.PRED else type_
    mask = first_lanes(ending, lanes) if ending < lanes else None
    return memory.load(fn, elements.target, given, pointer, lanes, mask)


def _moved(order: Sequence[int], ending: int, lanes: int) -> list[int]:
    """Where elements are in vectors of which the last one may begin earlier."""
    rest = ending % lanes
    shift = lanes - rest if rest and ending > lanes else 0
    return [x + shift if x >= ending - rest and shift else x for x in order]


def _picked(
    elements: Elements, type_: ElementType, vectors: Sequence[Value], order: Sequence[int]
) -> Value:
    fn, lanes = elements.function, elements.lanes
    kind = vectors[0].llvm_type
    planes = zip(*[x.names for x in vectors], strict=True)
    names = tuple([picked(fn, kind, lanes, plane, order) for plane in planes])
    if type_ is not ElementType.PRED:
        return Value(names, type_, lanes)
    return Value((fn.op(f"icmp ne {kind} {names[0]}, zeroinitializer"),), type_, lanes)


# -- stores ------------------------------------------------------------------------------------


def store_in_turn(
    elements: Elements,
    array: Array,
    places: Sequence[Affine],
    values: Sequence[Value],
    mask: Mask | None,
    *,
    streaming: bool,
) -> bool:
    """Store the values at several places if in memory these follow each other in each lane.

    Returns whether that is so. The mask has to hold for the first lanes. With `streaming` vectors
    go past the caches where addresses allow it.
    """
    count = elements.lanes if mask is None else mask.count
    first = places[0]
    in_turn = all(x.terms == first.terms for x in places)
    in_turn = in_turn and [x.constant - first.constant for x in places] == [*range(len(places))]
    if not count or not in_turn or len(places) < 2 or first.lane_step != len(places):
        return False
    level = elements.scopes.level
    vectors = [x if x.lanes else elements.vectors.splat(x, level) for x in values]
    streamed = streaming and count == elements.lanes and is_aligned(vectors[0], first)
    _store_in_turn(elements, array, first, vectors, count, streamed=streamed)
    return True


def _store_in_turn(
    elements: Elements,
    array: Array,
    place: Affine,
    values: Sequence[Value],
    count: int,
    *,
    streamed: bool,
) -> None:
    """Store the first `count` lanes of vectors: all of lane 0, all of lane 1, and so on."""
    fn, lanes = elements.function, elements.lanes
    start = elements.indices.scalar(place)
    if values[0].type is ElementType.PRED:
        values = [_as_bytes(fn, x) for x in values]
    kind, given = values[0].llvm_type, values[0].type
    planes = [
        interleaved(fn, kind, lanes, plane)
        for plane in zip(*[x.names for x in values], strict=True)
    ]
    total = count * len(values)
    for number, names in enumerate(zip(*planes, strict=True)):
        left = total - number * lanes
        if left <= 0:
            return
        pointer = element_address(fn, array, fn.add(start, number * lanes))
        mask = first_lanes(left, lanes) if left < lanes else None
        vector = Value(names, given, lanes)
        memory.store(fn, elements.target, vector, pointer, mask, streamed=streamed)


def is_aligned(vector: Value, place: Affine) -> bool:
    """Whether whole vectors of an array are stored at multiples of their bytes.

    The array begins at such an address, and lanes begin at multiples of their number.
    """
    steps = [x for v, x in place.terms if not v.is_lane]
    return all(x % vector.lanes == 0 for x in (place.constant, *steps))


def _as_bytes(fn: Function, value: Value) -> Value:
    name = fn.op(f"zext {value.llvm_type} {value.name} to <{value.lanes} x i8>")
    return Value((name,), ElementType.U8, value.lanes)
