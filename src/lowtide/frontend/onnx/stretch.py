"""Stretches of a graph: as many of its nodes as one module can compute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

import lowtide.frontend.onnx.kernels  # noqa: F401, has them in the table.
from lowtide.builder import Builder
from lowtide.frontend.graphs.compiler import GraphCompiler
from lowtide.frontend.graphs.expression import Expression
from lowtide.frontend.graphs.graph import (
    GraphError,
    GraphNode,
    NotConstantError,
    OpGraph,
    UnknownConditionError,
    free_values,
)
from lowtide.frontend.graphs.registry import kernel_for
from lowtide.frontend.onnx.node_list import DOMAIN
from lowtide.ir import Module, Shape
from lowtide.ir.attributes import Parameter
from lowtide.ir.errors import LowtideError, UnsupportedOpError
from lowtide.ir.instruction import Instruction
from lowtide.ir.literal import Array
from lowtide.ir.opcode import Opcode
from lowtide.passes.dead_code import remove_dead_code
from lowtide.records import dataclass

_FIXED_BYTES: Final = 1 << 12
"""Arguments of as many bytes together may become constants because a value that is computed from
them has to be known."""

_CONDITION_BYTES: Final = 16
"""Arguments of as many bytes each, of whole numbers or truth values, may become constants because a
condition depends on them."""

_LARGEST_BYTES: Final = 1 << 20
"""An argument that has to be known itself may have as many bytes."""


@dataclass(frozen=True, eq=False, slots=True)
class Stretch:
    """A part of a graph as a module: its parameters, and the values in its result, by name.

    `constants` are values that need no module, and it is None where there are no others.
    `postponed` are the nodes that are left, in order, with the reasons of those that a module
    cannot compute.
    """

    module: Module | None
    parameters: tuple[str, ...]
    results: tuple[str, ...]
    constants: Mapping[str, Array]
    postponed: tuple[GraphNode, ...]
    reasons: Mapping[str, LowtideError]


class MoreConstantsError(Exception):
    """Values that have to be given as constants before a stretch can be made."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        super().__init__(", ".join(names))


class ConditionsError(MoreConstantsError):
    """Values that have to be given as constants, as conditions need them: these have few values."""


def reads_of(node: GraphNode) -> list[str]:
    """Return the values that a node reads, those of graphs inside of it included, each once."""
    graphs = [x for x in node.attributes.values() if isinstance(x, OpGraph)]
    inner = [value for graph in graphs for value in free_values(graph)]
    return list(dict.fromkeys([x for x in (*node.inputs, *inner) if x]))


def make_stretch(
    name: str,
    nodes: Sequence[GraphNode],
    available: Mapping[str, Shape | Array],
    outputs: Sequence[str],
    on_host: frozenset[str] = frozenset(),
    free: frozenset[str] = frozenset(),
) -> Stretch:
    """Return the module of those of the nodes, given in order, that it can compute.

    `available` are values by name: those given by shape may become parameters, arrays are
    constants. The results are what `outputs` and the other nodes need. Nodes called `on_host`, and
    those that read a value which is not available, are left. Raises MoreConstantsError for values
    that have to be arrays; ConditionsError where conditions need them, not for those in `free`.
    """
    walk = _Walk(name, available, free)
    for node in nodes:
        walk.visit(node, on_host)
    return walk.stretch(outputs)


class _Walk:
    def __init__(
        self, name: str, available: Mapping[str, Shape | Array], free: frozenset[str]
    ) -> None:
        self.builder = Builder(name)
        self.compiler = GraphCompiler(DOMAIN, self.builder)
        self.available = available
        self.free = free
        self.values: dict[str, Expression] = {}
        self.parameters: list[str] = []
        self.computed: list[str] = []
        self.postponed: list[GraphNode] = []
        self.reasons: dict[str, LowtideError] = {}

    def visit(self, node: GraphNode, on_host: frozenset[str]) -> None:
        reads = reads_of(node)
        if node.name in on_host or not all(x in self.values or x in self.available for x in reads):
            self.postponed.append(node)
            return
        for name in reads:
            self._bring(name)
        try:
            self.compiler.step(node, kernel_for(node, DOMAIN), self.values)
        except UnknownConditionError as error:
            self._need_condition(node, reads, error)
        except NotConstantError as error:
            self._need(node, reads, error)
        except (GraphError, UnsupportedOpError) as error:
            self._refuse(node, error)
        else:
            self.computed += [x for x in node.outputs if x]

    def _bring(self, name: str) -> None:
        if name in self.values:
            return
        value = self.available[name]
        if isinstance(value, Shape):
            number = len(self.parameters)
            self.parameters.append(name)
            self.values[name] = Expression(self.builder.parameter(number, value, name))
        else:
            self.values[name] = Expression(np.asarray(value))

    def _refuse(self, node: GraphNode, error: LowtideError) -> None:
        self.postponed.append(node)
        self.reasons[node.name] = error

    def _need(self, node: GraphNode, reads: Sequence[str], error: NotConstantError) -> None:
        """Ask for the arguments on which a value depends, or leave the node for later."""
        direct = [x for x in reads if self.values[x] is error.value]
        if direct and direct[0] in self.available:
            if self._bytes(direct[:1]) > _LARGEST_BYTES:
                self._refuse(node, error)
                return
            raise MoreConstantsError(direct[:1])
        roots = self._arguments_of(error.value)
        if not roots:
            self._refuse(node, error)
            return
        if self._bytes(roots) <= _FIXED_BYTES:
            raise MoreConstantsError(roots)
        self.postponed.append(node)

    def _need_condition(
        self, node: GraphNode, reads: Sequence[str], error: NotConstantError
    ) -> None:
        """Ask for the value of a condition, or leave the node until it is computed.

        What a condition inside of a loop depends on changes from step to step.
        """
        direct = [x for x in reads if self.values[x] is error.value and x in self.available]
        roots = direct[:1] or self._arguments_of(error.value)
        if not roots or self.free.intersection(direct):
            self._refuse(node, error)
            return
        if all(self._may_be_known(x) for x in roots):
            raise ConditionsError(roots)
        self.postponed.append(node)

    def _may_be_known(self, name: str) -> bool:
        value = self.available[name]
        if not isinstance(value, Shape) or name in self.free:
            return False
        return value.nbytes <= _CONDITION_BYTES and not value.element_type.is_floating

    def _bytes(self, names: Sequence[str]) -> int:
        return sum([self.available[x].nbytes for x in names])

    def _arguments_of(self, value: Expression) -> list[str]:
        """The parameters that a value depends on; none where one cannot be told."""
        try:
            start = value.op(self.builder).instruction
        except ValueError:
            return []
        found: dict[str, None] = {}
        seen: set[Instruction] = {start}
        stack = [start]
        while stack:
            top = stack.pop()
            if top.opcode is Opcode.PARAMETER:
                found[self.parameters[top.attributes_as(Parameter).number]] = None
            for operand in top.operands:
                if operand not in seen:
                    seen.add(operand)
                    stack.append(operand)
        return sorted(found, key=self.parameters.index)

    def stretch(self, outputs: Sequence[str]) -> Stretch:
        later = dict.fromkeys([x for node in self.postponed for x in reads_of(node)])
        wanted = [x for x in dict.fromkeys(self.computed) if x in later or x in set(outputs)]
        constants = {x: y for x in wanted if (y := self.values[x].array) is not None}
        results = tuple([x for x in wanted if x not in constants])
        module = None
        if results:
            root = self.builder.tuple([self.values[x].op(self.builder) for x in results])
            module = self.builder.build(root)
            remove_dead_code(module)
        return Stretch(
            module, tuple(self.parameters), results, constants, tuple(self.postponed), self.reasons
        )
