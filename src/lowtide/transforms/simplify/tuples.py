"""Tuples that are taken apart or put together again, and tokens."""

from __future__ import annotations

from lowtide.ir import Instruction, Opcode
from lowtide.ir.attributes import GetTupleElement
from lowtide.passes.matching import has_one_user
from lowtide.passes.rewriting import Rewriter, rule
from lowtide.transforms.simplify.support import Made


@rule(Opcode.GET_TUPLE_ELEMENT)
def element_of_tuple(element: Instruction, at: Rewriter) -> Made:
    """get-tuple-element(tuple(x, y), 0) => x"""
    source = element.operands[0]
    if source.opcode is not Opcode.TUPLE:
        return None
    x = source.operands[element.attributes_as(GetTupleElement).index]
    return x if x.shape is element.shape else None


@rule(Opcode.TUPLE)
def tuple_of_elements(x: Instruction, at: Rewriter) -> Made:
    """tuple(get-tuple-element(x, 0), get-tuple-element(x, 1)) => x"""
    if not x.operands:
        return None
    first = x.operands[0]
    if first.opcode is not Opcode.GET_TUPLE_ELEMENT or first.operands[0].shape is not x.shape:
        return None
    for i, element in enumerate(x.operands):
        if element.opcode is not Opcode.GET_TUPLE_ELEMENT:
            return None
        if element.operands[0] is not first.operands[0]:
            return None
        if element.attributes_as(GetTupleElement).index != i:
            return None
    return first.operands[0]


@rule(Opcode.AFTER_ALL)
def after_one_token(token: Instruction, at: Rewriter) -> Made:
    """after-all(t, t) => t"""
    tokens = dict.fromkeys(token.operands)
    return token.operands[0] if len(tokens) == 1 else None


@rule(Opcode.AFTER_ALL)
def after_nested_tokens(token: Instruction, at: Rewriter) -> Made:
    """after-all(after-all(a, b), c) => after-all(a, b, c)"""
    flat: dict[Instruction, None] = {}
    for operand in token.operands:
        if operand.opcode is Opcode.AFTER_ALL and has_one_user(operand):
            flat.update(dict.fromkeys(operand.operands))
        else:
            flat[operand] = None
    if list(flat) == list(token.operands):
        return None
    return at.build.after_all([at(operand) for operand in flat])


@rule(Opcode.ADD_DEPENDENCY)
def dependency_on_nothing(x: Instruction, at: Rewriter) -> Made:
    """add-dependency(x, after-all()) => x"""
    operand, token = x.operands
    if token.opcode is not Opcode.AFTER_ALL or token.operands:
        return None
    return operand if operand.shape is x.shape else None
