"""Results that may lie over an operand that is read in the very same step.

The question is about one kernel: may it store results into the bytes from which it still reads the
operand? It may where it is one that changes its operand, and where each element is read, for the
last time, no later than it is overwritten.

A loop fusion computes element i of all results before it stores any of them. So a parameter may be
overwritten where whatever reads it needs, for element i, only its element i. What else there is, a
fusion is marked for: by rows, it reads row i of all operands before it stores row i of any result;
in one pass, it stores what it reduces after all elements, and updates what is not read; with an
epilogue, a contraction uses its first result while it adds up, and the others at the end; in
loops, it stores each result before it computes the next one.
"""

from __future__ import annotations

from math import prod
from typing import Final

from lowtide.checking.fused_updates import readers
from lowtide.checking.in_place import in_place_pairs
from lowtide.checking.storage_order import element_bits, is_row_major, same_places
from lowtide.ir import Instruction, Opcode, Shape, ShapeIndex
from lowtide.ir.attributes import Dimensions, Fusion
from lowtide.ops.table import TABLE


def may_overwrite(
    instruction: Instruction, operand: int, index: ShapeIndex, output: ShapeIndex
) -> bool:
    """Whether result element `output` may lie exactly over element `index` of an operand.

    Every operand that lies there has to be asked for by itself.
    """
    if (operand, index, output) in in_place_pairs(instruction):
        return True
    opcode = instruction.opcode
    if opcode is Opcode.FUSION:
        return fusion_may_overwrite(instruction, operand, index, output)
    if index:
        return False
    if opcode is Opcode.SORT:
        wanted = (operand,) if instruction.shape.is_tuple else ()
    else:
        elementwise = TABLE[opcode].elementwise
        if not elementwise and (opcode, operand) != (Opcode.TRIANGULAR_SOLVE, 1):
            return False
        wanted = ()
    source = instruction.operands[operand].shape
    return output == wanted and same_places(source, instruction.shape.at(output))


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
    count = parameter.shape.at(index).element_count
    if kind == "kOutput":
        if fusion.annotations.backend_config != _WITH_EPILOGUE:
            return not index and _is_addend(callee.root, parameter)
        return _is_read_in_order(parameter, count, reduces=False) and _keeps_step(parameter, output)
    if fusion.annotations.backend_config == _BY_ROWS and _is_read_by_rows(parameter):
        return True
    if fusion.annotations.backend_config == _IN_TURN and not _serves_only(parameter, output):
        return False
    reduces = fusion.annotations.backend_config == _AT_ONCE
    if kind not in _ELEMENT_BY_ELEMENT or not _is_read_in_order(parameter, count, reduces):
        return False
    return _keeps_step(parameter, output)


_WITH_EPILOGUE: Final = '{"kernel":"epilogue"}'
_IN_TURN: Final = '{"kernel":"loops"}'
_AT_ONCE: Final = '{"kernel":"one_pass"}'
_BY_ROWS: Final = '{"kernel":"rows"}'


def _is_read_by_rows(parameter: Instruction) -> bool:
    """Whether what depends on a parameter can be cut into rows which depend on one row of it.

    Cut are the leading dimensions: those that the first reduction met keeps. Each value has as many
    elements in front of the cut as there are rows, counted in row-major order.
    """
    dependent = [parameter]
    steps: list[tuple[Instruction, Instruction]] = []
    for value in dependent:
        steps += [(value, user) for user in readers(value)]
        dependent += [user for user in readers(value) if user not in dependent]
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


def _is_read_in_order(value: Instruction, count: int, reduces: bool) -> bool:
    """Whether element i of all that depends on a value needs only element i of it.

    Elements are counted row major, so that reshapes leave them in order. `reduces` says that sums
    over all elements are stored at the end.
    """
    seen = {value}
    stack = [value]
    while stack:
        source = stack.pop()
        for user in readers(source):
            if reduces and (_is_summed_up(source, user, count) or _is_put_elsewhere(source, user)):
                continue
            if not _steps_in_order(source, user, count):
                return False
            if user not in seen:
                seen.add(user)
                stack.append(user)
    return True


def _is_put_elsewhere(source: Instruction, update: Instruction) -> bool:
    """Whether a user writes a value, in order, into an array that nothing reads here."""
    if update.opcode is not Opcode.DYNAMIC_UPDATE_SLICE or update.operands.count(source) > 1:
        return False
    last = update.is_root or (
        len(readers(update)) == 1 and readers(update)[0] is update.parent.root
    )
    return update.operands[1] is source and last


def _serves_only(parameter: Instruction, output: ShapeIndex) -> bool:
    """Whether no other result than the one given needs a parameter."""
    results = parameter.parent.root.operands
    for number, result in enumerate(results):
        needed = [result]
        for x in needed:
            needed += [y for y in x.operands if y not in needed]
        if parameter in needed and (number,) != output:
            return False
    return True


def _keeps_step(parameter: Instruction, output: ShapeIndex) -> bool:
    """Whether a result moves the elements of products just as all that need a parameter do.

    A kernel of a product stores all results of one of its elements, each where that belongs.
    """
    body = parameter.parent
    if not output or not any(_is_product(x) for x in body.instructions.values()):
        return True
    results = body.root.operands
    wanted = _movers(results[output[0]])
    needing = [x for x in results if parameter in _all_behind(x)]
    return len(output) == 1 and all(_movers(x) == wanted for x in needing)


def _movers(result: Instruction) -> frozenset[Instruction]:
    """What stands between products and a result and changes the order of elements."""
    behind = _all_behind(result)
    products = [x for x in behind if _is_product(x)]
    made = dict.fromkeys(products)
    for x in (waiting := list(made)):
        fresh = [y for y in x.users if y in behind and y not in made]
        made |= dict.fromkeys(fresh)
        waiting += fresh
    nested = [x for x in products if x.opcode is Opcode.FUSION]
    return frozenset([*nested, *[x for x in made if _reorders(x)]])


def _reorders(x: Instruction) -> bool:
    if x.opcode is Opcode.BROADCAST:
        places = x.attributes_as(Dimensions).dimensions
        return list(places) != sorted(places)
    if x.opcode is Opcode.BITCAST:
        return not _keeps_order(x.operands[0].shape, x.shape)
    return x.opcode is Opcode.TRANSPOSE


def _is_product(x: Instruction) -> bool:
    """Whether an instruction is a product, or a fusion that has one somewhere within."""
    if x.opcode is Opcode.FUSION:
        within = [*x.called_computations[0].instructions.values()]
        for y in within:
            if y.opcode is Opcode.FUSION:
                within += y.called_computations[0].instructions.values()
        return any(y.opcode in _PRODUCTS for y in within)
    return x.opcode in _PRODUCTS


_PRODUCTS: Final = frozenset({Opcode.CONVOLUTION, Opcode.DOT})


def _all_behind(x: Instruction) -> dict[Instruction, None]:
    """An instruction and all that it is made of."""
    found = {x: None}
    waiting = [x]
    for y in waiting:
        fresh = [z for z in y.operands if z not in found]
        found |= dict.fromkeys(fresh)
        waiting += fresh
    return found


def _is_summed_up(source: Instruction, reduce: Instruction, count: int) -> bool:
    """Whether a user reduces a value to what never has as many elements again."""
    if reduce.opcode is not Opcode.REDUCE or reduce.operands[1:] != reduce.operands[-1:]:
        return False
    if reduce.operands[0] is not source or reduce.operands[1] is source:
        return False
    sums = [reduce]
    for x in sums:
        if x.opcode is not Opcode.TUPLE and (x.shape.is_tuple or x.shape.element_count == count):
            return False
        sums += [y for y in readers(x) if y not in sums and x.opcode is not Opcode.TUPLE]
    return True


def _steps_in_order(source: Instruction, user: Instruction, count: int) -> bool:
    if user.opcode in (Opcode.TUPLE, Opcode.GET_TUPLE_ELEMENT):
        return True
    if user.shape.is_tuple or user.shape.element_count != count:
        return False
    if user.opcode is Opcode.RESHAPE:
        return True
    if user.opcode is Opcode.BROADCAST and source.shape.element_count == count:
        places = user.attributes_as(Dimensions).dimensions
        return list(places) == sorted(places)
    if user.opcode is Opcode.BITCAST:
        return _keeps_order(source.shape, user.shape)
    dimensions = user.shape.dimensions
    return TABLE[user.opcode].elementwise and source.shape.dimensions == dimensions


def _keeps_order(source: Shape, result: Shape) -> bool:
    if element_bits(source) != element_bits(result):
        return False
    return same_places(source, result) or (is_row_major(source) and is_row_major(result))


def _is_addend(root: Instruction, parameter: Instruction) -> bool:
    """Whether a product is added to the parameter, which is what `accumulate` kernels do.

    The sum is the result, or has further terms added to it on its only way to the result.
    """
    products = (Opcode.DOT, Opcode.CONVOLUTION)
    value = parameter
    while value is not root:
        users = readers(value)
        if len(users) != 1 or users[0].opcode is not Opcode.ADD:
            return False
        first, second = users[0].operands
        if first is second:
            return False
        if value is parameter and not (first.opcode in products or second.opcode in products):
            return False
        value = users[0]
    return value is not parameter
