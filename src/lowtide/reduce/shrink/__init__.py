"""Modules with small shapes and the structure of large ones, which the evaluator can run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lowtide.ir import Instruction, InvalidModuleError, LowtideError, Module, Opcode
from lowtide.ir.attributes import Constant
from lowtide.ir.clone import CloneMap, clone_module
from lowtide.ir.literal import Literal
from lowtide.ir.shape import ProgramShape, Shape, ShapeIndex, array_shape, tuple_shape
from lowtide.reduce.shrink.attributes import Resized, resized_attributes
from lowtide.reduce.shrink.choice import Choice
from lowtide.reduce.shrink.loops import run_less, wanted_counts
from lowtide.reduce.shrink.relations import Relations
from lowtide.verifier import verify

__all__ = ["shrink"]

_MOST_ATTEMPTS: Final = 200

Leaf = Callable[[ShapeIndex, Shape], Shape]
"""What becomes of an array in a tuple, or of an array alone at index ()."""


def shrink(module: Module) -> Module:
    """Return a module with the same instructions, operands and opcodes, but smaller arrays.

    A size becomes about its logarithm; sizes that have to fit one another still do: see
    `relations.Relations`. Where that cannot be held, sizes stay what they are. Constants are cut,
    paddings and windows changed as needed, and loops with a known trip count run less often, twice
    at least. Raises LowtideError where no sizes are found for which the module is valid.
    """
    relations = Relations(module)
    for _ in range(_MOST_ATTEMPTS):
        choice = Choice(relations.sizes, relations.sums, relations.bounds)
        small = _resized(module, relations, choice)
        try:
            verify(small)
        except InvalidModuleError as error:
            if not _fix(module, relations, error):
                raise
            continue
        return small
    raise LowtideError(f"{module.name}: no small sizes are found for which the module is valid")


def _fix(module: Module, relations: Relations, error: InvalidModuleError) -> bool:
    """Fix the sizes of the instruction that an error names; return whether that is news."""
    for computation in module.computations.values():
        if error.instruction in computation.instructions:
            return relations.fix(computation.instructions[error.instruction])
    return False


def _resized(module: Module, relations: Relations, choice: Choice) -> Module:
    mapping = CloneMap()
    small = clone_module(module, mapping)
    copies = mapping.instructions
    for x, copy in copies.items():
        copy.set_shape(_small_shape(x, relations, choice))
    for x, copy in copies.items():
        if x.opcode is Opcode.CONSTANT:
            literal = x.attributes_as(Constant).literal
            copy.set_attributes(Constant(_cut(literal, copy.shape)))
            continue
        operands = [_change(operand, copies[operand]) for operand in x.operands]
        made = resized_attributes(x.opcode, x.attributes, operands, _change(x, copy))
        if made is not x.attributes:
            copy.set_attributes(made)
    _resize_header(module, small)
    for count in wanted_counts(module, lambda x, i: choice.of(relations.of(x)[i])):
        run_less(copies[count.loop], count.old, count.new)
    return small


def _small_shape(x: Instruction, relations: Relations, choice: Choice) -> Shape:
    def leaf(index: ShapeIndex, shape: Shape) -> Shape:
        return _sized(shape, tuple([choice.of(v) for v in relations.of(x, index)]))

    return _with_leaves(x.shape, leaf)


def _with_leaves(shape: Shape, leaf: Leaf, index: ShapeIndex = ()) -> Shape:
    if not shape.is_tuple:
        return leaf(index, shape)
    elements = enumerate(shape.tuple_shapes)
    return tuple_shape([_with_leaves(x, leaf, (*index, i)) for i, x in elements])


def _sized(shape: Shape, dimensions: tuple[int, ...]) -> Shape:
    if dimensions == shape.dimensions:
        return shape
    return array_shape(shape.element_type, dimensions, shape.layout, shape.dynamic)


def _resize_header(module: Module, small: Module) -> None:
    """Give the entry's layouts, which callers use, the new sizes."""
    layout = module.entry_layout
    if layout is None:
        return
    parameters = zip(layout.parameters, small.entry.parameters, strict=True)
    small.entry_layout = ProgramShape(
        tuple([_as_small(shape, parameter.shape) for shape, parameter in parameters]),
        _as_small(layout.result, small.entry.root.shape),
        layout.parameter_names,
    )


def _as_small(shape: Shape, small: Shape) -> Shape:
    return _with_leaves(shape, lambda index, leaf: _sized(leaf, small.at(index).dimensions))


def _change(x: Instruction, copy: Instruction) -> Resized:
    """The dimensions of an array before and after; of the first one of a tuple."""
    for index, leaf in x.shape.leaves():
        return Resized(leaf.dimensions, copy.shape.at(index).dimensions)
    return Resized((), ())


def _cut(literal: Literal, shape: Shape) -> Literal:
    """Return the corner of a constant at index 0; of a tuple, the corners of its elements."""
    if literal.shape is shape:
        return literal
    if shape.is_tuple:
        pairs = zip(literal.elements, shape.tuple_shapes, strict=True)
        elements = tuple([_cut(element, part) for element, part in pairs])
        return Literal(shape, elements, elided=literal.elided)
    corner = tuple([slice(size) for size in shape.dimensions])
    return Literal(shape, literal.array[corner], elided=literal.elided)
