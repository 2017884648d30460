"""Element types: the primitive types of XLA, their sizes and their protobuf numbers."""

from enum import StrEnum
from typing import Final


class ElementType(StrEnum):
    """One member per primitive type; the value is its spelling in HLO text."""

    PRED = "pred"
    S1 = "s1"
    S2 = "s2"
    S4 = "s4"
    S8 = "s8"
    S16 = "s16"
    S32 = "s32"
    S64 = "s64"
    U1 = "u1"
    U2 = "u2"
    U4 = "u4"
    U8 = "u8"
    U16 = "u16"
    U32 = "u32"
    U64 = "u64"
    F16 = "f16"
    F32 = "f32"
    F64 = "f64"
    BF16 = "bf16"
    F8E5M2 = "f8e5m2"
    F8E4M3 = "f8e4m3"
    F8E4M3FN = "f8e4m3fn"
    F8E4M3B11FNUZ = "f8e4m3b11fnuz"
    F8E3M4 = "f8e3m4"
    F8E5M2FNUZ = "f8e5m2fnuz"
    F8E4M3FNUZ = "f8e4m3fnuz"
    F8E8M0FNU = "f8e8m0fnu"
    F4E2M1FN = "f4e2m1fn"
    F6E3M2FN = "f6e3m2fn"
    F6E2M3FN = "f6e2m3fn"
    C64 = "c64"
    C128 = "c128"
    TUPLE = "tuple"
    OPAQUE = "opaque"
    TOKEN = "token"
    BUFFER = "buffer"

    @property
    def number(self) -> int:
        """The value of the protobuf enum `PrimitiveType`."""
        return NUMBERS[self]

    @property
    def bits(self) -> int:
        """Bits of one element, before padding to bytes; 0 for types without elements."""
        return BITS.get(self, 0)

    @property
    def nbytes(self) -> int:
        """Bytes that one element takes in an unpacked array; 0 for types without elements."""
        return (self.bits + 7) // 8

    @property
    def is_array(self) -> bool:
        """Whether arrays of this type exist (not tuple, token, opaque or buffer)."""
        return self in BITS

    @property
    def is_floating(self) -> bool:
        """Whether the type is a real floating point type."""
        return self in FLOATING

    @property
    def is_complex(self) -> bool:
        """Whether the type is `c64` or `c128`."""
        return self in COMPLEX

    @property
    def part(self) -> "ElementType":
        """The type of the real and imaginary part; the type itself where it is not complex."""
        return _PARTS.get(self, self)

    @property
    def is_signed(self) -> bool:
        """Whether the type is a signed integer."""
        return self in SIGNED

    @property
    def is_unsigned(self) -> bool:
        """Whether the type is an unsigned integer."""
        return self in UNSIGNED

    @property
    def is_integer(self) -> bool:
        """Whether the type is an integer; `pred` is not."""
        return self in SIGNED or self in UNSIGNED

    @property
    def bounds(self) -> tuple[int, int]:
        """The least and the greatest value of an integer type, or of `pred`."""
        if self in SIGNED:
            return -(1 << self.bits - 1), (1 << self.bits - 1) - 1
        return 0, 1 if self is ElementType.PRED else (1 << self.bits) - 1


SIGNED: Final = frozenset(
    {
        ElementType.S1,
        ElementType.S2,
        ElementType.S4,
        ElementType.S8,
        ElementType.S16,
        ElementType.S32,
        ElementType.S64,
    }
)
UNSIGNED: Final = frozenset(
    {
        ElementType.U1,
        ElementType.U2,
        ElementType.U4,
        ElementType.U8,
        ElementType.U16,
        ElementType.U32,
        ElementType.U64,
    }
)
_PARTS: Final = {ElementType.C64: ElementType.F32, ElementType.C128: ElementType.F64}
COMPLEX: Final = frozenset(_PARTS)
FLOATING: Final = frozenset(
    {
        ElementType.F16,
        ElementType.F32,
        ElementType.F64,
        ElementType.BF16,
        ElementType.F8E5M2,
        ElementType.F8E4M3,
        ElementType.F8E4M3FN,
        ElementType.F8E4M3B11FNUZ,
        ElementType.F8E3M4,
        ElementType.F8E5M2FNUZ,
        ElementType.F8E4M3FNUZ,
        ElementType.F8E8M0FNU,
        ElementType.F4E2M1FN,
        ElementType.F6E3M2FN,
        ElementType.F6E2M3FN,
    }
)

BITS: Final[dict[ElementType, int]] = {
    ElementType.PRED: 8,
    ElementType.S1: 1,
    ElementType.S2: 2,
    ElementType.S4: 4,
    ElementType.S8: 8,
    ElementType.S16: 16,
    ElementType.S32: 32,
    ElementType.S64: 64,
    ElementType.U1: 1,
    ElementType.U2: 2,
    ElementType.U4: 4,
    ElementType.U8: 8,
    ElementType.U16: 16,
    ElementType.U32: 32,
    ElementType.U64: 64,
    ElementType.F16: 16,
    ElementType.F32: 32,
    ElementType.F64: 64,
    ElementType.BF16: 16,
    ElementType.F8E5M2: 8,
    ElementType.F8E4M3: 8,
    ElementType.F8E4M3FN: 8,
    ElementType.F8E4M3B11FNUZ: 8,
    ElementType.F8E3M4: 8,
    ElementType.F8E5M2FNUZ: 8,
    ElementType.F8E4M3FNUZ: 8,
    ElementType.F8E8M0FNU: 8,
    ElementType.F4E2M1FN: 4,
    ElementType.F6E3M2FN: 6,
    ElementType.F6E2M3FN: 6,
    ElementType.C64: 64,
    ElementType.C128: 128,
}
"""Bits of one element of each array type."""

NUMBERS: Final[dict[ElementType, int]] = {
    ElementType.PRED: 1,
    ElementType.S8: 2,
    ElementType.S16: 3,
    ElementType.S32: 4,
    ElementType.S64: 5,
    ElementType.U8: 6,
    ElementType.U16: 7,
    ElementType.U32: 8,
    ElementType.U64: 9,
    ElementType.F16: 10,
    ElementType.F32: 11,
    ElementType.F64: 12,
    ElementType.TUPLE: 13,
    ElementType.OPAQUE: 14,
    ElementType.C64: 15,
    ElementType.BF16: 16,
    ElementType.TOKEN: 17,
    ElementType.C128: 18,
    ElementType.F8E5M2: 19,
    ElementType.F8E4M3FN: 20,
    ElementType.S4: 21,
    ElementType.U4: 22,
    ElementType.F8E4M3B11FNUZ: 23,
    ElementType.F8E5M2FNUZ: 24,
    ElementType.F8E4M3FNUZ: 25,
    ElementType.S2: 26,
    ElementType.U2: 27,
    ElementType.F8E4M3: 28,
    ElementType.F8E3M4: 29,
    ElementType.S1: 30,
    ElementType.U1: 31,
    ElementType.F4E2M1FN: 32,
    ElementType.F8E8M0FNU: 33,
    ElementType.BUFFER: 34,
    ElementType.F6E3M2FN: 35,
    ElementType.F6E2M3FN: 36,
}
"""The protobuf enum `PrimitiveType`; 0 is the invalid type."""

BY_NUMBER: Final = {number: element_type for element_type, number in NUMBERS.items()}
BY_KEYWORD: Final = {element_type.value: element_type for element_type in ElementType}
