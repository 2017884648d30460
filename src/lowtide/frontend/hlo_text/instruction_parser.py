"""One instruction in HLO text: result, opcode, operands and attributes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import lowtide.ir.attributes as ir
from lowtide.frontend.hlo_text.async_parser import all_reduce_in_halves, check_async, wrap_async
from lowtide.frontend.hlo_text.checks import check_replication
from lowtide.frontend.hlo_text.lexer import MAX_LIST, Lexer, TokenKind
from lowtide.frontend.hlo_text.literal_parser import parse_literal
from lowtide.frontend.hlo_text.metadata_parser import parse_metadata
from lowtide.frontend.hlo_text.shape_parser import parse_shape
from lowtide.frontend.hlo_text.syntax import COMPUTATION_LISTS, SYNTAX, OpSyntax
from lowtide.ir.annotations import Annotations
from lowtide.ir.computation import Computation
from lowtide.ir.element_type import ElementType
from lowtide.ir.errors import LowtideError
from lowtide.ir.instruction import Instruction
from lowtide.ir.metadata import Metadata
from lowtide.ir.opcode import ASYNC, FORMER_OPCODES, NATIVE_ASYNC_BASES, Opcode
from lowtide.ir.shape import TOKEN, Shape, array_shape, tuple_shape
from lowtide.ir.sharding import TupleSharding
from lowtide.ir.sharding_normal_form import normalize_sharding
from lowtide.records import dataclass
from lowtide.suggestions import nearest

if TYPE_CHECKING:
    from lowtide.frontend.hlo_text.parser import ModuleParser

_OPCODES: Final = {opcode.value: opcode for opcode in Opcode} | FORMER_OPCODES
_ASYNC_OPCODES: Final = {
    "-start": Opcode.ASYNC_START,
    "-update": Opcode.ASYNC_UPDATE,
    "-done": Opcode.ASYNC_DONE,
}


@dataclass(slots=True)
class ParsedAttributes:
    """The attributes of one instruction as they stand in the text."""

    values: dict[str, Any] = field(default_factory=dict)
    generic: dict[str, Any] = field(default_factory=dict)
    computations: dict[str, tuple[Computation, ...]] = field(default_factory=dict)
    predecessors: list[Instruction] = field(default_factory=list)
    metadata: Metadata | None = None
    starts: dict[str, int] = field(default_factory=dict)

    def called(self, syntax: OpSyntax) -> tuple[Computation, ...]:
        """Return the called computations in the order of the syntax."""
        return tuple([c for key in syntax.computations for c in self.computations.get(key, ())])

    def annotations(self) -> Annotations | None:
        """Return the generic attributes, None where there are none."""
        return Annotations(**self.generic) if self.generic else None


def read_opcode(text: str) -> tuple[Opcode, Opcode | None] | None:
    """Return the opcode and, for asynchronous sugar, the wrapped opcode; None for no opcode."""
    opcode = _OPCODES.get(text)
    if opcode is not None:
        return opcode, None
    for suffix, asynchronous in _ASYNC_OPCODES.items():
        base = text.removesuffix(suffix)
        if base != text and base in _OPCODES and base not in NATIVE_ASYNC_BASES:
            return asynchronous, _OPCODES[base]
    return None


def starts_shape(lexer: Lexer) -> bool:
    """Whether the current token begins a shape."""
    if lexer.kind is TokenKind.PRIMITIVE_TYPE or lexer.at("("):
        return True
    if lexer.kind is TokenKind.IDENTIFIER and lexer.text[lexer.end : lexer.end + 1] == "[":
        return True
    return (
        lexer.kind is TokenKind.IDENTIFIER
        and lexer.value == "b"
        and lexer.text[lexer.end : lexer.end + 1] == "("
    )


def parse_right_side(
    parser: ModuleParser,
    computation: Computation,
    name: str | None,
    position: int,
    *,
    attributes_allowed: bool = True,
) -> Instruction:
    """Take `shape opcode(operands), attributes` and add the instruction to the computation.

    Without a name the instruction is named after its opcode.
    """
    lexer = parser.lexer
    lexer.enter()
    shape_start = lexer.start
    shape = parse_shape(lexer) if starts_shape(lexer) else None
    start = lexer.start
    text = (
        lexer.identifier("an opcode") if lexer.kind is TokenKind.IDENTIFIER else _no_opcode(lexer)
    )
    found = read_opcode(text)
    if found is None:
        lexer.fail(f"unknown opcode {text!r}{nearest(text, _OPCODES)}", start)
    opcode, wrapped = found
    syntax = SYNTAX[wrapped or opcode]
    if shape is None and not SYNTAX[opcode].infers_shape:
        lexer.fail(f"{opcode.value} needs the shape of its result before the opcode", shape_start)
    lexer.expect("(", f"behind {text}")
    special, operands = _parse_parentheses(parser, computation, opcode, shape)
    lexer.expect(")", "at the end of the operands")
    parsed = ParsedAttributes()
    opcode, wrapped = all_reduce_in_halves(opcode, wrapped, shape, operands)
    if attributes_allowed:
        parsed = parse_attributes(parser, computation, opcode, wrapped)
    if wrapped is not None or opcode in _ASYNC_OPCODES.values():
        return _finish_async(
            parser, computation, name, position, opcode, wrapped, shape, operands, parsed
        )
    shapes = [operand.shape for operand in operands]
    check_arity(lexer, start, opcode, syntax, shapes)
    _check_required(lexer, start, opcode, syntax, parsed, shapes)
    attributes = special or syntax.build(parsed.values, shapes)
    called = parsed.called(syntax)
    if shape is None:
        shape = infer(lexer, start, opcode, shapes, attributes, called)
    elif opcode in FIXED_SHAPES:
        shape = FIXED_SHAPES[opcode](shape, shapes)
    elif isinstance(attributes, ir.Constant):
        shape = attributes.literal.shape
    instruction = computation.append(
        name or parser.nested_name(computation, opcode), opcode, shape, operands, attributes, called
    )
    finish(parser, instruction, parsed, position)
    parser.check(instruction, start)
    lexer.leave()
    return instruction


def _no_opcode(lexer: Lexer) -> str:
    lexer.expect_fail("an opcode")


def infer(
    lexer: Lexer,
    start: int,
    opcode: Opcode,
    shapes: Sequence[Shape],
    attributes: ir.Attributes,
    called: Sequence[Computation],
) -> Shape:
    """Return the shape of a result that the text leaves out."""
    from lowtide.ops.infer import infer_omitted_shape

    try:
        return infer_omitted_shape(opcode, shapes, attributes, [c.program_shape for c in called])
    except LowtideError as error:
        lexer.fail(f"{opcode.value}: {error}", start)


def finish(
    parser: ModuleParser, instruction: Instruction, parsed: ParsedAttributes, position: int
) -> None:
    """Give a new instruction what any instruction may have."""
    instruction.position = position
    annotations = parsed.annotations()
    if annotations is not None:
        instruction.set_annotations(_fit_sharding(annotations, instruction.shape))
        check_replication(parser.lexer, instruction, position)
    inherit_origin(instruction)
    if parsed.metadata is not None:
        instruction.set_metadata(parsed.metadata)
    for predecessor in parsed.predecessors:
        instruction.add_control_predecessor(predecessor)
    if instruction.opcode in ASYNC:
        _describe_wrapped(instruction.called_computations[0].root, parsed)


def inherit_origin(x: Instruction) -> None:
    """Give an element that is taken from a tuple instruction the origin of what was put there."""
    if x.opcode is not Opcode.GET_TUPLE_ELEMENT or x.annotations.origin:
        return
    source = x.operands[0]
    index = x.attributes_as(ir.GetTupleElement).index
    if source.opcode is Opcode.TUPLE and 0 <= index < len(source.operands):
        origin = source.operands[index].annotations.origin
        if origin:
            x.set_annotations(replace(x.annotations, origin=origin))


_SHARED: Final = ("frontend_attributes", "statistics", "origin", "backend_config")


def _describe_wrapped(root: Instruction, parsed: ParsedAttributes) -> None:
    """Give the wrapped instruction what describes the last asynchronous one that says it."""
    shared = {key: parsed.generic[key] for key in _SHARED if parsed.generic.get(key)}
    if shared:
        root.set_annotations(replace(root.annotations, **shared))
    if parsed.metadata is not None:
        root.set_metadata(parsed.metadata)


def _fit_sharding(annotations: Annotations, shape: Shape) -> Annotations:
    """Return annotations whose sharding is in normal form, one per leaf of a tuple."""
    sharding = annotations.sharding
    if sharding is None:
        return annotations
    sharding = normalize_sharding(sharding)
    if shape.is_tuple and not isinstance(sharding, TupleSharding):
        leaves = sum([1 for _ in shape.leaves()])
        sharding = TupleSharding((sharding,) * max(leaves, 1))
    return replace(annotations, sharding=sharding)


def _transfer_shape(shape: Shape, operands: Sequence[Shape], *, context: bool) -> Shape:
    """Return (data, context if there is one, token), the data as declared."""
    data = shape.tuple_shapes[0] if shape.is_tuple and shape.tuple_shapes else shape
    return tuple_shape([data, array_shape(ElementType.U32), TOKEN] if context else [data, TOKEN])


def _send_shape(shape: Shape, operands: Sequence[Shape]) -> Shape:
    return _transfer_shape(operands[0], operands, context=True)


def _infeed_shape(shape: Shape, operands: Sequence[Shape]) -> Shape:
    """Return (data, token); a shape without elements comes back, and is an error later."""
    return _transfer_shape(shape, operands, context=False) if shape.tuple_shapes else shape


def _received_shape(shape: Shape, operands: Sequence[Shape]) -> Shape:
    """Return the shape of a recv-done: the data of the recv and a token."""
    if operands[0].is_tuple:
        return tuple_shape([*operands[0].tuple_shapes[:1], TOKEN])
    return _transfer_shape(shape, operands, context=False)


FIXED_SHAPES: Final[dict[Opcode, Callable[[Shape, Sequence[Shape]], Shape]]] = {
    Opcode.AFTER_ALL: lambda shape, operands: TOKEN,
    Opcode.ADD_DEPENDENCY: lambda shape, operands: operands[0],
    Opcode.OUTFEED: lambda shape, operands: TOKEN,
    Opcode.INFEED: _infeed_shape,
    Opcode.SEND: _send_shape,
    Opcode.SEND_DONE: lambda shape, operands: TOKEN,
    Opcode.RECV: partial(_transfer_shape, context=True),
    Opcode.RECV_DONE: _received_shape,
}
"""Opcodes whose shape has the form that XLA gives it, whatever the text declares."""


def check_arity(
    lexer: Lexer, start: int, opcode: Opcode, syntax: OpSyntax, shapes: Sequence[Shape]
) -> None:
    """Fail where an opcode with a fixed number of operands has another number."""
    if syntax.arity is not None and len(shapes) != syntax.arity:
        lexer.fail(f"{opcode.value} takes {syntax.arity} operands, found {len(shapes)}", start)


def _check_required(
    lexer: Lexer,
    start: int,
    opcode: Opcode,
    syntax: OpSyntax,
    parsed: ParsedAttributes,
    shapes: Sequence[Shape],
) -> None:
    required = list(syntax.required)
    if opcode is Opcode.BROADCAST and shapes[0].dimensions:
        required = ["dimensions"]
    for key in required:
        if key not in parsed.values:
            lexer.fail(f"{opcode.value} needs the attribute {key}=", start)
    given = set(parsed.computations)
    wanted = [set(syntax.computations)]
    predicated = bool(shapes) and shapes[0].element_type is ElementType.PRED
    if opcode is Opcode.CONDITIONAL:
        wanted = [{"true_computation", "false_computation"}]
        if not predicated:
            wanted = [{"branch_computations"}]
    elif opcode is Opcode.CUSTOM_CALL:
        wanted = [set(), {"to_apply"}, {"called_computations"}]
        if len(given) == 2:
            parsed.computations.pop("to_apply")
            given = {"called_computations"}
    elif opcode in (Opcode.ALL_REDUCE, Opcode.ALL_REDUCE_START, Opcode.SORT):
        wanted = [{"to_apply"}]
    if given not in wanted:
        names = " or ".join([" and ".join(sorted(w)) or "none" for w in wanted])
        lexer.fail(f"{opcode.value} needs the computations {names}", start)


# -- operands ----------------------------------------------------------------------------------


def _parse_parentheses(
    parser: ModuleParser, computation: Computation, opcode: Opcode, shape: Shape | None
) -> tuple[ir.Attributes | None, tuple[Instruction, ...]]:
    """Take what stands between the parentheses: operands, a parameter number or a literal."""
    lexer = parser.lexer
    if opcode is Opcode.PARAMETER:
        start = lexer.start
        number = lexer.integer("a parameter number")
        if number < 0:
            lexer.fail("a parameter number is 0 or more", start)
        return ir.Parameter(number), ()
    if opcode is Opcode.CONSTANT:
        assert shape is not None
        return ir.Constant(parse_literal(lexer, shape)), ()
    operands = []
    while not lexer.at(")"):
        operand = _parse_operand(parser, computation)
        if operand is not None:
            operands.append(operand)
        if len(operands) > MAX_LIST:
            lexer.fail(f"an instruction has more than {MAX_LIST} operands")
        if not lexer.eat(","):
            break
    return None, tuple(operands)


def _parse_operand(parser: ModuleParser, computation: Computation) -> Instruction | None:
    """Take an operand; None for a shape alone or nothing between commas: XLA passes over it."""
    lexer = parser.lexer
    start = lexer.start
    shape = parse_shape(lexer) if starts_shape(lexer) else None
    if parser.invents_operands and shape is not None:
        return parser.invent_operand(computation, shape)
    if lexer.at(",") or (shape is not None and lexer.at(")")):
        return None
    if lexer.kind is TokenKind.IDENTIFIER and lexer.text[lexer.end : lexer.end + 1] == "(":
        lexer.seek(start)
        return parse_right_side(parser, computation, None, start, attributes_allowed=False)
    name_start = lexer.start
    name = lexer.name("the name of an operand, or a nested instruction")
    instruction = computation.instructions.get(name)
    if instruction is None:
        hint = nearest(name, computation.instructions)
        lexer.fail(
            f"no instruction {name!r} before this one in {computation.name!r}{hint}", name_start
        )
    while lexer.at("#"):
        lexer.advance()
        instruction = _element(parser, computation, instruction)
    if shape is not None and not shape.compatible(instruction.shape):
        lexer.fail(f"{name} has shape {instruction.shape}, not {shape}", start)
    return instruction


def _element(
    parser: ModuleParser, computation: Computation, instruction: Instruction
) -> Instruction:
    """Return element N of an operand written `%name#N`."""
    lexer = parser.lexer
    start = lexer.start
    index = lexer.integer("the number of a tuple element")
    elements = instruction.shape.tuple_shapes if instruction.shape.is_tuple else ()
    if not 0 <= index < len(elements):
        lexer.fail(f"{instruction.name} of shape {instruction.shape} has no element {index}", start)
    for user in instruction.users:
        if user.attributes == ir.GetTupleElement(index):
            return user
    return computation.append(
        parser.nested_name(computation, Opcode.GET_TUPLE_ELEMENT),
        Opcode.GET_TUPLE_ELEMENT,
        elements[index],
        (instruction,),
        ir.GetTupleElement(index),
    )


# -- attributes --------------------------------------------------------------------------------


def parse_attributes(
    parser: ModuleParser, computation: Computation, opcode: Opcode, wrapped: Opcode | None = None
) -> ParsedAttributes:
    """Take `, key=value` as often as it comes."""
    lexer = parser.lexer
    syntax = SYNTAX[opcode]
    tables = [syntax.required, syntax.optional]
    generic = syntax.generic
    computations = set(syntax.computations)
    if wrapped is not None:
        computations.clear()
    if wrapped is not None and opcode is Opcode.ASYNC_START:
        inner = SYNTAX[wrapped]
        tables += [inner.required, inner.optional]
        generic = inner.generic
        computations |= set(inner.computations)
    parsed = ParsedAttributes()
    while lexer.at(","):
        lexer.advance()
        start = lexer.start
        key = lexer.attribute_name()
        if key in parsed.starts:
            lexer.fail(f"the attribute {key} stands twice", start)
        parsed.starts[key] = start
        if key == "metadata":
            parsed.metadata = parse_metadata(lexer)
        elif key == "control-predecessors":
            parsed.predecessors = _parse_instructions(parser, computation)
        elif key in computations:
            parsed.computations[key] = _parse_computations(parser, key)
        elif key in generic:
            parsed.generic[key] = generic[key](lexer)
        else:
            take = next((table[key] for table in tables if key in table), None)
            if take is None:
                known = [k for table in (*tables, generic) for k in table]
                known += [*computations, "metadata", "control-predecessors"]
                lexer.fail(
                    f"{(wrapped or opcode).value} has no attribute {key!r}"
                    f"{nearest(key, sorted(known))}",
                    start,
                )
            parsed.values[key] = take(lexer)
    return parsed


def _parse_instructions(parser: ModuleParser, computation: Computation) -> list[Instruction]:
    lexer = parser.lexer
    lexer.expect("{")
    instructions = []
    if lexer.at("}"):
        lexer.expect_fail("the name of an instruction")
    for _ in lexer.elements("}"):
        start = lexer.start
        name = lexer.name("the name of an instruction")
        if name not in computation.instructions:
            hint = nearest(name, computation.instructions)
            lexer.fail(f"no instruction {name!r} before this one{hint}", start)
        instructions.append(computation.instructions[name])
    lexer.expect("}")
    return instructions


def _parse_computations(parser: ModuleParser, key: str) -> tuple[Computation, ...]:
    lexer = parser.lexer
    if key not in COMPUTATION_LISTS:
        return (parser.parse_computation_value(),)
    lexer.expect("{")
    computations = [parser.parse_computation_value() for _ in lexer.elements("}")]
    lexer.expect("}")
    return tuple(computations)


# -- asynchronous instructions -----------------------------------------------------------------


def _finish_async(
    parser: ModuleParser,
    computation: Computation,
    name: str | None,
    position: int,
    opcode: Opcode,
    wrapped: Opcode | None,
    shape: Shape | None,
    operands: tuple[Instruction, ...],
    parsed: ParsedAttributes,
) -> Instruction:
    assert shape is not None
    lexer = parser.lexer
    if opcode is Opcode.ASYNC_START:
        callee = wrap_async(parser, position, wrapped, shape, operands, parsed)
    else:
        callee = check_async(parser, position, opcode, wrapped, shape, operands, parsed)
    thread = parsed.values.get("async_execution_thread", callee.execution_thread)
    attributes = ir.Async(thread, _async_aliasing(opcode, wrapped, parsed))
    instruction = computation.append(
        name or parser.nested_name(computation, opcode),
        opcode,
        shape,
        operands,
        attributes,
        (callee,),
    )
    finish(parser, instruction, parsed, position)
    lexer.leave()
    return instruction


_ALIASING: Final = "output_to_operand_aliasing"


def _async_aliasing(
    opcode: Opcode, wrapped: Opcode | None, parsed: ParsedAttributes
) -> tuple[ir.Aliasing, ...]:
    """Return the aliasing of an async-start; where what it wraps can have one, it is of that."""
    known = wrapped is not None and _ALIASING in SYNTAX[wrapped].optional
    if opcode is not Opcode.ASYNC_START or known:
        return ()
    return tuple(parsed.values.get(_ALIASING, ()))
