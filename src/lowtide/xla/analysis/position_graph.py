"""The source of the value at each position of a module.

A position is an instruction and an index into its shape, tuples included. Each is a definition, or
passes on the value of another position, or joins those of several: the parameter of a computation
with several callers, the state of a loop, the result of a conditional. Nothing is resolved here, so
no order of the instructions matters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, final

from lowtide.analysis.call_graph import while_body, while_condition
from lowtide.analysis.forwarding import Forward, Forwards, passed_on_in_xla
from lowtide.ir import Instruction, Module, Opcode, Shape, ShapeIndex
from lowtide.ir.traversal import computation_post_order, post_order

DEFINED: Final = -1
"""In place of the number of a source: the position defines a value."""

JOINED: Final = -2
"""In place of the number of a source: the position joins several."""


@final
class Subshapes:
    """The subshapes of one shape, tuples before their elements: indices and where they stand."""

    __slots__ = ("indices", "number", "size", "tables")

    def __init__(self, shape: Shape) -> None:
        self.indices: list[ShapeIndex] = []
        self.tables: list[int] = []
        """The numbers of the tuples among the subshapes."""
        for index, subshape in shape.subshapes():
            if subshape.is_tuple:
                self.tables.append(len(self.indices))
            self.indices.append(index)
        self.number = {index: i for i, index in enumerate(self.indices)}
        self.size = len(self.indices)


@final
class PositionGraph:
    """The positions of a module and their sources.

    Numbers grow from callees to callers, from operands to users, from tuples to their elements.
    `source[n]` is the number of the position whose value is passed on, `DEFINED` or `JOINED`; the
    sources of the latter stand in `joins[n]`. `phis` are the joins at which control flow meets, as
    against several callers of one computation.
    """

    def __init__(self, module: Module) -> None:
        self.module = module
        self.first: dict[Instruction, int] = {}
        """The number of each instruction's position `()`; those of its elements follow."""
        self.instructions: list[Instruction] = []
        """The instructions in order of their positions."""
        self.source: list[int] = []
        self.joins: dict[int, tuple[int, ...]] = {}
        self.phis: dict[int, None] = {}
        self._subshapes: dict[Shape, Subshapes] = {}
        for computation in computation_post_order(module):
            for instruction in post_order(computation):
                self.first[instruction] = len(self.source)
                self.instructions.append(instruction)
                self.source += [DEFINED] * self.subshapes(instruction.shape).size

    # -- positions and numbers -----------------------------------------------------------------

    def subshapes(self, shape: Shape) -> Subshapes:
        """Return the subshapes of a shape, listed once for all instructions of that shape."""
        found = self._subshapes.get(shape)
        if found is None:
            found = self._subshapes[shape] = Subshapes(shape)
        return found

    def number(self, instruction: Instruction, index: ShapeIndex = ()) -> int:
        """Return the number of a position; raises KeyError where there is none."""
        first = self.first[instruction]
        return first + self.subshapes(instruction.shape).number[index] if index else first

    def range_of(self, instruction: Instruction) -> range:
        """Return the numbers of all positions of an instruction."""
        first = self.first[instruction]
        return range(first, first + self.subshapes(instruction.shape).size)

    # -- edges ---------------------------------------------------------------------------------

    def pass_on(self, instruction: Instruction, forwards: Forwards) -> None:
        """Let parts of the result be parts of the operands."""
        for forward in forwards:
            operand = instruction.operands[forward.operand]
            self._pass_subtree(operand, forward.source, instruction, forward)

    def pass_result(self, root: Instruction, instruction: Instruction, output: ShapeIndex) -> None:
        """Let the part of a result at `output` be that of another instruction."""
        self._pass_subtree(root, (), instruction, Forward(output, 0, (), tables=not output))

    def _pass_subtree(
        self, giver: Instruction, index: ShapeIndex, taker: Instruction, forward: Forward
    ) -> None:
        size = self.subshapes(giver.shape.at(index)).size
        start = self.number(giver, index)
        target = self.number(taker, forward.output)
        self.source[target : target + size] = range(start, start + size)
        if not forward.tables:
            for table in self.subshapes(taker.shape.at(forward.output)).tables:
                self.source[target + table] = DEFINED

    def join(self, taker: Instruction, givers: Iterable[Instruction]) -> None:
        """Let each position of `taker` be one of those of `givers`, which have its shape."""
        starts = [self.first[giver] for giver in dict.fromkeys(givers)]
        for offset, number in enumerate(self.range_of(taker)):
            if len(starts) == 1:
                self.source[number] = starts[0] + offset
            else:
                self.source[number] = JOINED
                self.joins[number] = tuple([start + offset for start in starts])


Rule = Callable[[Instruction], Forwards]


def within_computations(module: Module, rule: Rule = passed_on_in_xla) -> PositionGraph:
    """Return the graph in which parameters and calls of every kind define all their positions."""
    graph = PositionGraph(module)
    for instruction in graph.instructions:
        if instruction.opcode is Opcode.ASYNC_START:
            graph.pass_on(instruction, _given_to_async(instruction))
        else:
            graph.pass_on(instruction, rule(instruction))
    return graph


def across_calls(module: Module, rule: Rule = passed_on_in_xla) -> PositionGraph:
    """Return the graph in which values flow into and out of called computations.

    `rule` says what an operation passes on. Computations that are applied per element, or that
    nobody calls, define their parameters. The module has no recursion.
    """
    graph = PositionGraph(module)
    given: dict[Instruction, list[Instruction]] = {}
    for instruction in graph.instructions:
        returns = _RETURNS.get(instruction.opcode)
        if returns is None:
            graph.pass_on(instruction, rule(instruction))
            continue
        for parameter, givers in _arguments(instruction):
            given.setdefault(parameter, []).extend(givers)
        returns(graph, instruction)
    for parameter, givers in given.items():
        graph.join(parameter, givers)
    return graph


def _arguments(caller: Instruction) -> Iterator[tuple[Instruction, Sequence[Instruction]]]:
    """Yield each parameter of what an instruction calls, and the instructions it may stand for."""
    if caller.opcode is Opcode.WHILE:
        body = while_body(caller)
        givers = (caller.operands[0], body.root)
        yield while_condition(caller).parameters[0], givers
        yield body.parameters[0], givers
    elif caller.opcode is Opcode.CONDITIONAL:
        for branch, operand in zip(caller.called_computations, caller.operands[1:], strict=True):
            yield branch.parameters[0], (operand,)
    else:
        parameters = caller.called_computations[0].parameters
        for parameter, operand in zip(parameters, caller.operands, strict=True):
            yield parameter, (operand,)


def _given_to_async(start: Instruction) -> Forwards:
    return [Forward((0, i), i, (), tables=False) for i in range(len(start.operands))]


def _call_returns(graph: PositionGraph, call: Instruction) -> None:
    graph.pass_result(call.called_computations[0].root, call, ())


def _async_returns(graph: PositionGraph, start: Instruction) -> None:
    graph.pass_on(start, _given_to_async(start))
    graph.pass_result(start.called_computations[0].root, start, (1,))


def _while_returns(graph: PositionGraph, loop: Instruction) -> None:
    states = [graph.range_of(x.parameters[0]) for x in loop.called_computations]
    for positions in (*[x[:1] for x in states], *[x[1:] for x in states], graph.range_of(loop)):
        graph.phis.update(dict.fromkeys(positions))
    graph.join(loop, (loop.operands[0], while_body(loop).root))


def _conditional_returns(graph: PositionGraph, conditional: Instruction) -> None:
    branches = [branch.root for branch in conditional.called_computations]
    if len(branches) > 1:
        graph.phis.update(dict.fromkeys(graph.range_of(conditional)))
    graph.join(conditional, branches)


_RETURNS: Final[dict[Opcode, Callable[[PositionGraph, Instruction], None]]] = {
    Opcode.ASYNC_START: _async_returns,
    Opcode.CALL: _call_returns,
    Opcode.CONDITIONAL: _conditional_returns,
    Opcode.WHILE: _while_returns,
}
"""What the operations that run computations return."""
