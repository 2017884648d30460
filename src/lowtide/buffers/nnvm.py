"""A module as a graph that NNVM plans: its variables, entries and assignments.

Parameters and constants are variables, one per leaf. An instruction is a node, and the leaves that
it makes are its entries. An instruction that only passes values on is no node. An output that
aliases an argument is an assignment behind all instructions. An instruction that calls computations
is one opaque operation: what runs inside gets no storage here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final, final

import numpy as np

from lowtide.analysis.forwarding import NEW, LeafCounts, Leaves, forwarded, reads_operands
from lowtide.ir import Instruction, Module, Opcode, Shape, UnsupportedOpError
from lowtide.ir.literal import DTYPES
from lowtide.ir.shape import UNBOUNDED
from lowtide.ir.traversal import sequence
from lowtide.ops.may_share import may_share
from lowtide.ops.table import TABLE
from lowtide.planning.nnvm import (
    UNKNOWN_SIZE,
    DecoratedPlan,
    NnvmPlan,
    Pattern,
    StoragePool,
    Variant,
    decorate,
    plan,
)
from lowtide.planning.nnvm.graph import NnvmGraph, NnvmNode
from lowtide.planning.nnvm.ops import NnvmOp
from lowtide.records import dataclass

NO_ENTRY: Final = -1
"""In place of the number of an entry: a leaf that takes no memory, as tokens."""


@dataclass(frozen=True, eq=False, slots=True)
class ModuleGraph:
    """The graph of a module's entry.

    Per node, `instructions` is what it stands for, None for copies and assignments; per
    instruction, `leaves` are the entries of the leaves of its value, depth first, and `NO_ENTRY`
    for those without memory. `results` are those of the root as the caller finds them.
    """

    graph: NnvmGraph
    instructions: tuple[Instruction | None, ...]
    leaves: Mapping[Instruction, Leaves]
    results: Leaves


@dataclass(frozen=True, eq=False, slots=True)
class NnvmModulePlan:
    """Storage for the values of a module as NNVM gives it, before and after decoration."""

    source: ModuleGraph
    plan: NnvmPlan
    decorated: DecoratedPlan

    def pool(self) -> StoragePool:
        """Return memory for all values; raises ValueError where the size of one is not known."""
        return StoragePool(self.source.graph, self.decorated.storage_id)


def plan_module(
    module: Module,
    *,
    match_range: int = 16,
    auto_search_match_range: bool = False,
    num_temp: int = 1,
    variant: Variant | str = Variant.NNVM,
    original: bool = False,
) -> NnvmModulePlan:
    """Return storage for the values of a module's entry, run in its order.

    The options are those of `planning.nnvm.plan` and, `original`, of `decorate`. Raises ValueError
    for options out of range and values of unknown size, UnsupportedOpError as `nnvm_graph` does.
    """
    source = nnvm_graph(module)
    planned = plan(
        source.graph,
        match_range=match_range,
        auto_search_match_range=auto_search_match_range,
        num_temp=num_temp,
        variant=variant,
    )
    return NnvmModulePlan(source, planned, decorate(source.graph, planned, original=original))


def nnvm_graph(module: Module) -> ModuleGraph:
    """Return the graph of a module's entry, its nodes in the order of the module.

    Where an operation may write in place is what `ops.in_place` says; the memory space of a value
    is the device of its node. Raises UnsupportedOpError for an instruction whose results lie in
    several memory spaces.
    """
    builder = _Builder()
    for instruction in sequence(module.entry):
        builder.add(instruction)
    results = _results(builder, module)
    outputs = tuple([builder.places[entry] for entry in results if entry != NO_ENTRY])
    graph = NnvmGraph(tuple(builder.nodes), outputs)
    return ModuleGraph(graph, tuple(builder.instructions), builder.leaves, results)


@final
class _Builder:
    """Nodes as they are made, and the entries of each instruction."""

    def __init__(self) -> None:
        self.counts = LeafCounts()
        self.nodes: list[NnvmNode] = []
        self.instructions: list[Instruction | None] = []
        self.leaves: dict[Instruction, Leaves] = {}
        self.places: list[tuple[int, int]] = []
        """Per entry its node, and the number of the output."""

    def add(self, instruction: Instruction) -> None:
        """Make the nodes of an instruction, all of whose operands have theirs."""
        if instruction.opcode in _VARIABLES:
            shapes = [shape for _, shape in instruction.shape.leaves()]
            self.leaves[instruction] = tuple(
                [self._variable(instruction, i, shape) for i, shape in enumerate(shapes)]
            )
            return
        operands = [self.leaves[operand] for operand in instruction.operands]
        passed = self._passed_on(instruction, operands)
        shapes = [shape for _, shape in instruction.shape.leaves()]
        made = [
            leaf
            for leaf, shape in enumerate(shapes)
            if (passed is None or passed[leaf] == NEW) and _has_memory(shape)
        ]
        leaves = list(passed or [NO_ENTRY] * len(shapes))
        if reads_operands(instruction, passed):
            inputs = [entry for entry in chain.from_iterable(operands) if entry != NO_ENTRY]
            own = NnvmOp(
                tuple(self._inplace_pairs(instruction, operands, made)),
                pattern=pattern_of(instruction),
            )
            entries = self.node(
                instruction.name,
                instruction.opcode.value,
                inputs,
                [shapes[leaf] for leaf in made],
                own,
                instruction,
            )
            for leaf, entry in zip(made, entries, strict=True):
                leaves[leaf] = entry
        self.leaves[instruction] = tuple(leaves)

    def node(
        self,
        name: str,
        op: str | None,
        inputs: Sequence[int],
        shapes: Sequence[Shape],
        own: NnvmOp | None = None,
        instruction: Instruction | None = None,
    ) -> range:
        """Make a node; return its entries."""
        spaces = {_space(shape) for shape in shapes}
        if len(spaces) > 1:
            raise UnsupportedOpError(
                f"%{name}: results in memory spaces {sorted(spaces)}; a node of an NNVM graph lies "
                "on one device"
            )
        number = len(self.nodes)
        self.nodes.append(
            NnvmNode(
                name,
                op,
                tuple([self.places[entry] for entry in inputs]),
                tuple([_elements(shape) for shape in shapes]),
                tuple([_dtype(shape) for shape in shapes]),
                device=spaces.pop() if spaces else 0,
                own=own,
            )
        )
        self.instructions.append(instruction)
        self.places += [(number, output) for output in range(len(shapes))]
        return range(len(self.places) - len(shapes), len(self.places))

    def _variable(self, instruction: Instruction, leaf: int, shape: Shape) -> int:
        if not _has_memory(shape):
            return NO_ENTRY
        name = f"{instruction.name}.{leaf}" if instruction.shape.is_tuple else instruction.name
        return self.node(name, None, (), [shape], None, instruction)[0]

    def _passed_on(
        self, instruction: Instruction, operands: Sequence[Leaves]
    ) -> Sequence[int] | None:
        """Per leaf the operand's entry, or `NEW`; None where all are new."""
        if instruction.opcode is not Opcode.ASYNC_START:
            return forwarded(instruction, operands, self.counts)
        given = list(chain.from_iterable(operands))
        return given + [NEW] * (self.counts.of(instruction.shape) - len(given))

    def _inplace_pairs(
        self, instruction: Instruction, operands: Sequence[Leaves], made: Sequence[int]
    ) -> Iterator[tuple[int, int]]:
        """Yield which inputs of the node an output may take the place of."""
        position = _positions(operands)
        output_of = {leaf: output for output, leaf in enumerate(made)}
        for (operand, index), output in may_share(instruction):
            read = self._leaves_at(instruction.operands[operand].shape, index)
            written = self._leaves_at(instruction.shape, output)
            for leaf, result in zip(read, written, strict=True):
                if (operand, leaf) in position and result in output_of:
                    yield position[operand, leaf], output_of[result]

    def _leaves_at(self, shape: Shape, index: tuple[int, ...]) -> range:
        start = self.counts.position(shape, index)
        return range(start, start + self.counts.of(shape.at(index)))


_VARIABLES: Final = frozenset({Opcode.PARAMETER, Opcode.CONSTANT})


def _positions(operands: Sequence[Leaves]) -> dict[tuple[int, int], int]:
    """Return the number of the input that each leaf of each operand is."""
    taking = [
        (operand, leaf)
        for operand, leaves in enumerate(operands)
        for leaf, entry in enumerate(leaves)
        if entry != NO_ENTRY
    ]
    return {place: number for number, place in enumerate(taking)}


# -- outputs -----------------------------------------------------------------------------------


def _results(builder: _Builder, module: Module) -> Leaves:
    """Make the assignments; return the entry of each leaf of the result."""
    root = module.entry.root
    shapes = [shape for _, shape in root.shape.leaves()]
    results = list(builder.leaves[root])
    targets = {
        leaf: variable
        for leaf, variable in _aliases(builder, module)
        if NO_ENTRY not in (variable, results[leaf]) and results[leaf] != variable
    }
    overwritten = set(targets.values())
    copies: dict[tuple[int, int, Any], int] = {}
    for leaf, entry in enumerate(results):
        if entry in overwritten or (leaf in targets and _differ(builder, entry, targets[leaf])):
            key = (entry, _elements(shapes[leaf]), _dtype(shapes[leaf]))
            if key not in copies:
                name = f"{builder.nodes[builder.places[entry][0]].name}.copy"
                copies[key] = builder.node(name, "copy", [entry], [shapes[leaf]])[0]
            results[leaf] = copies[key]
    for leaf, variable in targets.items():
        name = f"{builder.nodes[builder.places[variable][0]].name}.assign"
        inputs = [variable, results[leaf]]
        results[leaf] = builder.node(name, "_assign", inputs, [shapes[leaf]])[0]
    return tuple(results)


def _aliases(builder: _Builder, module: Module) -> Iterator[tuple[int, int]]:
    """Yield (leaf of the root, entry of the variable) of each alias, in order of the leaves."""
    root, counts = module.entry.root, builder.counts
    found: dict[int, int] = {}
    for alias in module.input_output_aliases:
        parameter = module.entry.parameters[alias.parameter]
        start = counts.position(root.shape, alias.output_index)
        first = counts.position(parameter.shape, alias.parameter_index)
        for i in range(counts.of(root.shape.at(alias.output_index))):
            found[start + i] = builder.leaves[parameter][first + i]
    yield from sorted(found.items())


def _differ(builder: _Builder, entry: int, variable: int) -> bool:
    """Whether an entry is counted in other elements than the variable: a bitcast lies between."""
    first, second = [
        (builder.nodes[node].sizes[output], builder.nodes[node].dtypes[output])
        for node, output in (builder.places[entry], builder.places[variable])
    ]
    return first != second


# -- what a node is ----------------------------------------------------------------------------


def _array(shape: Shape) -> Shape:
    return shape.tuple_shapes[0] if shape.is_buffer else shape


def _has_memory(shape: Shape) -> bool:
    return _array(shape).element_type.is_array


def _space(shape: Shape) -> int:
    return _array(shape).memory_space


def _elements(shape: Shape) -> int:
    array = _array(shape)
    return UNKNOWN_SIZE if UNBOUNDED in array.dimensions else array.element_count


def _dtype(shape: Shape) -> np.dtype[Any]:
    return DTYPES[_array(shape).element_type]


def pattern_of(instruction: Instruction) -> Pattern:
    """Return how the elements of a result depend on those of the operands.

    A fusion has the pattern of the least simple of its instructions.
    """
    if instruction.opcode is Opcode.FUSION:
        inside = instruction.called_computations[0].instructions.values()
        return max([_pattern(x) for x in inside], default=Pattern.OPAQUE)
    return _pattern(instruction)


def _pattern(instruction: Instruction) -> Pattern:
    if TABLE[instruction.opcode].elementwise:
        return Pattern.ELEMENT_WISE
    return _PATTERNS.get(instruction.opcode, Pattern.OPAQUE)


_PATTERNS: Final[Mapping[Opcode, Pattern]] = {
    **dict.fromkeys(
        (*_VARIABLES, Opcode.IOTA, Opcode.TUPLE, Opcode.GET_TUPLE_ELEMENT), Pattern.ELEMENT_WISE
    ),
    Opcode.BROADCAST: Pattern.BROADCAST,
    **dict.fromkeys(
        (
            *(Opcode.BITCAST, Opcode.CONCATENATE, Opcode.DYNAMIC_SLICE, Opcode.GATHER, Opcode.PAD),
            *(Opcode.RESHAPE, Opcode.REVERSE, Opcode.SLICE, Opcode.TRANSPOSE),
        ),
        Pattern.INJECTIVE,
    ),
    **dict.fromkeys((Opcode.REDUCE, Opcode.REDUCE_WINDOW), Pattern.REDUCTION),
    **dict.fromkeys((Opcode.CONVOLUTION, Opcode.DOT), Pattern.OUT_ELEMENT_WISE_FUSABLE),
}
