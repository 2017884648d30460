"""Arrays in the scratch of a thread."""

from __future__ import annotations

from typing import final

from lowtide.codegen.kernel import rounded
from lowtide.codegen.value import memory_type, register_bytes
from lowtide.ir import ElementType
from lowtide.llvm.function import Function, Integer
from lowtide.records import dataclass


def stored_bytes(type_: ElementType) -> int:
    """Return the bytes of a total in scratch."""
    return register_bytes(type_) * (2 if type_.is_complex else 1)


@dataclass(eq=False, slots=True)
class ScratchArray:
    """An array of elements of a type; `pointer` is known once scratch is bound."""

    type: ElementType
    first: int
    pointer: str = ""

    def address(self, fn: Function, index: Integer) -> str:
        """Return the address of an element."""
        element = memory_type(self.type)
        if self.type.is_complex:
            element = f"{{ {element}, {element} }}"
        return fn.gep(self.pointer, index, element)


@final
class ThreadScratch:
    """What a thread has for itself."""

    def __init__(self) -> None:
        self.nbytes = 0
        self.fields: list[ScratchArray] = []

    def add(self, type_: ElementType, count: int) -> ScratchArray:
        """Return a new array, at a multiple of 64 bytes."""
        field = ScratchArray(type_, self.nbytes)
        self.nbytes += rounded(count * stored_bytes(type_))
        self.fields.append(field)
        return field

    def bind(self, fn: Function, shared_bytes: int) -> None:
        """Write where the arrays of this thread lie, behind what threads share."""
        if not self.nbytes:
            return
        mine = fn.add(fn.mul("%thread", self.nbytes), shared_bytes)
        base = fn.gep("%scratch", mine)
        for field in self.fields:
            field.pointer = fn.gep(base, field.first)
