"""Elements of some lanes in each thread: accesses of up to 16 bytes where they are aligned."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import Final

from lowtide.codegen.arrays import Array, element_address
from lowtide.codegen.elements.elements import ElementMemory, Elements, RuleOf
from lowtide.codegen.elements.scalar import ScalarMemory
from lowtide.codegen.elements.table import rule_of
from lowtide.codegen.elements.values import Mask
from lowtide.codegen.elementwise import memory
from lowtide.codegen.indexing import Affine
from lowtide.codegen.value import Value, register_type
from lowtide.llvm.function import Function
from lowtide.llvm.target import Target

_BYTES: Final = 16
"""What a thread moves at once, at most."""


class ThreadMemory(ElementMemory):
    """Loads and stores of the lanes of a thread, as many at once as lie side by side.

    Lane variables are multiples of the number of lanes, and arrays lie at multiples of 16 bytes if
    their own size is one.
    """

    def __init__(self) -> None:
        self.single = ScalarMemory()
        self.apart = 0
        """Loads of lanes that are written as several."""

    def load(self, elements: Elements, array: Array, place: Affine, mask: Mask | None) -> Value:
        """Write the load of an element, or of one for each lane."""
        if not place.varies:
            return self.single.load(elements, array, place, mask)
        fn, lanes, type_ = elements.function, elements.lanes, array.shape.element_type
        run = _run(array, place, lanes)
        if run == 1 or (mask is not None and mask.lanes):
            return self._one_by_one(elements, array, place, mask)
        self.apart += run < lanes
        nbytes, parts = memory.element_bytes(type_), []
        for first in range(0, lanes, run):
            pointer = elements.address(array, place + first)
            if mask is not None:
                pointer = fn.select(mask.name, "ptr", pointer, array.pointer)
            parts.append(fn.load(f"<{run} x i{8 * nbytes}>", pointer, run * nbytes))
        name = _joined(fn, parts, f"i{8 * nbytes}", run)
        return memory.loaded(fn, elements.target, type_, name, lanes)

    def _one_by_one(
        self, elements: Elements, array: Array, place: Affine, mask: Mask | None
    ) -> Value:
        """A load for each lane; one that is not wanted loads the first of the array."""
        self.apart += 1
        fn, lanes, type_ = elements.function, elements.lanes, array.shape.element_type
        wanted = None if mask is None else elements.vectors.mask_lanes(mask, lanes)
        names = ["poison"] * (2 if type_.is_complex else 1)
        element = register_type(type_)
        for lane, pointer in enumerate(_lane_addresses(elements, array, place)):
            if wanted is not None:
                test = fn.op(f"extractelement <{lanes} x i1> {wanted}, i64 {lane}")
                pointer = fn.select(test, "ptr", pointer, array.pointer)
            one = memory.load(fn, elements.target, type_, pointer, 0)
            names = [
                fn.op(f"insertelement <{lanes} x {element}> {a}, {element} {b}, i64 {lane}")
                for a, b in zip(names, one.names, strict=True)
            ]
        return Value(tuple(names), type_, lanes)

    def store(
        self, elements: Elements, array: Array, place: Affine, value: Value, mask: Mask | None
    ) -> None:
        """Write the store of an element, or of one for each lane that a mask does not leave out."""
        if not place.varies:
            self.single.store(elements, array, place, value, mask)
            return
        fn, lanes, target = elements.function, elements.lanes, elements.target
        vector = value if value.lanes else elements.vectors.splat(value)
        run = _run(array, place, lanes)
        if mask is None and run > 1:
            nbytes = run * memory.element_bytes(value.type)
            for first in range(0, lanes, run):
                pointer = elements.address(array, place + first)
                memory.store(fn, target, _part(fn, vector, first, run), pointer, align=nbytes)
            return
        wanted = None if mask is None else elements.vectors.mask_lanes(mask, lanes)
        for lane, pointer in enumerate(_lane_addresses(elements, array, place)):
            names = [
                fn.op(f"extractelement {vector.llvm_type} {x}, i64 {lane}") for x in vector.names
            ]
            one = Value(tuple(names), value.type)
            if wanted is None:
                memory.store(fn, target, one, pointer)
                continue
            with fn.when(fn.op(f"extractelement <{lanes} x i1> {wanted}, i64 {lane}")):
                memory.store(fn, target, one, pointer)


def thread_elements(
    function: Function, target: Target, lanes: int, rules: RuleOf = rule_of
) -> Elements:
    """Return what writes elements into a function, so many lanes in each thread; 0 for one."""
    memory = ThreadMemory() if lanes else ScalarMemory()
    elements = Elements(function, target, lanes, rules, memory)
    elements.has_aligned_lanes = lanes > 0
    return elements


def elements_by(function: Function, target: Target, lanes: int, memory: ThreadMemory) -> Elements:
    """Return what writes elements of so many lanes into a function by a memory that is kept."""
    return Elements(function, target, lanes, rule_of, memory)


def _run(array: Array, place: Affine, lanes: int) -> int:
    """How many lanes lie side by side from a multiple of their bytes on, wherever they begin.

    A power of two, up to 16 bytes; 1 for none.
    """
    type_ = array.shape.element_type
    if place.lane_step != 1 or type_.is_complex:
        return 1
    steps = [x for variable, x in place.terms if not variable.is_lane]
    most = _BYTES // memory.element_bytes(type_)
    return gcd(lanes, most, array.shape.element_count, place.constant, *steps)


def _joined(fn: Function, parts: Sequence[str], element: str, run: int) -> str:
    """The vectors of `run` elements as one."""
    names, length = list(parts), run
    while len(names) > 1:
        type_ = f"<{length} x {element}>"
        names = [
            fn.shuffle(type_, a, b, range(2 * length))
            for a, b in zip(names[::2], names[1::2], strict=True)
        ]
        length *= 2
    return names[0]


def _part(fn: Function, vector: Value, first: int, run: int) -> Value:
    """Some lanes of a vector."""
    if run == vector.lanes:
        return vector
    lanes = range(first, first + run)
    names = [fn.shuffle(vector.llvm_type, x, "poison", lanes) for x in vector.names]
    return Value(tuple(names), vector.type, run)


def _lane_addresses(elements: Elements, array: Array, place: Affine) -> list[str]:
    fn, lanes = elements.function, elements.lanes
    if place.lane_step is not None:
        first = elements.indices.scalar(place)
        places = [fn.add(first, lane * place.lane_step) for lane in range(lanes)]
        return [element_address(fn, array, x) for x in places]
    numbers = elements.indices.vector(place)
    found = []
    for lane in range(lanes):
        number = fn.op(f"extractelement <{lanes} x i64> {numbers}, i64 {lane}")
        found.append(element_address(fn, array, number))
    return found
