"""Elements of some lanes in each thread: accesses of 16 bytes where they are aligned."""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.codegen.arrays import Array, element_address
from lowtide.codegen.elements.elements import Elements, RuleOf
from lowtide.codegen.elements.scalar import ScalarMemory
from lowtide.codegen.elements.table import rule_of
from lowtide.codegen.elements.values import Mask
from lowtide.codegen.elementwise import memory
from lowtide.codegen.indexing import Affine
from lowtide.codegen.value import Value, register_type
from lowtide.llvm.function import Function
from lowtide.llvm.target import Target


class ThreadMemory:
    """Loads and stores of the lanes of a thread: as one where they are aligned, else one by one.

    Lane variables are multiples of the number of lanes, and arrays lie at multiples of 16 bytes if
    their own size is one.
    """

    def __init__(self) -> None:
        self.single = ScalarMemory()
        self.apart = 0
        """Loads of lanes that are written one by one."""

    def load(self, elements: Elements, array: Array, place: Affine, mask: Mask | None) -> Value:
        """Write the load of an element, or of one for each lane."""
        if not place.varies:
            return self.single.load(elements, array, place, mask)
        lanes, type_ = elements.lanes, array.shape.element_type
        if (mask is None or not mask.lanes) and _is_aligned(array, place, lanes):
            pointer = elements.address(array, place)
            if mask is not None:
                pointer = elements.function.select(mask.name, "ptr", pointer, array.pointer)
            nbytes = memory.element_bytes(type_)
            raw = f"<{lanes} x i{8 * nbytes}>"
            name = elements.function.load(raw, pointer, lanes * nbytes)
            return memory.loaded(elements.function, elements.target, type_, name, lanes)
        return self._one_by_one(elements, array, place, mask)

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
        whole = mask is None and not value.type.is_complex
        if whole and _is_aligned(array, place, lanes):
            nbytes = lanes * memory.element_bytes(value.type)
            pointer = elements.address(array, place)
            memory.store(fn, target, vector, pointer, align=nbytes)
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

    def store_in_turn(
        self,
        elements: Elements,
        array: Array,
        places: Sequence[Affine],
        values: Sequence[Value],
        mask: Mask | None,
    ) -> bool:
        """Store nothing."""
        return False


def thread_elements(
    function: Function, target: Target, lanes: int, rules: RuleOf = rule_of
) -> Elements:
    """Return what writes elements into a function, so many lanes in each thread; 0 for one."""
    return Elements(function, target, lanes, rules, ThreadMemory() if lanes else ScalarMemory())


def elements_by(function: Function, target: Target, lanes: int, memory: ThreadMemory) -> Elements:
    """Return what writes elements of so many lanes into a function by a memory that is kept."""
    return Elements(function, target, lanes, rule_of, memory)


def _is_aligned(array: Array, place: Affine, lanes: int) -> bool:
    """Whether the lanes lie side by side from a multiple of their bytes on."""
    if place.lane_step != 1 or array.shape.element_type.is_complex:
        return False
    if lanes * memory.element_bytes(array.shape.element_type) > 16:
        return False
    if array.shape.element_count % lanes:
        return False
    steps = [x for variable, x in place.terms if not variable.is_lane]
    return all(x % lanes == 0 for x in (place.constant, *steps))


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
