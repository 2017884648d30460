"""Conditionals whose branches can be changed, and changes of what they take and return."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lowtide.ir import Computation, Instruction, Module, Opcode, Shape
from lowtide.ir.attributes import GetTupleElement
from lowtide.ir.shape import tuple_shape
from lowtide.ir.traversal import computation_post_order
from lowtide.passes.call_sites import count_references, is_present
from lowtide.passes.dead_code import sweep
from lowtide.passes.editing import (
    TupleElements,
    element_index,
    make,
    make_tuple,
    read_elements,
    remove_with_operands,
    reshape_tuple,
    set_elements,
)
from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class Branch:
    """A branch of a conditional, and the operand that it gets."""

    conditional: Instruction
    number: int

    @property
    def computation(self) -> Computation:
        """What the branch runs."""
        return self.conditional.called_computations[self.number]

    @property
    def parameter(self) -> Instruction:
        """The parameter of the branch."""
        return self.computation.parameters[0]

    @property
    def operand(self) -> Instruction:
        """The value of the parameter outside."""
        return self.conditional.operands[1 + self.number]

    def elements(self) -> dict[int, list[Instruction]] | None:
        """Return the instructions that read each element; None where it is read as a whole."""
        parameter = self.parameter
        if not parameter.shape.is_tuple or parameter.has_control_edges:
            return None
        found = read_elements(parameter)
        if found is None or any(x.has_control_edges for xs in found.values() for x in xs):
            return None
        return found

    def origin(self, x: Instruction) -> object:
        """Return what stands outside for a value of the branch; None for what is made within.

        Values with equal origins are equal.
        """
        if x is self.parameter:
            return self.operand
        if x.opcode is not Opcode.GET_TUPLE_ELEMENT or x.operands[0] is not self.parameter:
            return None
        return _element_of(self.operand, element_index(x))

    def outside(self, x: Instruction) -> Instruction:
        """Return the instruction outside for a value of the branch that has an origin."""
        return (
            self.operand if x is self.parameter else TupleElements(self.operand)[element_index(x)]
        )

    def take(self, operand: Instruction) -> None:
        """Give the branch another operand; its parameter gets that shape."""
        old = self.operand
        self.conditional.replace_operand(1 + self.number, operand)
        remove_with_operands(old)


def _element_of(source: Instruction, index: int) -> object:
    """Return the instruction that is an element of a tuple, or what names it where none is."""
    if source.opcode is Opcode.TUPLE:
        element = source.operands[index]
        if element.opcode is Opcode.GET_TUPLE_ELEMENT:
            return _element_of(element.operands[0], element_index(element))
        return element
    return (source, index)


def branches_of(conditional: Instruction) -> list[Branch]:
    """Return the branches of a conditional."""
    return [Branch(conditional, i) for i in range(len(conditional.called_computations))]


def choices_of(module: Module) -> Iterator[Instruction]:
    """Yield the conditionals whose branches can be changed, inner ones first.

    Nothing else calls these, and no branch stands for several cases.
    """
    references = count_references(module)
    for computation in computation_post_order(module):
        if module.computations.get(computation.name) is not computation:
            continue
        for x in list(computation.instructions.values()):
            if x.opcode is not Opcode.CONDITIONAL or x.has_control_edges:
                continue
            if not is_present(x):
                continue
            if all(references[callee] == 1 for callee in x.called_computations) and _fits(x):
                yield x


def _fits(x: Instruction) -> bool:
    """Whether shapes agree down to the layouts, as they need not."""
    return all(
        branch.operand.shape is branch.parameter.shape and branch.computation.root.shape is x.shape
        for branch in branches_of(x)
    )


def results_by_branch(x: Instruction) -> list[tuple[Instruction, ...]] | None:
    """Return the elements that each branch returns; None where one does not end by a tuple."""
    roots = [branch.computation.root for branch in branches_of(x)]
    if not x.shape.is_tuple:
        return None
    if any(y.opcode is not Opcode.TUPLE or y.users or y.has_control_edges for y in roots):
        return None
    return [y.operands for y in roots]


def keep_results(x: Instruction, kept: Sequence[int]) -> None:
    """Let the branches return some elements only; nobody may read the others, or the whole."""
    for branch in branches_of(x):
        root = branch.computation.root
        set_elements(root, [root.operands[i] for i in kept])
        sweep(branch.computation)
    reshape_tuple(x, tuple_shape([x.shape.tuple_shapes[i] for i in kept]), kept)
    _renumber(x, kept)


def keep_operands(branch: Branch, kept: Sequence[int]) -> None:
    """Give a branch some elements of its operand only; it must not read the others."""
    elements = TupleElements(branch.operand)
    shapes = branch.parameter.shape.tuple_shapes
    parent = branch.conditional.parent
    operand = make_tuple(parent, [elements[i] for i in kept], branch.operand)
    reshape_tuple(branch.parameter, tuple_shape([shapes[i] for i in kept]), kept)
    _renumber(branch.parameter, kept)
    branch.take(operand)


def drop_operand(branch: Branch) -> None:
    """Give a branch that reads nothing an empty tuple."""
    operand = make_tuple(branch.conditional.parent, [], branch.operand)
    reshape_tuple(branch.parameter, operand.shape)
    branch.take(operand)


def add_operands(branch: Branch, values: Sequence[Instruction]) -> list[Instruction]:
    """Give a branch further values; return them as the branch reads them."""
    parameter, computation = branch.parameter, branch.computation
    parent = branch.conditional.parent
    if branch.elements() is not None:
        before = TupleElements(branch.operand)
        old = [before[i] for i in range(len(parameter.shape.tuple_shapes))]
    else:
        old = [branch.operand]
        _read_first(parameter)
    operand = make_tuple(parent, [*old, *values], branch.operand)
    reshape_tuple(parameter, operand.shape)
    branch.take(operand)
    made = []
    for number, value in enumerate(values, len(old)):
        attributes = GetTupleElement(number)
        made.append(
            make(
                computation, Opcode.GET_TUPLE_ELEMENT, value.shape, (parameter,), value, attributes
            )
        )
    return made


def _read_first(parameter: Instruction) -> None:
    """Make what reads a parameter read the first element of what it is about to become."""
    shape, computation = parameter.shape, parameter.parent
    readers, was_root = list(parameter.users), parameter.is_root
    first = make(
        computation, Opcode.GET_TUPLE_ELEMENT, shape, (parameter,), parameter, GetTupleElement(0)
    )
    for reader in readers:
        for number, operand in enumerate(reader.operands):
            if operand is parameter:
                reader.replace_operand(number, first)
    if was_root:
        computation.root = first


def _renumber(source: Instruction, kept: Sequence[int]) -> None:
    numbers = {old: new for new, old in enumerate(kept)}
    for user in list(source.users):
        index = numbers.get(element_index(user))
        if index is None:
            source.parent.remove(user)
        else:
            user.set_attributes(GetTupleElement(index))


def array_shapes(shape: Shape) -> list[Shape] | None:
    """Return the shapes of an array, or of a tuple of arrays; None for other values."""
    shapes = list(shape.tuple_shapes) if shape.is_tuple else [shape]
    return shapes if all(x.is_array and not x.is_dynamic for x in shapes) else None
