"""Structure: parameters, tuples, calls, loops, branches, fusions, asynchronous calls, tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from lowtide.ir.attributes import (
    Async,
    Call,
    Conditional,
    CopyStart,
    Fusion,
    GetTupleElement,
    Parameter,
)
from lowtide.ir.element_type import ElementType
from lowtide.ir.errors import ShapeError
from lowtide.ir.opcode import Opcode
from lowtide.ir.shape import TOKEN, ProgramShape, Shape, array_shape, tuple_shape
from lowtide.ops.aliasing import check_aliasing
from lowtide.ops.checks import agree, parameters_match, plain, scalar, token, tuple_of
from lowtide.ops.definition import UNLIMITED, OpDefinition
from lowtide.ops.quantities import NO_COST, Cost, moves_all

Shapes = Sequence[Shape]
Called = Sequence[ProgramShape]

# -- parameters, tuples and tokens -------------------------------------------------------------


def _verify_parameter(
    result: Shape, operands: Shapes, attributes: Parameter, called: Called
) -> None:
    if attributes.number < 0:
        raise ShapeError(f"parameter number {attributes.number} is negative")


def _infer_tuple(operands: Shapes, attributes: Any, called: Called) -> Shape:
    return tuple_shape(list(operands))


def _infer_get_tuple_element(
    operands: Shapes, attributes: GetTupleElement, called: Called
) -> Shape:
    elements = tuple_of(operands[0], "the operand")
    if not 0 <= attributes.index < len(elements):
        raise ShapeError(f"{plain(operands[0])} has no element {attributes.index}")
    return elements[attributes.index]


def _infer_operand(operands: Shapes, attributes: Any, called: Called) -> Shape:
    return operands[0]


def _infer_token(operands: Shapes, attributes: Any, called: Called) -> Shape:
    return TOKEN


def _verify_after_all(result: Shape, operands: Shapes, attributes: Any, called: Called) -> None:
    for number, operand in enumerate(operands):
        token(operand, f"operand {number}")


def _verify_add_dependency(
    result: Shape, operands: Shapes, attributes: Any, called: Called
) -> None:
    token(operands[1], "operand 1")


# -- calls -------------------------------------------------------------------------------------


def _infer_call(operands: Shapes, attributes: Any, called: Called) -> Shape:
    parameters_match(operands, called[0], "to_apply")
    return called[0].result


def _infer_while(operands: Shapes, attributes: Any, called: Called) -> Shape:
    condition, body = called
    parameters_match(operands, condition, "the condition")
    parameters_match(operands, body, "the body")
    result = condition.result
    if result.element_type is not ElementType.PRED or result.dimensions:
        raise ShapeError(f"the condition must return pred[], not {plain(result)}")
    if not agree(body.result, operands[0], exact=True):
        raise ShapeError(f"the body must return {plain(operands[0])}, not {plain(body.result)}")
    return operands[0]


def _infer_conditional(operands: Shapes, attributes: Conditional, called: Called) -> Shape:
    index = scalar(operands[0], "operand 0")
    wanted = ElementType.PRED if attributes.is_predicated else ElementType.S32
    if index.element_type is not wanted:
        raise ShapeError(f"operand 0 must be {wanted.value}[], not {plain(index)}")
    if attributes.is_predicated and len(called) != 2:
        raise ShapeError(f"a predicate chooses between 2 branches, not {len(called)}")
    if len(operands) != len(called) + 1:
        found = len(operands) - 1
        raise ShapeError(f"{len(called)} branches need one operand each, not {found}")
    for number, branch in enumerate(called):
        parameters_match(operands[number + 1 : number + 2], branch, f"branch {number}")
        if not agree(branch.result, called[0].result, exact=True):
            raise ShapeError(
                f"branch {number} returns {plain(branch.result)}, "
                f"branch 0 {plain(called[0].result)}"
            )
    return called[0].result


def _infer_fusion(operands: Shapes, attributes: Fusion, called: Called) -> Shape:
    parameters_match(operands, called[0], "the fused computation")
    return called[0].result


def _verify_fusion(result: Shape, operands: Shapes, attributes: Fusion, called: Called) -> None:
    if attributes.kind not in ("kLoop", "kInput", "kOutput", "kCustom"):
        raise ShapeError(f"kind {attributes.kind!r} is none of kLoop, kInput, kOutput, kCustom")
    check_aliasing(result, operands, attributes.output_to_operand_aliasing)


# -- asynchronous calls and copies -------------------------------------------------------------


def _verify_async_start(result: Shape, operands: Shapes, attributes: Async, called: Called) -> None:
    elements = tuple_of(result, "the result", 2)
    expected = tuple_shape(list(operands))
    if not agree(elements[0], expected, exact=True):
        raise ShapeError(
            f"element 0 must be the operands, {plain(expected)}, not {plain(elements[0])}"
        )
    parameters_match(operands, called[0], "the wrapped computation")
    if not agree(elements[1], called[0].result, exact=True):
        raise ShapeError(
            f"element 1 must be the result {plain(called[0].result)}, not {plain(elements[1])}"
        )
    check_aliasing(result, operands, attributes.output_to_operand_aliasing)


def _infer_async_update(operands: Shapes, attributes: Async, called: Called) -> Shape:
    tuple_of(operands[0], "the operand", 2)
    return operands[0]


def infer_element_1(operands: Shapes, attributes: Any, called: Called) -> Shape:
    """Return element 1 of the operand: the result that an asynchronous start announced."""
    return tuple_of(operands[0], "the operand", 2)[1]


def _infer_copy_start(operands: Shapes, attributes: CopyStart, called: Called) -> Shape:
    return tuple_shape([operands[0], operands[0], array_shape(ElementType.U32)])


def _verify_copy_start(
    result: Shape, operands: Shapes, attributes: CopyStart, called: Called
) -> None:
    elements = tuple_of(result, "the result", 3)
    for number in (0, 1):
        if not agree(elements[number], operands[0], exact=True):
            raise ShapeError(
                f"element {number} must be {plain(operands[0])}, not {plain(elements[number])}"
            )


def _infer_copy_done(operands: Shapes, attributes: Any, called: Called) -> Shape:
    return tuple_of(operands[0], "the operand", 3)[0]


# -- cost --------------------------------------------------------------------------------------


def _tuple_cost(result: Shape, operands: Shapes, attributes: Any, called: Sequence[Cost]) -> Cost:
    return Cost(bytes_accessed=result.nbytes)


def _called_cost(result: Shape, operands: Shapes, attributes: Any, called: Sequence[Cost]) -> Cost:
    total = NO_COST
    for cost in called:
        total = total + cost
    return total


def _conditional_cost(
    result: Shape, operands: Shapes, attributes: Conditional, called: Sequence[Cost]
) -> Cost:
    return Cost(
        max([x.flops for x in called]),
        max([x.transcendentals for x in called]),
        max([x.bytes_accessed for x in called]),
        max([x.unknown for x in called]),
    )


def _fusion_cost(
    result: Shape, operands: Shapes, attributes: Fusion, called: Sequence[Cost]
) -> Cost:
    return called[0].times(1) + moves_all(result, operands, attributes, called)


OPERATIONS: Final = (
    OpDefinition(
        Opcode.PARAMETER,
        "an argument of the computation",
        arity=(0, 0),
        attributes=Parameter,
        verify=_verify_parameter,
        declared=True,
    ),
    OpDefinition(
        Opcode.TUPLE,
        "the tuple of the operands",
        arity=(0, UNLIMITED),
        infer=_infer_tuple,
        cost=_tuple_cost,
        exact_type=True,
    ),
    OpDefinition(
        Opcode.GET_TUPLE_ELEMENT,
        "one element of a tuple",
        attributes=GetTupleElement,
        infer=_infer_get_tuple_element,
        exact_type=True,
    ),
    OpDefinition(
        Opcode.AFTER_ALL,
        "a token that is ready once all operands are",
        arity=(0, UNLIMITED),
        infer=_infer_token,
        verify=_verify_after_all,
        exact_type=True,
    ),
    OpDefinition(
        Opcode.ADD_DEPENDENCY,
        "operand 0, not before the token in operand 1",
        arity=(2, 2),
        infer=_infer_operand,
        verify=_verify_add_dependency,
        exact_type=True,
    ),
    OpDefinition(
        Opcode.OPTIMIZATION_BARRIER,
        "the operand; no optimization looks through",
        infer=_infer_operand,
        cost=moves_all,
        exact_type=True,
    ),
    OpDefinition(
        Opcode.CALL,
        "the result of a computation",
        arity=(0, UNLIMITED),
        attributes=Call,
        calls=("to_apply",),
        infer=_infer_call,
        cost=_called_cost,
        exact_type=True,
    ),
    OpDefinition(
        Opcode.WHILE,
        "the operand after as many steps of the body as the condition holds",
        calls=("condition", "body"),
        infer=_infer_while,
        cost=_called_cost,
        exact_type=True,
    ),
    OpDefinition(
        Opcode.CONDITIONAL,
        "the result of the branch that operand 0 chooses, of its own operand",
        arity=(2, UNLIMITED),
        attributes=Conditional,
        calls=("branch_computations",),
        calls_arity=(1, UNLIMITED),
        infer=_infer_conditional,
        cost=_conditional_cost,
        exact_type=True,
    ),
    OpDefinition(
        Opcode.FUSION,
        "the result of a computation that runs as one kernel",
        arity=(0, UNLIMITED),
        attributes=Fusion,
        calls=("calls",),
        infer=_infer_fusion,
        verify=_verify_fusion,
        cost=_fusion_cost,
        declared=True,
        exact_type=True,
    ),
    OpDefinition(
        Opcode.ASYNC_START,
        "starts a computation: ((operands), result, contexts)",
        arity=(0, UNLIMITED),
        attributes=Async,
        calls=("calls",),
        verify=_verify_async_start,
        cost=_called_cost,
        declared=True,
        exact_type=True,
    ),
    OpDefinition(
        Opcode.ASYNC_UPDATE,
        "a point between start and done of an asynchronous computation",
        attributes=Async,
        calls=("calls",),
        infer=_infer_async_update,
        cost=moves_all,
        declared=True,
        exact_type=True,
    ),
    OpDefinition(
        Opcode.ASYNC_DONE,
        "the result of an asynchronous computation",
        attributes=Async,
        calls=("calls",),
        infer=infer_element_1,
        cost=moves_all,
        declared=True,
        exact_type=True,
    ),
    OpDefinition(
        Opcode.COPY_START,
        "starts a copy: (destination, source, context)",
        attributes=CopyStart,
        infer=_infer_copy_start,
        verify=_verify_copy_start,
        cost=moves_all,
        declared=True,
    ),
    OpDefinition(
        Opcode.COPY_DONE,
        "the result of an asynchronous copy",
        infer=_infer_copy_done,
        cost=moves_all,
        declared=True,
        exact_type=True,
    ),
)
