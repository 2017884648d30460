"""Symbolic execution: each node's kernel runs once, in topological order, and builds operations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Final, final

import numpy as np

from lowtide.builder import Builder, BuildError, Op, SubComputation
from lowtide.frontend.graphs.context import OpKernelContext
from lowtide.frontend.graphs.expression import ConstantValues, Expression
from lowtide.frontend.graphs.graph import GraphError, GraphNode, OpGraph, execution_order
from lowtide.frontend.graphs.registry import OpKernel, kernels_for
from lowtide.ir import Module, Shape, tuple_shape
from lowtide.ir.literal import Array
from lowtide.passes.dead_code import remove_dead_code
from lowtide.records import dataclass

_DEEPEST: Final = 64
"""How deep graphs may stand in nodes of graphs, and functions call functions."""

_MOST_NODES: Final = 1 << 18
"""Nodes that a graph may come to, those of a function once for each of its calls."""

_MALFORMED: Final = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    TypeError,
    ValueError,
)
"""What kernels raise for attributes and constants that no valid graph has."""


@dataclass(frozen=True, eq=False, slots=True)
class GraphProgram:
    """The module of a graph: its root is the tuple of `results`, in this order.

    `arguments` are the names of the values that its parameters stand for.
    """

    module: Module
    arguments: tuple[str, ...]
    results: tuple[str, ...]


@final
class GraphCompiler:
    """Runs the kernels of one domain on one builder.

    `functions` are the graphs that nodes may name.
    """

    def __init__(
        self,
        domain: str,
        builder: Builder,
        functions: Mapping[str, OpGraph] | None = None,
        values: ConstantValues | None = None,
        depth: int = 0,
        numbers: Iterator[int] | None = None,
    ) -> None:
        self.domain = domain
        self.builder = builder
        self.functions = functions or {}
        self._values = values or ConstantValues()
        self._depth = depth
        self._numbers = numbers or count(1)

    def value_of(self, expression: Expression) -> Array | None:
        """Return the value of an expression, None where it depends on an argument."""
        if expression.array is not None:
            return expression.array
        return self._values.of(expression.op(self.builder))

    def run(self, graph: OpGraph, known: Mapping[str, Expression]) -> list[Expression]:
        """Return the outputs of a graph, given the values by name that it starts from.

        Raises GraphError and UnsupportedOpError, which name the node.
        """
        if self._depth > _DEEPEST:
            raise GraphError(f"{graph.name!r} is called more than {_DEEPEST} levels deep")
        values = dict(known)
        order = execution_order(graph, values)
        kernels = kernels_for(order, self.domain)
        for node, kernel in zip(order, kernels, strict=True):
            self.step(node, kernel, values)
        return [values[name] for name in graph.outputs]

    def step(self, node: GraphNode, kernel: OpKernel, values: dict[str, Expression]) -> None:
        """Add the outputs of one node to the values by name; raises as `run`."""
        self._store(self.stepped(node, kernel, values), values)

    def stepped(
        self, node: GraphNode, kernel: OpKernel, values: Mapping[str, Expression]
    ) -> OpKernelContext:
        """Return the context of a node after its kernel ran, with all outputs; raises as `run`."""
        context = OpKernelContext(node, self._inputs(node, values), self, values)
        if next(self._numbers) > _MOST_NODES:
            raise context.error(
                f"with its functions in place the graph has over {_MOST_NODES:,} nodes"
            )
        file, line = node.source
        try:
            with self.builder.metadata(
                op_type=node.op, op_name=node.name, source_file=file, source_line=line
            ):
                kernel.compute(context)
        except BuildError as error:
            raise context.error(_without_place(error)) from error
        except _MALFORMED as error:
            raise context.error(f"it is malformed: {error}") from error
        return context

    def _inputs(self, node: GraphNode, values: Mapping[str, Expression]) -> list[Expression | None]:
        return [values[name] if name else None for name in node.inputs]

    def _store(self, context: OpKernelContext, values: dict[str, Expression]) -> None:
        names = context.node.outputs
        if len(names) > len(context.outputs):
            raise context.error(
                f"it has {len(context.outputs)} outputs; there is none for {names[-1]!r}"
            )
        pairs = zip(names, context.outputs, strict=False)
        values.update({name: output for name, output in pairs if name})

    def body(
        self,
        graph: OpGraph,
        shapes: Sequence[Shape],
        known: Mapping[str, Expression],
        names: Sequence[str] = (),
        *,
        as_tuple: bool = True,
    ) -> SubComputation:
        """Return a graph as a computation of one parameter, the tuple of values of `shapes`.

        The values are its inputs, or those called `names`; `known` are constants besides. The
        result is the tuple of its outputs, or the only one.
        """
        child = self.builder.sub_builder(graph.name)
        bundle = child.parameter(0, tuple_shape(list(shapes)), "arguments")
        given = {
            name: Expression(child.get_tuple_element(bundle, number))
            for number, name in enumerate(names or graph.inputs)
        }
        values = {**known, **given}
        inner = self.within(child)
        results = [x.op(child) for x in inner.run(graph, values)]
        if not as_tuple and len(results) != 1:
            raise GraphError(f"{graph.name!r} has to give one value, not {len(results)}")
        return child.build_computation(child.tuple(results) if as_tuple else results[0])

    def within(self, builder: Builder) -> GraphCompiler:
        """Return the compiler of a graph that is built into another computation."""
        return GraphCompiler(
            self.domain, builder, self.functions, self._values, self._depth + 1, self._numbers
        )

    def inline(
        self,
        graph: OpGraph,
        arguments: Sequence[Expression],
        known: Mapping[str, Expression] | None = None,
    ) -> list[Expression]:
        """Return the outputs of a graph that is called here; `known` are other values by name."""
        inner = self.within(self.builder)
        return inner.run(
            graph, {**(known or {}), **dict(zip(graph.inputs, arguments, strict=True))}
        )


def compile_graph(
    domain: str,
    graph: OpGraph,
    arguments: Mapping[str, Shape | Array],
    functions: Mapping[str, OpGraph] | None = None,
    state: Mapping[int, str] | None = None,
) -> GraphProgram:
    """Return the module that computes the outputs of a graph.

    `arguments` are values by name: those given by shape become the parameters, in this order, and
    arrays are constants. `state` are outputs by number that may be written over an argument, of
    the same type. Raises GraphError and UnsupportedOpError, which name the node.
    """
    builder = Builder(graph.name)
    names = [name for name, value in arguments.items() if isinstance(value, Shape)]
    values: dict[str, Expression] = {}
    for name, value in arguments.items():
        if isinstance(value, Shape):
            values[name] = Expression(builder.parameter(names.index(name), value, name))
        else:
            values[name] = Expression(np.asarray(value))
    results = GraphCompiler(domain, builder, functions).run(graph, values)
    for number, name in (state or {}).items():
        builder.alias((number,), names.index(name))
    module = builder.build(builder.tuple([x.op(builder) for x in results]))
    remove_dead_code(module)
    name_ends(module, names, graph.outputs)
    return GraphProgram(module, tuple(names), graph.outputs)


def name_ends(module: Module, arguments: Sequence[str], results: Sequence[str]) -> None:
    """Let a module keep the names of its parameters and results: what headers call them."""
    pairs = [*_numbered("argument", arguments), *_numbered("result", results)]
    others = [
        x for x in module.frontend_attributes if not x[0].startswith(("argument_", "result_"))
    ]
    module.frontend_attributes = (*others, *pairs)


def _numbered(kind: str, names: Sequence[str]) -> list[tuple[str, str]]:
    return [(f"{kind}_{number}", name) for number, name in enumerate(names)]


def constants_in(scope: Mapping[str, Expression], names: Sequence[str]) -> dict[str, Expression]:
    """Return those of the named values that are constant arrays."""
    return {x: scope[x] for x in names if x in scope and scope[x].array is not None}


def operand_tuple(builder: Builder, operands: Sequence[Expression]) -> Op:
    """Return the tuple of values."""
    return builder.tuple([x.op(builder) for x in operands])


def _without_place(error: BuildError) -> str:
    """The text of an error without the line of Python, which says nothing about the graph."""
    message = str(error)
    return message.removeprefix(f"{error.file}:{error.line}: ") if error.line else message
