"""TensorFlow's numbers of data types."""

from __future__ import annotations

from typing import Final

from lowtide.frontend.graphs.dtypes import TENSORFLOW
from lowtide.ir.element_type import ElementType

_NAMES: Final = {
    1: "float",
    2: "double",
    3: "int32",
    4: "uint8",
    5: "int16",
    6: "int8",
    7: "string",
    8: "complex64",
    9: "int64",
    10: "bool",
    11: "qint8",
    12: "quint8",
    13: "qint32",
    14: "bfloat16",
    15: "qint16",
    16: "quint16",
    17: "uint16",
    18: "complex128",
    19: "half",
    20: "resource",
    21: "variant",
    22: "uint32",
    23: "uint64",
    24: "float8_e5m2",
    25: "float8_e4m3fn",
    29: "int4",
    30: "uint4",
}
_REFERENCES: Final = 100
"""What is added to the number of a type where a value is a reference to a variable."""


def type_of(number: int) -> ElementType | str:
    """Return the element type of a number, or a name for what is no type of numbers."""
    name = _NAMES.get(number % _REFERENCES, f"type {number}")
    return TENSORFLOW.get(name, name)
