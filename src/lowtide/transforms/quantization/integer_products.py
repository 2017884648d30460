"""Products of quantized numbers, which are written in floats or wide integers, of the numbers."""

from __future__ import annotations

from typing import Final

from lowtide.ir import Module
from lowtide.passes.interface import Pass
from lowtide.passes.rewriting import rewrite
from lowtide.transforms.quantization.convolutions import integer_convolution
from lowtide.transforms.quantization.dots import integer_dot
from lowtide.transforms.quantization.windows import greatest_number

_RULES: Final = (integer_dot, integer_convolution, greatest_number)


def take_integer_products(module: Module) -> int:
    """Multiply the numbers of quantized operands; return how many instructions were changed.

    Dots and convolutions of numbers of at most 8 bits that are widened, lessened by a zero point
    and multiplied by a scale become such of the numbers, with sums of 32 bits. Zero points are
    taken from the sums, and scales multiply them. The greatest of them in windows is found among
    the numbers, too.
    """
    return sum(rewrite(module, _RULES).values())


PASSES: Final = (
    Pass(
        "integer-products",
        take_integer_products,
        "Products of quantized numbers become products of integers of 8 bits.",
        """
        HloModule m
        ENTRY e {
          p = u8[4,8] parameter(0)
          q = s8[8,3] parameter(1)
          z = s32[] constant(7)
          s = f32[] constant(0.5)
          wide = s32[4,8] convert(p)
          zeros = s32[4,8] broadcast(z), dimensions={}
          less = s32[4,8] subtract(wide, zeros)
          floats = f32[4,8] convert(less)
          scales = f32[4,8] broadcast(s), dimensions={}
          x = f32[4,8] multiply(floats, scales)
          weights = f32[8,3] convert(q)
          more = f32[8,3] broadcast(s), dimensions={}
          w = f32[8,3] multiply(weights, more)
          ROOT d = f32[4,3] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        }
        """,
        """
        HloModule m
        add_s32 (x.1: s32[], y: s32[]) -> s32[] {
          x.1 = s32[] parameter(0)
          y = s32[] parameter(1)
          ROOT add = s32[] add(x.1, y)
        }
        ENTRY e (p: u8[4,8], q: s8[8,3]) -> f32[4,3] {
          p = u8[4,8]{1,0} parameter(0)
          q = s8[8,3]{1,0} parameter(1)
          dot = s32[4,3]{1,0} dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}
          convert = s32[8,3]{1,0} convert(q)
          constant = s32[] constant(0)
          reduce = s32[3]{0} reduce(convert, constant), dimensions={0}, to_apply=add_s32
          z = s32[] constant(7)
          broadcast = s32[3]{0} broadcast(z), dimensions={}
          multiply = s32[3]{0} multiply(reduce, broadcast)
          broadcast.1 = s32[4,3]{1,0} broadcast(multiply), dimensions={1}
          subtract = s32[4,3]{1,0} subtract(dot, broadcast.1)
          convert.1 = f32[4,3]{1,0} convert(subtract)
          s = f32[] constant(0.5)
          multiply.1 = f32[] multiply(s, s)
          broadcast.2 = f32[4,3]{1,0} broadcast(multiply.1), dimensions={}
          ROOT multiply.2 = f32[4,3]{1,0} multiply(convert.1, broadcast.2)
        }
        """,
    ),
)
