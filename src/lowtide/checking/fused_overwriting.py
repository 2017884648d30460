"""Where a fusion may write a result over an operand that it reads in order.

A loop fusion computes element i of all results before it stores any of them. So a parameter may be
overwritten where whatever reads it needs, for element i, only its element i. A fusion that is
marked so reads row i of all operands before it stores row i of any result.
"""

from __future__ import annotations

from math import prod
from typing import Final

from lowtide.checking.storage_order import element_bits, is_row_major, same_places
from lowtide.ir import Instruction, Opcode, Shape, ShapeIndex
from lowtide.ir.attributes import Dimensions, Fusion
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
    if fusion.annotations.backend_config == _BY_ROWS and _is_read_by_rows(parameter):
        return True
    return kind in _ELEMENT_BY_ELEMENT and _is_read_in_order(parameter, count)


_BY_ROWS: Final = '{"kernel":"rows"}'


def _is_read_by_rows(parameter: Instruction) -> bool:
    """Whether what depends on a parameter can be cut into rows which depend on one row of it.

    Cut are the leading dimensions: those that the first reduction met keeps. Each value has as many
    elements in front of the cut as there are rows, counted in row-major order.
    """
    dependent = [parameter]
    steps: list[tuple[Instruction, Instruction]] = []
    for value in dependent:
        steps += [(value, user) for user in value.users]
        dependent += [user for user in value.users if user not in dependent]
    reductions = [user for _, user in steps if user.opcode is Opcode.REDUCE]
    if not reductions or reductions[0].shape.is_tuple:
        return False
    rows = reductions[0].shape.element_count
    return all(_stays_in_row(value, user, rows) for value, user in steps)


def _stays_in_row(value: Instruction, user: Instruction, rows: int) -> bool:
    if user.opcode is Opcode.TUPLE:
        return True
    if user.shape.is_tuple or not rows:
        return False
    before, after = value.shape.dimensions, user.shape.dimensions
    if user.opcode is Opcode.RESHAPE:
        return user.shape.element_count % rows == 0
    if user.opcode is Opcode.REDUCE:
        along = user.attributes_as(Dimensions).dimensions
        is_last = set(along) == set(range(len(after), len(before)))
        return is_last and user.operands.index(value) == 0 and prod(after) == rows
    if user.opcode is Opcode.BROADCAST:
        places = user.attributes_as(Dimensions).dimensions
        new_in_front = [
            size for i, size in enumerate(after) if i < max(places, default=-1) and i not in places
        ]
        in_order = list(places) == sorted(places)
        return in_order and set(new_in_front) <= {1} and value.shape.element_count % rows == 0
    return TABLE[user.opcode].elementwise and before == after


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
