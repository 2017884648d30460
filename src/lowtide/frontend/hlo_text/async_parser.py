"""Asynchronous sugar: `X-start`, `X-update` and `X-done` around a generated computation."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import lowtide.ir.attributes as ir
from lowtide.frontend.hlo_text.async_names import WRAPPED, parameter_name
from lowtide.frontend.hlo_text.syntax import SYNTAX
from lowtide.ir.computation import Computation
from lowtide.ir.instruction import Instruction
from lowtide.ir.opcode import ASYNC, Opcode
from lowtide.ir.shape import Shape
from lowtide.ir.traversal import callees

if TYPE_CHECKING:
    from lowtide.frontend.hlo_text.instruction_parser import ParsedAttributes
    from lowtide.frontend.hlo_text.parser import ModuleParser


def all_reduce_in_halves(
    opcode: Opcode, wrapped: Opcode | None, shape: Shape | None, operands: tuple[Instruction, ...]
) -> tuple[Opcode, Opcode | None]:
    """Return what an all-reduce-start or -done is, and what it wraps.

    One that has its operands in its shape is sugar: the start of this name has only results.
    """
    if opcode is Opcode.ALL_REDUCE_START and shape is not None:
        elements = shape.tuple_shapes if shape.is_tuple else ()
        if elements and elements[0].is_tuple:
            return Opcode.ASYNC_START, Opcode.ALL_REDUCE
    if opcode is Opcode.ALL_REDUCE_DONE and operands and operands[0].opcode in ASYNC:
        return Opcode.ASYNC_DONE, Opcode.ALL_REDUCE
    return opcode, wrapped


def wrap_async(
    parser: ModuleParser,
    position: int,
    wrapped: Opcode | None,
    shape: Shape,
    operands: tuple[Instruction, ...],
    parsed: ParsedAttributes,
) -> Computation:
    """Return the computation that an async-start runs, made from its sugar if it is sugar."""
    lexer = parser.lexer
    elements = shape.tuple_shapes
    if not shape.is_tuple or len(elements) < 2 or not elements[0].is_tuple:
        lexer.fail("an async-start has the shape ((operands...), result, contexts...)", position)
    if wrapped is None:
        called = parsed.computations.get("calls")
        if called is None:
            lexer.fail("async-start needs the attribute calls=", position)
        callee = called[0]
        if callee in parser.async_starts:
            lexer.fail(f"computation {callee.name} is called by two async-start", position)
    else:
        callee = _generate(parser, position, wrapped, elements, operands, parsed)
    parser.async_starts.add(callee)
    thread = parsed.values.get("async_execution_thread", ir.MAIN_THREAD)
    _set_thread(callee, thread)
    return callee


def _set_thread(computation: Computation, thread: str) -> None:
    """What a computation calls runs on its thread, whatever was said of it before."""
    stack, seen = [computation], {computation}
    while stack:
        current = stack.pop()
        current.execution_thread = thread
        for x in current.instructions.values():
            if isinstance(x.attributes, ir.Async):
                x.set_attributes(replace(x.attributes, execution_thread=thread))
        called = [callee for callee in callees(current) if callee not in seen]
        seen.update(called)
        stack += called


def _generate(
    parser: ModuleParser,
    position: int,
    wrapped: Opcode,
    told: tuple[Shape, ...],
    operands: tuple[Instruction, ...],
    parsed: ParsedAttributes,
) -> Computation:
    """Return a new computation whose root is the wrapped instruction.

    It has the operands that the start tells of, or those it is given where these are too many or
    too few.
    """
    lexer = parser.lexer
    syntax = SYNTAX[wrapped]
    called = parsed.called(syntax)
    shapes, result = list(told[0].tuple_shapes), told[1]
    if len(shapes) != (len(operands) if syntax.arity is None else syntax.arity):
        shapes = [x.shape for x in operands]
    if wrapped in (Opcode.CALL, Opcode.FUSION) and called:
        shapes = [p.shape for p in called[0].parameters] or shapes
        result = called[0].root.shape
    computation = parser.new_computation(WRAPPED)
    parameters = []
    for number, operand in enumerate(shapes):
        name = parameter_name(number)
        parameters.append(
            computation.append(name, Opcode.PARAMETER, operand, (), ir.Parameter(number))
        )
    for key in syntax.required:
        if key not in parsed.values:
            lexer.fail(f"{wrapped.value} needs the attribute {key}=", position)
    if syntax.arity is not None and len(shapes) != syntax.arity:
        lexer.fail(f"{wrapped.value} takes {syntax.arity} operands, found {len(shapes)}", position)
    values = {key: v for key, v in parsed.values.items() if key != "async_execution_thread"}
    computation.root = computation.append(
        wrapped.value, wrapped, result, tuple(parameters), syntax.build(values, shapes), called
    )
    parser.finish_computation(computation)
    return computation


def check_async(
    parser: ModuleParser,
    position: int,
    opcode: Opcode,
    wrapped: Opcode | None,
    shape: Shape,
    operands: tuple[Instruction, ...],
    parsed: ParsedAttributes,
) -> Computation:
    """Return the computation of an async-update or -done, which is that of its operand."""
    lexer = parser.lexer
    if len(operands) != 1:
        lexer.fail(f"{opcode.value} takes 1 operand, found {len(operands)}", position)
    operand = operands[0]
    if operand.opcode not in ASYNC or operand.opcode is Opcode.ASYNC_DONE:
        lexer.fail(f"{opcode.value} reads an async-start or -update, not {operand.name}", position)
    callee = operand.called_computations[0]
    if wrapped is not None and callee.root.opcode is not wrapped:
        found = callee.root.opcode.value
        lexer.fail(f"expected the wrapped opcode {found}, found {wrapped.value}", position)
    declared = parsed.computations.get("calls")
    if declared is not None and declared[0] is not callee:
        lexer.fail(f"expected calls={callee.name}, found {declared[0].name}", position)
    thread = parsed.values.get("async_execution_thread", callee.execution_thread)
    if thread != callee.execution_thread:
        lexer.fail(
            f"expected the execution thread {callee.execution_thread!r}, found {thread!r}", position
        )
    return callee
