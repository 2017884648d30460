"""Constants within kernels: numbers in the code, and small arrays beside it."""

from __future__ import annotations

import hashlib
import struct
from typing import Any

import numpy as np

from lowtide.codegen.arrays import Array
from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elements.values import Element, Request
from lowtide.codegen.value import Value, register_type
from lowtide.ir import ElementType
from lowtide.ir.attributes import Constant
from lowtide.ir.literal import DTYPES
from lowtide.ir.literal import Array as NumpyArray


def literal_element(elements: Elements, request: Request) -> Element:
    """Return the element of a constant at an index."""
    shape = request.instruction.shape
    array = request.instruction.attributes_as(Constant).literal.array
    raw = elements.raw.get(shape.element_type)
    if raw is not None:
        shape, array = shape.with_element_type(raw), array.view(DTYPES[raw])
    if array.size and (array.size == 1 or _is_uniform(array)):
        return Element((scalar(array.flat[0], shape.element_type),), 0)
    pointer = global_array(elements, array.transpose(shape.physical_order))
    return elements.read(Array(pointer, shape), request.at, request.mask)


def _is_uniform(array: NumpyArray) -> bool:
    raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8).reshape(array.size, -1)
    return bool((raw == raw[0]).all())


def global_array(elements: Elements, array: NumpyArray) -> str:
    """Return the name of a constant array of the module, with the bytes of a row-major array."""
    data = np.ascontiguousarray(array).tobytes()
    name = f"@constant.{hashlib.sha256(data).hexdigest()[:12]}"
    text = "".join([f"\\{byte:02X}" for byte in data])
    elements.globals[name] = f'{name} = private constant [{len(data)} x i8] c"{text}", align 64'
    return name


def scalar(number: Any, type_: ElementType) -> Value:
    """Return a number as a value that is written into the code."""
    if type_.is_complex:
        part = ElementType.F32 if type_ is ElementType.C64 else ElementType.F64
        return Value((float_text(number.real, part), float_text(number.imag, part)), type_)
    if type_.is_floating:
        return Value((float_text(number, type_),), type_)
    if type_ is ElementType.PRED:
        return Value(("true" if number else "false",), type_)
    return Value((str(int(number)),), type_)


def float_text(number: Any, type_: ElementType) -> str:
    """Return how LLVM writes a number in the register type of a floating point type.

    A float is written as the bits of the double that equals it.
    """
    if register_type(type_) == "double":
        return f"0x{struct.unpack('<Q', struct.pack('<d', float(number)))[0]:016X}"
    single = np.asarray(number).astype(np.float32)
    if np.isnan(single):
        bits = int(single.view(np.uint32))
        wide = (bits >> 31) << 63 | 0x7FF << 52 | (bits & 0x7FFFFF) << 29
        return f"0x{wide:016X}"
    return f"0x{struct.unpack('<Q', struct.pack('<d', float(single)))[0]:016X}"
