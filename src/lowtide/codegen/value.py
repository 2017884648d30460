"""Values in registers while a kernel is written, and the LLVM types of elements."""

from __future__ import annotations

from typing import Final

from lowtide.ir.element_type import ElementType
from lowtide.records import dataclass

_REGISTER: Final[dict[ElementType, str]] = {
    ElementType.PRED: "i1",
    ElementType.F32: "float",
    ElementType.F64: "double",
    ElementType.C64: "float",
    ElementType.C128: "double",
}

_MEMORY: Final[dict[ElementType, str]] = {
    ElementType.PRED: "i8",
    ElementType.F16: "half",
    ElementType.F32: "float",
    ElementType.F64: "double",
    ElementType.C64: "float",
    ElementType.C128: "double",
}


def register_type(type_: ElementType) -> str:
    """Return the LLVM type in which an element is computed with.

    `pred` is i1. Integers have their own width, at least 8 bits; narrower ones are kept extended
    by sign or by zeros. Floating point types narrower than f32 are float, and each operation rounds
    its result to the type. A complex element is two values of this type.
    """
    found = _REGISTER.get(type_)
    if found is not None:
        return found
    return "float" if type_.is_floating else f"i{max(8, type_.bits)}"


def register_bytes(type_: ElementType) -> int:
    """Return the bytes of an element in a register, of each part of a complex one."""
    kind = register_type(type_)
    return {"i1": 1, "float": 4, "double": 8}.get(kind) or int(kind[1:]) // 8


def memory_type(type_: ElementType) -> str:
    """Return the LLVM type of an element in memory; of a complex one, that of each part.

    An element narrower than a byte takes one byte. bf16 and narrower floating point types are
    integers there.
    """
    return _MEMORY.get(type_, f"i{max(8, type_.bits)}")


@dataclass(frozen=True, slots=True)
class Value:
    """One element, or a vector of `lanes` elements, of a type; `lanes` is 0 for a single one.

    `names` are LLVM values of the register type: one, or the real and the imaginary parts.
    """

    names: tuple[str, ...]
    type: ElementType
    lanes: int = 0

    @property
    def name(self) -> str:
        """The LLVM value of an element that is not complex."""
        (name,) = self.names
        return name

    @property
    def llvm_type(self) -> str:
        """The LLVM type of each of `names`."""
        return vector_type(register_type(self.type), self.lanes)


def vector_type(element: str, lanes: int) -> str:
    """Return the LLVM type of a vector, or the element itself for no lanes."""
    return f"<{lanes} x {element}>" if lanes else element
