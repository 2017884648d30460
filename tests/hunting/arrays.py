"""Arrays of a drawn module, and what their element types can do."""

from __future__ import annotations

from math import prod
from typing import Final

from lowtide.ir.element_type import ElementType
from lowtide.records import dataclass

E = ElementType

INTEGERS: Final = (
    "s32", "u8", "s8", "s64", "u32", "u16", "s16", "u64", "s4", "u4", "s2", "u2",
)  # fmt: skip
WIDE_FLOATS: Final = ("f32", "f64")
FLOATS: Final = ("f32", "bf16", "f64", "f16")
F8: Final = (
    "f8e5m2", "f8e4m3fn", "f8e4m3", "f8e4m3b11fnuz", "f8e5m2fnuz", "f8e4m3fnuz", "f8e3m4",
)  # fmt: skip
COMPLEX: Final = ("c64", "c128")
TYPES: Final = (*FLOATS, *INTEGERS, "pred", *COMPLEX, *F8)
"""The element types that are drawn, as HLO spells them."""

PLAIN: Final = ("f32", "s32", "bf16", "f64", "f16", "u8", "s8", "s64", "u32", "c64", "pred")
"""Those that most programs have."""


@dataclass(frozen=True, slots=True)
class DrawnArray:
    """An array: its name, element type, sizes, and its dimensions from minor to major.

    `noise` counts the operations behind it whose results may differ by a rounding between two
    right implementations; 0 means that every bit is determined.
    """

    name: str
    type: str
    sizes: tuple[int, ...]
    layout: tuple[int, ...]
    noise: int = 0

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.sizes)

    @property
    def count(self) -> int:
        """The number of elements."""
        return prod(self.sizes)

    @property
    def shape(self) -> str:
        """The shape with its layout, as HLO spells it."""
        return shape_text(self.type, self.sizes, self.layout)


def shape_text(type_: str, sizes: tuple[int, ...], layout: tuple[int, ...]) -> str:
    """Return a shape as HLO spells it."""
    return f"{type_}[{','.join(map(str, sizes))}]{{{','.join(map(str, layout))}}}"


def row_major(rank: int) -> tuple[int, ...]:
    """Return the dimensions from minor to major as C orders them."""
    return tuple(range(rank - 1, -1, -1))


def braced(numbers: tuple[int, ...] | list[int]) -> str:
    """Return numbers as HLO lists them."""
    return f"{{{','.join(map(str, numbers))}}}"


def zero(type_: str) -> str:
    """Return the literal 0 of an element type."""
    if type_ == "pred":
        return "false"
    return "(0, 0)" if type_ in COMPLEX else "0"


def one(type_: str) -> str:
    """Return the literal 1 of an element type."""
    if type_ == "pred":
        return "true"
    return "(1, 0)" if type_ in COMPLEX else "1"


def is_float(type_: str) -> bool:
    """Whether an element type is a real number with a floating point."""
    return type_ in FLOATS or type_ in F8


def element_type(type_: str) -> ElementType:
    """Return the element type of a name."""
    return E(type_)
