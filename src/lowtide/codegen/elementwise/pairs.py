"""Elements of bf16 two at a time: vectors of them whose even elements come before the odd ones.

A word of memory holds two elements. The upper one is a float as it stands there, but for bits that
are cleared, the lower one is shifted; so two vectors of floats take one load and two instructions,
where their lanes in order take an instruction to spread the elements of each besides. What is
computed lane by lane is stored in the same way.
"""

from __future__ import annotations

from lowtide.codegen.elementwise.formats import UPPER
from lowtide.codegen.elementwise.memory import stream
from lowtide.codegen.elementwise.number import Number
from lowtide.codegen.value import Value
from lowtide.ir.element_type import ElementType
from lowtide.llvm.function import Function
from lowtide.llvm.target import Target

_ALIGN = ElementType.BF16.nbytes


def load_pairs(fn: Function, target: Target, pointer: str, lanes: int) -> Value:
    """Return `lanes` elements from an address on: the even ones, then the odd ones."""
    half = lanes // 2
    words = Number(fn, target, "i32", half, fn.load(f"<{half} x i32>", pointer, _ALIGN))
    even, odd = words << 16, words & UPPER
    joined = fn.shuffle(f"<{half} x i32>", even.name, odd.name, range(lanes))
    whole = Number(fn, target, "i32", lanes, joined)
    return Value((whole.from_bits().name,), ElementType.BF16, lanes)


def store_pairs(
    fn: Function, target: Target, value: Value, pointer: str, *, streamed: bool = False
) -> None:
    """Store what `load_pairs` would return, from an address on; `streamed` as in `memory.store`."""
    lanes = value.lanes
    half = lanes // 2
    bits = Number(fn, target, "float", lanes, value.names[0]).bits()
    even, odd = [
        Number(fn, target, "i32", half, fn.shuffle(f"<{lanes} x i32>", bits.name, "poison", picked))
        for picked in (range(half), range(half, lanes))
    ]
    words = (even >> 16) | (odd & UPPER)
    if streamed:
        stream(fn, f"<{half} x i32>", words.name, pointer, _ALIGN * lanes)
    else:
        fn.store(f"<{half} x i32>", words.name, pointer, _ALIGN)
