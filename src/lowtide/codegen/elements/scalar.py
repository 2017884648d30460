"""Elements one by one: rules of all operations, plain loads and stores. For any target."""

from __future__ import annotations

from lowtide.codegen.arrays import Array
from lowtide.codegen.elements.elements import ElementMemory, Elements
from lowtide.codegen.elements.table import rule_of
from lowtide.codegen.elements.values import Mask
from lowtide.codegen.elementwise import memory
from lowtide.codegen.indexing import Affine
from lowtide.codegen.value import Value
from lowtide.llvm.function import Function
from lowtide.llvm.target import Target


class ScalarMemory(ElementMemory):
    """Loads and stores of single elements, where lanes do not differ."""

    def load(self, elements: Elements, array: Array, place: Affine, mask: Mask | None) -> Value:
        """Write the load of an element; where no lane wants it, of the first of the array."""
        fn = elements.function
        type_ = array.shape.element_type
        if mask is None:
            return memory.load(fn, elements.target, type_, elements.address(array, place), 0)
        wanted = mask.name
        if mask.lanes:
            bits = fn.op(f"bitcast <{mask.lanes} x i1> {mask.name} to i{mask.lanes}")
            wanted = fn.op(f"icmp ne i{mask.lanes} {bits}, 0")
        there = elements.address(array, place)
        pointer = fn.select(wanted, "ptr", there, array.pointer)
        return memory.load(fn, elements.target, type_, pointer, 0)

    def store(
        self, elements: Elements, array: Array, place: Affine, value: Value, mask: Mask | None
    ) -> None:
        """Write the store of an element, whatever the mask."""
        pointer = elements.address(array, place)
        memory.store(elements.function, elements.target, value, pointer, None)


def scalar_elements(function: Function, target: Target) -> Elements:
    """Return what writes elements one by one into a function."""
    return Elements(function, target, 0, rule_of, ScalarMemory())
