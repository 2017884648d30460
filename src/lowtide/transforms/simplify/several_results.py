"""Sorts and reductions of several operands of which some results are not read."""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.builder.values import Op, SubComputation
from lowtide.ir import Computation, Instruction, Opcode, tuple_shape
from lowtide.ir.annotations import NO_ANNOTATIONS
from lowtide.ir.attributes import GetTupleElement, Parameter, Sort
from lowtide.ir.traversal import post_order, reached
from lowtide.passes.matching import are_plain, is_plain
from lowtide.passes.rewriting import Rewriter, rule
from lowtide.transforms.simplify.support import Made, spread


def _elements_read(x: Instruction) -> set[int] | None:
    """Return which elements of a tuple are read, or None where it is used whole."""
    if x.is_root or any(user.opcode is not Opcode.GET_TUPLE_ELEMENT for user in x.users):
        return None
    return {user.attributes_as(GetTupleElement).index for user in x.users}


def _parameters_of(roots: Sequence[Instruction]) -> list[int]:
    """Return the numbers of the parameters that some instructions depend on."""
    found = reached(roots)
    return [x.attributes_as(Parameter).number for x in found if x.opcode is Opcode.PARAMETER]


def _narrowed(
    computation: Computation, parameters: Sequence[int], roots: Sequence[Instruction]
) -> Computation:
    """Return a computation with some of the parameters, which returns one root or several."""
    new = computation.module.add_computation(f"{computation.name}_narrowed")
    made: dict[Instruction, Instruction] = {}
    for number, old in enumerate(parameters):
        x = computation.parameters[old]
        made[x] = new.add(Opcode.PARAMETER, x.shape, (), Parameter(number), (), x.name)
    needed = reached(roots)
    for x in post_order(computation):
        if x in needed and x not in made:
            operands = tuple([made[y] for y in x.operands])
            made[x] = new.add_like(x, operands, annotations=NO_ANNOTATIONS)
    results = tuple([made[x] for x in roots])
    if len(results) == 1:
        new.root = results[0]
    else:
        new.root = new.add(Opcode.TUPLE, tuple_shape([x.shape for x in results]), results)
    return new


def _with_others(at: Rewriter, made: Op, kept: Sequence[int], others: dict[int, Op]) -> Op:
    """Return a tuple of the results that were kept, and in place of the others whatever fits."""
    if len(kept) == 1:
        found = {kept[0]: made}
    else:
        found = {i: at.build.get_tuple_element(made, j) for j, i in enumerate(kept)}
    every = {**found, **others}
    return at.build.tuple([every[i] for i in range(len(every))])


@rule(Opcode.REDUCE)
def reduce_what_is_read(x: Instruction, at: Rewriter) -> Made:
    """reduce(x, y, v, w) => reduce(x, v), where nobody reads y reduced, nor needs it for x"""
    count = len(x.operands) // 2
    reducer = x.called_computations[0]
    read = _elements_read(x) if count > 1 and x.shape.is_tuple else None
    if read is None or reducer.root.opcode is not Opcode.TUPLE:
        return None
    kept = _closed(reducer, read, count)
    if len(kept) == count or not are_plain(*x.operands):
        return None
    if not all(is_plain(shape) for shape in x.shape.tuple_shapes):
        return None
    parameters = [*kept, *[count + i for i in kept]]
    narrow = _narrowed(reducer, parameters, [reducer.root.operands[i] for i in kept])
    operands = [at(x.operands[i]) for i in parameters]
    made = at.build.emit(Opcode.REDUCE, operands, x.attributes, [SubComputation(narrow)])
    dead = [i for i in range(count) if i not in kept]
    others = {i: spread(at, at(x.operands[count + i]), x.shape.tuple_shapes[i]) for i in dead}
    return _with_others(at, made, kept, others)


def _closed(reducer: Computation, read: set[int], count: int) -> list[int]:
    """Return the results that are read and those on which they depend, in order."""
    kept = sorted(read)
    while True:
        needed = _parameters_of([reducer.root.operands[i] for i in kept])
        wider = sorted({*kept, *[number % count for number in needed]})
        if wider == kept:
            return kept
        kept = wider


@rule(Opcode.SORT)
def sort_one(x: Instruction, at: Rewriter) -> Made:
    """sort(x) => x, along a dimension of size 1 or less"""
    sizes = x.operands[0].shape.dimensions
    if not are_plain(*x.operands) or (sizes and sizes[x.attributes_as(Sort).dimension] > 1):
        return None
    if len(x.operands) == 1:
        return x.operands[0] if x.operands[0].shape is x.shape else None
    result = tuple_shape([y.shape for y in x.operands])
    return at.build.tuple([at(y) for y in x.operands]) if result is x.shape else None


@rule(Opcode.SORT)
def sort_what_is_read(x: Instruction, at: Rewriter) -> Made:
    """sort(x, y) => sort(x), where nobody reads y sorted, nor compares by it"""
    count = len(x.operands)
    read = _elements_read(x) if count > 1 else None
    if read is None or not are_plain(*x.operands):
        return None
    comparator = x.called_computations[0]
    kept = sorted({*read, *[number // 2 for number in _parameters_of([comparator.root])]})
    if len(kept) == count or not all(is_plain(shape) for shape in x.shape.tuple_shapes):
        return None
    parameters = [number for i in kept for number in (2 * i, 2 * i + 1)]
    narrow = _narrowed(comparator, parameters, [comparator.root])
    operands = [at(x.operands[i]) for i in kept]
    made = at.build.emit(Opcode.SORT, operands, x.attributes, [SubComputation(narrow)])
    dead = [i for i in range(count) if i not in kept]
    return _with_others(at, made, kept, {i: at(x.operands[i]) for i in dead})
