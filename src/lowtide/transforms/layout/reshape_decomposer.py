"""Reshapes that move bytes, as a copy and a reshape that moves none.

Before: y = f32[6]{0} reshape(x), where x is f32[2,3]{0,1}
After:  c = f32[2,3]{1,0} copy(x); y = f32[6]{0} reshape(c)
"""

from __future__ import annotations

from typing import Final

from lowtide.ir import Instruction, Module, Opcode
from lowtide.passes.interface import Pass, example
from lowtide.transforms.layout.forms import form_of
from lowtide.transforms.layout.orders import order_of, same_bytes, with_order
from lowtide.transforms.layout.places import computation_runs


def decompose_reshapes(module: Module) -> int:
    """Put copies before or behind reshapes that are no bitcasts; return how many."""
    return sum(
        [
            _decompose(x)
            for computation in computation_runs(module)
            for x in list(computation.instructions.values())
            if x.opcode is Opcode.RESHAPE and not x.has_control_edges
        ]
    )


def _decompose(reshape: Instruction) -> int:
    x = reshape.operands[0]
    before, after = order_of(x.shape), order_of(reshape.shape)
    form = form_of(reshape, [before], after)
    if form is None:
        return 0
    copies = 0
    if not same_bytes(form.orders[0], before, x.shape.dimensions):
        copy = x.parent.add(Opcode.COPY, with_order(x.shape, form.orders[0]), (x,))
        copy.set_metadata(reshape.raw_metadata)
        reshape.replace_operand(0, copy)
        copies += 1
    if not same_bytes(form.order, after, reshape.shape.dimensions):
        shape = reshape.shape
        early = x.parent.add(
            Opcode.RESHAPE, with_order(shape, form.order), reshape.operands, reshape.attributes
        )
        copy = x.parent.add(Opcode.COPY, shape, (early,))
        for made in (early, copy):
            made.set_metadata(reshape.raw_metadata)
        reshape.replace_all_uses_with(copy)
        x.parent.remove(reshape)
        copies += 1
    return copies


PASSES: Final = (
    Pass(
        "reshape-decomposer",
        decompose_reshapes,
        "Puts copies beside reshapes that would move bytes, so that they move none.",
        *example(
            """
HloModule m, entry_computation_layout={(f32[2,3]{0,1})->f32[6]{0}}

ENTRY main {
  x = f32[2,3]{0,1} parameter(0)
- ROOT y = f32[6]{0} reshape(x)
+ copy = f32[2,3]{1,0} copy(x)
+ ROOT y = f32[6]{0} reshape(copy)
}
"""
        ),
    ),
)
