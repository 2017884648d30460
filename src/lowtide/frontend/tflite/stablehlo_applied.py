"""Operators from StableHLO that apply a subgraph to numbers: reductions, sorts, scatters."""

from __future__ import annotations

from typing import Final

from lowtide.builder import Op, SubComputation
from lowtide.frontend.graphs.compiler import constants_in
from lowtide.frontend.graphs.context import OpKernelContext
from lowtide.frontend.graphs.expression import Expression
from lowtide.frontend.graphs.graph import OpGraph, free_values
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.tflite.node import DOMAIN, LiteNode
from lowtide.ir import Opcode, array_shape
from lowtide.ir.attributes import Scatter, Window, WindowDimension
from lowtide.ir.element_type import ElementType


def _applied(context: OpKernelContext, types: list[ElementType]) -> SubComputation:
    """The subgraph of an operator as a function of numbers of some types."""
    graph = context.node.attributes["body"]
    assert isinstance(graph, OpGraph)
    if len(graph.inputs) != len(types):
        raise context.error(f"its subgraph takes {len(graph.inputs)} numbers, not {len(types)}")
    known = constants_in(context.scope, free_values(graph))
    child = context.builder.sub_builder(graph.name)
    given = {
        name: Expression(child.parameter(i, array_shape(kind)))
        for i, (name, kind) in enumerate(zip(graph.inputs, types, strict=True))
    }
    results = context.compiler.within(child).run(graph, {**known, **given})
    values = [child.reshape(x.op(child), []) for x in results]
    return child.build_computation(values[0] if len(values) == 1 else child.tuple(values))


def _give_all(node: LiteNode, found: Op, count: int) -> None:
    b = node.b
    for i in range(count):
        node.give(found if count == 1 else b.get_tuple_element(found, i))


@op("STABLEHLO_REDUCE", domain=DOMAIN)
def reduce(context: OpKernelContext) -> None:
    """Give the operands folded along some dimensions, from initial values."""
    node, b = LiteNode(context), context.builder
    operands = context.inputs()
    count = len(operands) // 2
    inits = [b.reshape(x, []) for x in operands[count:]]
    types = [x.element_type for x in operands[:count]]
    function = _applied(context, [*types, *types])
    _give_all(node, b.reduce(operands[:count], inits, function, node.numbers(0)), count)


@op("STABLEHLO_REDUCE_WINDOW", domain=DOMAIN)
def reduce_window(context: OpKernelContext) -> None:
    """Give the operands folded within each position of a window, from initial values."""
    node, b = LiteNode(context), context.builder
    operands = context.inputs()
    count, rank = len(operands) // 2, operands[0].rank
    sizes, strides, base, dilations = [node.numbers(i) or [1] * rank for i in range(4)]
    padding = node.numbers(4) or [0] * 2 * rank
    window = [
        WindowDimension(
            sizes[i], strides[i], padding[2 * i], padding[2 * i + 1], dilations[i], base[i]
        )
        for i in range(rank)
    ]
    inits = [b.reshape(x, []) for x in operands[count:]]
    types = [x.element_type for x in operands[:count]]
    function = _applied(context, [*types, *types])
    found = b.reduce_window(operands[:count], inits, function, Window(tuple(window)))
    _give_all(node, found, count)


@op("STABLEHLO_SORT", domain=DOMAIN)
def sort(context: OpKernelContext) -> None:
    """Give the operands reordered together along a dimension."""
    node, b = LiteNode(context), context.builder
    operands = context.inputs()
    types = [x.element_type for x in operands for _ in range(2)]
    stable = bool(node.code(1))
    found = b.sort(operands, _applied(context, types), node.long(0), is_stable=stable)
    _give_all(node, found, len(operands))


@op("STABLEHLO_SCATTER", domain=DOMAIN, inputs=3)
def scatter(context: OpKernelContext) -> None:
    """Give an operand with updates combined into windows at vectors of places."""
    node, b = LiteNode(context), context.builder
    x, places, updates = context.inputs()
    windows, inserted, mapped = [tuple(node.numbers(i)) for i in (1, 2, 3)]
    attributes = Scatter(
        update_window_dims=windows,
        inserted_window_dims=inserted,
        scatter_dims_to_operand_dims=mapped,
        index_vector_dim=node.long(4),
    )
    function = _applied(context, [x.element_type] * 2)
    node.give(b.scatter(x, places, updates, function, attributes))


_WINDOWED: Final = {
    1: Opcode.ADD,
    2: Opcode.MULTIPLY,
    3: Opcode.MINIMUM,
    4: Opcode.MAXIMUM,
    5: Opcode.AND,
    6: Opcode.OR,
}
"""The functions of windows by their codes."""


@op("REDUCE_WINDOW", domain=DOMAIN, inputs=5)
def reduce_window_by_name(context: OpKernelContext) -> None:
    """Give what a function comes to in each position of a window.

    Inputs are the operand, the initial value, sizes, strides and dilations.
    """
    node, b = LiteNode(context), context.builder
    code = node.number(0)
    if code not in _WINDOWED:
        raise node.error(f"function {code}; known are 1 to {len(_WINDOWED)}")
    x = context.input(0)
    sizes, strides, dilations = [context.ints(i) for i in (2, 3, 4)]
    window = [
        WindowDimension(size, stride, 0, 0, dilation)
        for size, stride, dilation in zip(sizes, strides, dilations, strict=True)
    ]
    start = b.reshape(context.input(1), [])
    step = b.scalar_computation(_WINDOWED[code], x.element_type)
    node.give(b.reduce_window(x, start, step, Window(tuple(window))))
