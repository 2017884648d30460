"""The data that a convolution slides over, where padding is fused, and the numbers around it."""

from __future__ import annotations

from dataclasses import replace

from lowtide.ir import Instruction, Opcode
from lowtide.ir.attributes import Constant, Convolution, Pad, Window
from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class Surrounded:
    """Data around which all elements are `fill`, an integer; the window reaches beyond the data."""

    data: Instruction
    fill: int
    window: Window


def surrounded(convolution: Instruction) -> Surrounded | None:
    """Return what a convolution slides over if it is padded data within the same kernel.

    None where it is not, or where the padding is of another kind than a window can have: with
    something between elements, or cutting some off, or along other dimensions.
    """
    pad = convolution.operands[0]
    if pad.opcode is not Opcode.PAD or pad.operands[1].opcode is not Opcode.CONSTANT:
        return None
    if not pad.shape.element_type.is_integer or not pad.operands[0].shape.element_count:
        return None
    numbers = convolution.attributes_as(Convolution).dimensions
    window = convolution.attributes_as(Convolution).window
    sides = pad.attributes_as(Pad).dimensions
    wide = [d for d, x in enumerate(sides) if (x.low, x.high, x.interior) != (0, 0, 0)]
    if any(sides[d].interior or min(sides[d].low, sides[d].high) < 0 for d in wide):
        return None
    if not set(wide) <= set(numbers.input_spatial):
        return None
    if any(x.padding_low or x.padding_high or x.base_dilation != 1 for x in window.dimensions):
        return None
    dimensions = [
        replace(x, padding_low=sides[d].low, padding_high=sides[d].high)
        for d, x in zip(numbers.input_spatial, window.dimensions, strict=True)
    ]
    fill = int(pad.operands[1].attributes_as(Constant).literal.array)
    return Surrounded(pad.operands[0], fill, replace(window, dimensions=tuple(dimensions)))


def is_surrounding(pad: Instruction) -> bool:
    """Whether nothing but convolutions reads padded data, of which it is what they slide over.

    Their kernels have what is around at no cost.
    """
    return (
        pad.opcode is Opcode.PAD
        and bool(pad.users)
        and all(
            x.opcode is Opcode.CONVOLUTION
            and x.operands[1] is not pad
            and surrounded(x) is not None
            for x in pad.users
        )
    )
