"""Storage: where a result may take over an operand's buffer, so that an assigner saves it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Final

from lowtide.ir.attributes import Fusion, Parameter
from lowtide.ir.instruction import Instruction
from lowtide.ir.kept import kept
from lowtide.ir.opcode import Opcode
from lowtide.ir.shape import Shape
from lowtide.ir.traversal import all_callees
from lowtide.ops.fused_reads import only_elementwise_uses, only_results, only_row_uses
from lowtide.ops.in_place import (
    EPILOGUE,
    LOOPS,
    ONE_PASS,
    Pair,
    each_operand,
    in_place_pairs,
    works_in_rows,
)
from lowtide.ops.moved_results import moves_of_results, stored_in_step
from lowtide.ops.overwriting import element_bits
from lowtide.ops.table import TABLE


def may_share(instruction: Instruction) -> tuple[Pair, ...]:
    """Return the pairs in which XLA lets the result take over the operand's buffer.

    Both positions have equal shapes, layouts included, and the operand is no constant. The caller
    has to see that nothing else reads the operand afterwards. An operand position may occur in
    several pairs, of which one can be chosen. In-place pairs of equal shapes are among them.
    """
    pairs = _candidates(instruction, in_place_pairs(instruction))
    return tuple([x for x in pairs if _have_one_shape(instruction, x)])


def sharing_pairs(instruction: Instruction) -> tuple[Pair, ...]:
    """Return all pairs in which the result may take over the operand's buffer.

    First those of `may_share`; then those in which only the element types differ, which have equal
    widths, such as random bits and the numbers that are made of them: each element is read before
    one is stored there; then the other in-place ones. Those of a fusion are found once for all with
    its body that have the same shapes.
    """
    opcode = instruction.opcode
    if opcode is Opcode.FUSION:
        return _fusion_sharing_pairs(instruction)
    if opcode in _STEPS:
        sources = [None if x.opcode is Opcode.CONSTANT else x.shape for x in instruction.operands]
        return _step_pairs(instruction.shape, *sources)
    return _sharing_pairs(instruction)


def _fusion_sharing_pairs(fusion: Instruction) -> tuple[Pair, ...]:
    """The pairs of a fusion, kept with its body until that or what it calls changes."""
    body = fusion.called_computations[0]
    attributes, config = fusion.attributes, fusion.annotations.backend_config
    operands = [(x.shape, x.opcode is Opcode.CONSTANT) for x in fusion.operands]
    called = [(x, x.version) for x in all_callees(body)]
    key = (sharing_pairs, attributes, config, fusion.shape, *operands, *called)
    return kept(body, key, lambda: _sharing_pairs(fusion))


@lru_cache(maxsize=1 << 12)
def _step_pairs(result: Shape, *sources: Shape | None) -> tuple[Pair, ...]:
    """The pairs of an elementwise operation, of whose operands constants have no shape here."""
    alike = [i for i, x in enumerate(sources) if x is not None and _lie_alike(x, result)]
    equal = [i for i in alike if sources[i] is result]
    return tuple([((i, ()), ()) for i in dict.fromkeys((*equal, *alike))])


def _sharing_pairs(instruction: Instruction) -> tuple[Pair, ...]:
    in_place = in_place_pairs(instruction)
    pairs = _candidates(instruction, in_place)
    equal = [x for x in pairs if _have_one_shape(instruction, x)]
    return tuple(dict.fromkeys((*equal, *pairs, *in_place)))


def _have_one_shape(instruction: Instruction, pair: Pair) -> bool:
    (operand, index), output = pair
    return instruction.operands[operand].shape.at(index) is instruction.shape.at(output)


def _have_one_width(source: Shape, result: Shape) -> bool:
    """Whether shapes have the same sizes and elements of one width, whatever their layouts."""
    if source is result:
        return True
    are_arrays = source.is_array and result.is_array
    if not are_arrays or source.dimensions != result.dimensions:
        return False
    return element_bits(source) == element_bits(result)


def _lie_alike(source: Shape, result: Shape) -> bool:
    """Whether shapes are equal but for their element types, which have one width."""
    if source is result:
        return True
    is_alike = source.layout == result.layout and source.dynamic == result.dynamic
    return is_alike and _have_one_width(source, result)


def _candidates(instruction: Instruction, in_place: tuple[Pair, ...]) -> tuple[Pair, ...]:
    """The pairs that lie alike, but for their element types, and whose operand is no constant."""
    rule = _MAY.get(instruction.opcode)
    pairs = in_place
    if rule is not None:
        pairs = (*pairs, *rule(instruction))
    elif TABLE[instruction.opcode].elementwise:
        pairs = (*pairs, *_elementwise_pairs(instruction))
    if not pairs:
        return ()
    kept: dict[Pair, None] = {}
    for pair in pairs:
        (operand, operand_index), output = pair
        source = instruction.operands[operand]
        if source.opcode is Opcode.CONSTANT:
            continue
        if _lie_alike(source.shape.at(operand_index), instruction.shape.at(output)):
            kept[pair] = None
    return tuple(kept)


def _never(instruction: Instruction) -> tuple[Pair, ...]:
    """A copy exists in order to have a buffer of its own."""
    return ()


def _elementwise_pairs(instruction: Instruction) -> tuple[Pair, ...]:
    return tuple([((i, ()), ()) for i in range(len(instruction.operands))])


def _while_pairs(instruction: Instruction) -> tuple[Pair, ...]:
    return tuple([((0, index), index) for index, _ in instruction.shape.leaves()])


def _conditional_pairs(instruction: Instruction) -> tuple[Pair, ...]:
    outputs = list(instruction.shape.leaves())
    return tuple(
        [
            ((number, index), output)
            for number, operand in enumerate(instruction.operands[1:], 1)
            for index, shape in operand.shape.leaves()
            for output, result in outputs
            if shape is result
        ]
    )


def _triangular_solve_pairs(instruction: Instruction) -> tuple[Pair, ...]:
    a, b = instruction.operands
    return () if a is b else (((1, ()), ()),)


def _sort_pairs(instruction: Instruction) -> tuple[Pair, ...]:
    return tuple(
        [
            pair
            for pair in each_operand(instruction, len(instruction.operands))
            if len(instruction.operands[pair[0][0]].users) == 1
            and instruction.operands.count(instruction.operands[pair[0][0]]) == 1
        ]
    )


def _call_pairs(instruction: Instruction) -> tuple[Pair, ...]:
    """A call whose callee is one elementwise operation on the operand, which nothing else reads."""
    callee = instruction.called_computations[0]
    root = callee.root
    if not TABLE[root.opcode].elementwise or root.opcode is Opcode.COPY:
        return ()
    return tuple(
        [
            ((number, ()), ())
            for number, parameter in enumerate(callee.parameters)
            if list(parameter.users) == [root]
            and len(instruction.operands[number].users) == 1
            and instruction.operands.count(instruction.operands[number]) == 1
        ]
    )


def _fusion_may_pairs(instruction: Instruction) -> tuple[Pair, ...]:
    kind = instruction.attributes_as(Fusion).kind
    callee = instruction.called_computations[0]
    if kind == "kOutput":
        return tuple(_epilogue_pairs(instruction, callee.root))
    if kind not in ("kLoop", "kInput", "kCustom"):
        return ()
    outputs = [(index, shape) for index, shape in instruction.shape.leaves()]
    in_one_pass = instruction.annotations.backend_config == ONE_PASS
    moves = moves_of_results(callee.root)
    pairs = []
    for number, parameter in enumerate(callee.parameters):
        shape = parameter.shape
        matching = [index for index, output in outputs if _have_one_width(output, shape)]
        if moves is not None:
            matching = stored_in_step(parameter, matching, moves)
        if instruction.annotations.backend_config == LOOPS:
            matching = only_results(parameter, matching)
        if matching and (
            only_elementwise_uses(parameter, in_one_pass)
            or (works_in_rows(instruction) and only_row_uses(parameter))
        ):
            pairs.extend([((number, ()), index) for index in matching])
    return tuple(pairs)


def _epilogue_pairs(fusion: Instruction, root: Instruction) -> Iterator[Pair]:
    """Yield what a product is added to, or what only an epilogue reads."""
    if fusion.annotations.backend_config != EPILOGUE:
        yield from [((number, ()), ()) for number in _addends(root)]
        return
    moves = moves_of_results(root)
    results = list(fusion.shape.leaves())
    for number, parameter in enumerate(fusion.called_computations[0].parameters):
        if only_elementwise_uses(parameter, in_one_pass=False):
            found = [index for index, shape in results if shape.compatible(parameter.shape)]
            if moves is not None:
                found = stored_in_step(parameter, found, moves)
            yield from [((number, ()), index) for index in found]


def _addends(root: Instruction) -> Iterator[int]:
    """Yield the parameter that a product is added to, if it is read once: sums may start from it.

    What is added to that sum later, up to the root, may not be overwritten.
    """
    add: Instruction | None = root
    while add is not None and add.opcode is Opcode.ADD:
        for addend, product in (add.operands, tuple(reversed(add.operands))):
            if product.opcode not in (Opcode.DOT, Opcode.CONVOLUTION):
                continue
            if addend.opcode is Opcode.PARAMETER and list(addend.users) == [add]:
                yield addend.attributes_as(Parameter).number
            return
        inner = [x for x in add.operands if x.opcode is Opcode.ADD and list(x.users) == [add]]
        add = inner[0] if len(inner) == 1 else None


_MAY: Final[dict[Opcode, Callable[[Instruction], tuple[Pair, ...]]]] = {
    Opcode.COPY: _never,
    Opcode.BITCAST_CONVERT: _elementwise_pairs,
    Opcode.WHILE: _while_pairs,
    Opcode.CONDITIONAL: _conditional_pairs,
    Opcode.TRIANGULAR_SOLVE: _triangular_solve_pairs,
    Opcode.SORT: _sort_pairs,
    Opcode.CALL: _call_pairs,
    Opcode.FUSION: _fusion_may_pairs,
}

_STEPS: Final = frozenset(
    [x for x in Opcode if TABLE[x].elementwise and x not in _MAY and not TABLE[x].in_place]
)
"""Elementwise operations, which have no pairs but those of shapes that lie alike."""
