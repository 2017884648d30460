"""Reads of a fusion from an operand where a result may lie over it: the same element, or row."""

from __future__ import annotations

from math import prod

from lowtide.ir.attributes import Dimensions
from lowtide.ir.instruction import Instruction
from lowtide.ir.opcode import Opcode
from lowtide.ir.shape import ShapeIndex
from lowtide.ops.overwriting import is_in_order
from lowtide.ops.table import TABLE


def results_of(parameter: Instruction) -> list[int]:
    """Return the numbers of the results of a fusion that depend on a parameter of it."""
    root = parameter.parent.root
    seen = {parameter: None}
    for value in (stack := [parameter]):
        fresh = [x for x in value.users if x not in seen and x is not root]
        seen.update(dict.fromkeys(fresh))
        stack += fresh
    return [i for i, x in enumerate(root.operands) if x in seen]


def only_results(parameter: Instruction, matching: list[ShapeIndex]) -> list[ShapeIndex]:
    """The result that depends on a fused parameter, if it is one of these and the only one."""
    found: list[ShapeIndex] = [(i,) for i in results_of(parameter)]
    return found if len(found) == 1 and found[0] in matching else []


def only_elementwise_uses(parameter: Instruction, in_one_pass: bool) -> bool:
    """Whether all that depends on a fused parameter is elementwise, or a tuple at the root.

    Elementwise operations that change the dimensions (a bound of clamp, a bitcast-convert to
    another width) need more of the parameter than the element that is written. In one pass it may
    get dimensions of size 1, be reduced to something smaller, or be what updates something else.
    """
    seen = {parameter}
    stack = [parameter]
    while stack:
        value = stack.pop()
        for user in value.users:
            if user in seen or (in_one_pass and _ends_a_pass(parameter, value, user)):
                continue
            is_step = user.opcode is Opcode.TUPLE or _is_elementwise_on(parameter, user)
            if not is_step and not (in_one_pass and _is_aligned_step(parameter, user)):
                return False
            seen.add(user)
            stack.append(user)
    return True


def _is_aligned_step(parameter: Instruction, user: Instruction) -> bool:
    """Whether a user has the elements of a fused parameter, up to dimensions of size 1."""
    if user.opcode is Opcode.BROADCAST:
        if not is_in_order(user):
            return False
    elif user.opcode is not Opcode.RESHAPE and not TABLE[user.opcode].elementwise:
        return False
    sizes = [[x for x in y.shape.dimensions if x != 1] for y in (parameter, user, *user.operands)]
    return all(x == sizes[0] or not x for x in sizes) and sizes[1] == sizes[0]


def _ends_a_pass(parameter: Instruction, value: Instruction, user: Instruction) -> bool:
    """Whether a value is reduced, or written into another array, and thus stored after the pass.

    Nothing that depends on the user may have the elements of the parameter.
    """
    if user.opcode is Opcode.DYNAMIC_UPDATE_SLICE:
        return user.operands.index(value) == 1 and all(x.is_root for x in user.users)
    if user.opcode is not Opcode.REDUCE or user.operands.index(value) != 0:
        return False
    if user.shape.is_tuple or user.operands[1] is value:
        return False
    seen = {user}
    stack = [user]
    while stack:
        found = stack.pop()
        if found.opcode is Opcode.TUPLE:
            continue
        if found.shape.element_count == parameter.shape.element_count:
            return False
        fresh = [x for x in found.users if x not in seen]
        seen.update(fresh)
        stack += fresh
    return True


def _is_elementwise_on(parameter: Instruction, user: Instruction) -> bool:
    is_elementwise = TABLE[user.opcode].elementwise
    return is_elementwise and user.shape.dimensions == parameter.shape.dimensions


def only_row_uses(parameter: Instruction) -> bool:
    """Whether each row of all that depends on a fused parameter needs only the same row of it.

    A row is what the reductions of the fusion run along, the last dimensions. In row-major order,
    element i of a value with n elements in each row then belongs to row i / n.
    """
    rows = 0
    seen = {parameter}
    stack = [parameter]
    while stack:
        value = stack.pop()
        for user in value.users:
            if user.opcode is Opcode.REDUCE:
                if not _runs_along_rows(user, value) or rows not in (0, user.shape.element_count):
                    return False
                rows = user.shape.element_count
            elif user.opcode is not Opcode.TUPLE and not _keeps_rows(value, user):
                return False
            if user not in seen:
                seen.add(user)
                stack.append(user)
    return rows > 0 and not any(x.shape.is_array and x.shape.element_count % rows for x in seen)


def _runs_along_rows(reduce: Instruction, value: Instruction) -> bool:
    if not reduce.shape.is_array or reduce.operands[0] is not value or reduce.operands[1] is value:
        return False
    reduced = sorted(reduce.attributes_as(Dimensions).dimensions)
    return reduced == list(range(value.shape.rank))[-len(reduced) :]


def _keeps_rows(value: Instruction, user: Instruction) -> bool:
    """Whether row i of a user needs row i of a value only."""
    if user.opcode is Opcode.RESHAPE:
        return True
    if user.opcode is not Opcode.BROADCAST:
        return _is_elementwise_on(value, user)
    outer = max(user.attributes_as(Dimensions).dimensions, default=-1) + 1
    is_whole = prod(user.shape.dimensions[:outer]) == value.shape.element_count
    return is_whole and is_in_order(user)
