"""Making, replacing and removing instructions outside of rewriting by rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from lowtide.ir import Computation, Instruction, Module, Opcode, Shape
from lowtide.ir.attributes import NO_ATTRIBUTES, Attributes, GetTupleElement
from lowtide.ir.shape import tuple_shape
from lowtide.ir.sharding import TupleSharding
from lowtide.passes.rewriting import is_dead


def make(
    parent: Computation,
    opcode: Opcode,
    shape: Shape,
    operands: tuple[Instruction, ...],
    like: Instruction,
    attributes: Attributes = NO_ATTRIBUTES,
) -> Instruction:
    """Return a new instruction of `parent` that comes from where `like` does."""
    made = parent.add(opcode, shape, operands, attributes)
    made.set_metadata(like.raw_metadata)
    return made


def make_tuple(parent: Computation, elements: list[Instruction], like: Instruction) -> Instruction:
    """Return a new tuple of instructions of `parent`."""
    shape = tuple_shape([x.shape for x in elements])
    return make(parent, Opcode.TUPLE, shape, tuple(elements), like)


def substitute(old: Instruction, new: Instruction) -> None:
    """Make all read `new` instead of `old`, and pass the sharding on where `new` has none.

    A parameter gets none: its sharding is that of the argument.
    """
    sharding = old.annotations.sharding
    bare = new.annotations.sharding is None and new.opcode is not Opcode.PARAMETER
    if sharding is not None and bare:
        new.set_annotations(replace(new.annotations, sharding=sharding))
    old.replace_all_uses_with(new)


def remove_with_operands(instruction: Instruction) -> None:
    """Remove an instruction if it is dead, and then all of its operands that are."""
    waiting = [instruction]
    while waiting:
        current = waiting.pop()
        if current.parent.instructions.get(current.name) is current and is_dead(current):
            current.parent.remove(current)
            waiting += dict.fromkeys(current.operands)


def settle(step: Callable[[Module], int], module: Module) -> int:
    """Run a step until it changes nothing; return how many changes it made.

    For what one change inside makes possible outside, or the other way round: nesting bounds it.
    """
    changes = 0
    while made := step(module):
        changes += made
    return changes


def reshape_tuple(x: Instruction, shape: Shape, kept: Sequence[int] | None = None) -> None:
    """Give a tuple value another shape, of the elements `kept` of the old one, or of any others.

    A sharding by leaves is kept where it still is one, else it goes.
    """
    old, sharding = x.shape, x.annotations.sharding
    x.set_shape(shape)
    if not isinstance(sharding, TupleSharding):
        return
    left = None
    if kept is not None and len(sharding.elements) == sum([1 for _ in old.leaves()]):
        leaves = iter(sharding.elements)
        parts = [[next(leaves) for _ in y.leaves()] for y in old.tuple_shapes]
        left = TupleSharding(tuple([leaf for i in kept for leaf in parts[i]]))
    x.set_annotations(replace(x.annotations, sharding=left))


# -- tuples ------------------------------------------------------------------------------------


def element_index(instruction: Instruction) -> int:
    """Return which element a get-tuple-element takes."""
    return instruction.attributes_as(GetTupleElement).index


def is_element(instruction: Instruction, source: Instruction, index: int) -> bool:
    """Whether an instruction is a certain element of `source`, as get-tuple-element."""
    return (
        instruction.opcode is Opcode.GET_TUPLE_ELEMENT
        and instruction.operands[0] is source
        and element_index(instruction) == index
    )


class TupleElements:
    """The elements of a tuple value: found where there are instructions for them, else made."""

    def __init__(self, source: Instruction) -> None:
        self._source = source
        self._found: dict[int, Instruction] = {}
        if source.opcode is Opcode.TUPLE:
            self._found = dict(enumerate(source.operands))
            return
        for user in source.users:
            if user.opcode is Opcode.GET_TUPLE_ELEMENT:
                self._found.setdefault(element_index(user), user)

    def known(self, index: int) -> Instruction | None:
        """Return what an element is made by; None where it comes with the tuple."""
        return self._found[index] if self._source.opcode is Opcode.TUPLE else None

    def __getitem__(self, index: int) -> Instruction:
        found = self._found.get(index)
        if found is None:
            source = self._source
            shape = source.shape.tuple_shapes[index]
            found = make(
                source.parent,
                Opcode.GET_TUPLE_ELEMENT,
                shape,
                (source,),
                source,
                GetTupleElement(index),
            )
            self._found[index] = found
        return found


def read_elements_at_once(source: Instruction) -> None:
    """Let nobody take elements from a tuple that is made beside it."""
    if source.opcode is not Opcode.TUPLE:
        return
    for x in list(source.users):
        if x.opcode is Opcode.GET_TUPLE_ELEMENT and not x.has_control_edges:
            substitute(x, source.operands[element_index(x)])
            x.parent.remove(x)
    remove_with_operands(source)


def read_elements(source: Instruction) -> dict[int, list[Instruction]] | None:
    """Return the get-tuple-elements of `source` by index; None where it is read as a whole."""
    if source.is_root:
        return None
    found: dict[int, list[Instruction]] = {}
    for user in source.users:
        if user.opcode is not Opcode.GET_TUPLE_ELEMENT:
            return None
        found.setdefault(element_index(user), []).append(user)
    return found


def take_apart(source: Instruction) -> Instruction:
    """Make all that reads a tuple as a whole read a new tuple of its elements; return that."""
    elements = TupleElements(source)
    made = make_tuple(
        source.parent, [elements[i] for i in range(len(source.shape.tuple_shapes))], source
    )
    for user in list(source.users):
        if user.opcode is Opcode.GET_TUPLE_ELEMENT:
            continue
        for number, operand in enumerate(user.operands):
            if operand is source:
                user.replace_operand(number, made)
    if source.is_root:
        source.parent.root = made
    return made


def set_elements(root: Instruction, elements: list[Instruction]) -> Instruction:
    """Make the result of a computation, a tuple, one of these elements; return the new root.

    The elements keep their own shardings; the tuple gets none.
    """
    parent = root.parent
    made = make_tuple(parent, elements, root)
    parent.root = made
    remove_with_operands(root)
    return made
