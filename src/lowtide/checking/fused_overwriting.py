"""Where a fusion may write a result over an operand that it reads element by element.

A loop fusion computes element i of all results before it stores any of them. So a parameter may be
overwritten where whatever reads it needs, for element i, only its element i.
"""

from __future__ import annotations

from typing import Final

from lowtide.checking.storage_order import element_bits, is_row_major, same_places
from lowtide.ir import Instruction, Opcode, Shape, ShapeIndex
from lowtide.ir.attributes import Fusion
from lowtide.ops.table import TABLE

_ELEMENT_BY_ELEMENT: Final = frozenset({"kLoop", "kInput", "kCustom"})
"""The kinds of fusions whose results are stored element by element. Custom ones are kernels of a
library, which keeps to that for what it reads element by element."""


def fusion_may_overwrite(
    fusion: Instruction, operand: int, index: ShapeIndex, output: ShapeIndex
) -> bool:
    """Whether result element `output` may lie over element `index` of an operand."""
    if not same_places(fusion.operands[operand].shape.at(index), fusion.shape.at(output)):
        return False
    kind = fusion.attributes_as(Fusion).kind
    callee = fusion.called_computations[0]
    parameter = callee.parameters[operand]
    if kind == "kOutput":
        return not index and _is_addend(callee.root, parameter)
    count = parameter.shape.at(index).element_count
    return kind in _ELEMENT_BY_ELEMENT and _is_read_in_order(parameter, count)


def _is_read_in_order(value: Instruction, count: int) -> bool:
    """Whether element i of all that depends on a value needs only element i of it.

    Elements are counted row major, so that reshapes leave them in order.
    """
    seen = {value}
    stack = [value]
    while stack:
        source = stack.pop()
        for user in source.users:
            if not _steps_in_order(source, user, count):
                return False
            if user not in seen:
                seen.add(user)
                stack.append(user)
    return True


def _steps_in_order(source: Instruction, user: Instruction, count: int) -> bool:
    if user.opcode in (Opcode.TUPLE, Opcode.GET_TUPLE_ELEMENT):
        return True
    if user.shape.is_tuple or user.shape.element_count != count:
        return False
    if user.opcode is Opcode.RESHAPE:
        return True
    if user.opcode is Opcode.BITCAST:
        return _keeps_order(source.shape, user.shape)
    dimensions = user.shape.dimensions
    return TABLE[user.opcode].elementwise and source.shape.dimensions == dimensions


def _keeps_order(source: Shape, result: Shape) -> bool:
    if element_bits(source) != element_bits(result):
        return False
    return same_places(source, result) or (is_row_major(source) and is_row_major(result))


def _is_addend(root: Instruction, parameter: Instruction) -> bool:
    """Whether a product is added to the parameter, which is what `accumulate` kernels do."""
    if root.opcode is not Opcode.ADD or list(parameter.users) != [root]:
        return False
    products = (Opcode.DOT, Opcode.CONVOLUTION)
    return root.operands[0] is not root.operands[1] and any(
        x.opcode in products for x in root.operands
    )
