"""Elements of tuples: the arrays of one may differ in their dimensions."""

from __future__ import annotations

from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elements.values import CallFrame, Element, Request, Rule
from lowtide.ir import Instruction, Opcode, Shape
from lowtide.ir.attributes import GetTupleElement, Parameter


def get_tuple_element(elements: Elements, request: Request) -> Rule:
    """Return the elements of a part of a tuple; nothing else of it is computed where it shows."""
    instruction = request.instruction
    number = instruction.attributes_as(GetTupleElement).index
    source, path, frame = _source(instruction.operands[0], (number,), request.frame)
    if not path:
        return (yield Request(source, request.at, request.mask, frame))
    first = _leaves_before(source.shape, path)
    count = _leaf_count(instruction.shape)
    arrays = frame.tuples.get(source)
    if arrays is None:
        found = yield Request(source, request.at, request.mask, frame)
        return Element(found.values[first : first + count], found.level)
    parts = [elements.read(x, request.at, request.mask) for x in arrays[first : first + count]]
    values = tuple([value for x in parts for value in x.values])
    return Element(values, max([x.level for x in parts], default=0))


def _source(
    instruction: Instruction, path: tuple[int, ...], frame: CallFrame
) -> tuple[Instruction, tuple[int, ...], CallFrame]:
    """What makes the part of a value at a path, as far as it shows, and the rest of the path."""
    while path:
        if instruction.opcode is Opcode.GET_TUPLE_ELEMENT:
            path = (instruction.attributes_as(GetTupleElement).index, *path)
            instruction = instruction.operands[0]
        elif instruction.opcode is Opcode.TUPLE:
            instruction, path = instruction.operands[path[0]], path[1:]
        elif (
            instruction.opcode is Opcode.PARAMETER
            and instruction not in frame.tuples
            and instruction not in frame.elements
            and frame.caller is not None
            and frame.parent is not None
        ):
            number = instruction.attributes_as(Parameter).number
            instruction, frame = frame.caller.operands[number], frame.parent
        else:
            break
    return instruction, path, frame


def _leaves_before(shape: Shape, path: tuple[int, ...]) -> int:
    """How many arrays of a shape come before the first one at a path."""
    count = 0
    for number in path:
        count += sum([_leaf_count(x) for x in shape.tuple_shapes[:number]])
        shape = shape.tuple_shapes[number]
    return count


def _leaf_count(shape: Shape) -> int:
    return sum([leaf.is_array for _, leaf in shape.leaves()])
