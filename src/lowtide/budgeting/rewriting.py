"""Budgets in HLO: a scheduled module in which instructions run again, or values come back.

Each further run is an instruction of its own, with the name and the metadata of the first one. A
later reader reads the latest run. A value that is stored in the host's memory is copied there by
`copy-start` and `copy-done`, and back by two more: later readers read that copy.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Final

from lowtide.analysis.dataflow import ComputationDataflow
from lowtide.ir import (
    Computation,
    ElementType,
    Instruction,
    Module,
    Opcode,
    Schedule,
    Shape,
    ShapeIndex,
)
from lowtide.ir.attributes import NO_ATTRIBUTES, Attributes, CopyStart, GetTupleElement
from lowtide.ir.clone import CloneMap, clone_module
from lowtide.ir.shape import HOST_MEMORY, array_shape, tuple_shape
from lowtide.records import dataclass
from lowtide.remat.transfers import Step, Transfer


def with_sequences(
    module: Module,
    flows: Mapping[Computation, ComputationDataflow],
    sequences: Mapping[Computation, Sequence[Step]],
) -> Module:
    """Return a copy of a scheduled module in which some computations run in other sequences.

    A sequence has the numbers of nodes, in order of creation; each node is in it, perhaps several
    times, after what it reads. Where nodes that only pass values on (tuples, their elements) stand
    in it does not count: they come when their values are read. The rest keeps its order. Transfers
    are of values by number, behind what makes them: out before back, begin before end. Raises
    ValueError for a module without a schedule, and for a sequence that reads what is not there.
    """
    if module.schedule is None:
        raise ValueError(f"{module.name} has no schedule")
    mapping = CloneMap()
    copy = clone_module(module, mapping)
    assert copy.schedule is not None
    orders = dict(copy.schedule.sequences)
    for computation, sequence in sequences.items():
        runs = _Runs(flows[computation], mapping.computations[computation])
        orders[mapping.computations[computation]] = runs.run(sequence)
    copy.schedule = Schedule(orders)
    return copy


_GIVEN: Final = frozenset({Opcode.PARAMETER, Opcode.CONSTANT})


class _Runs:
    """The instructions of a computation as they run, one after the other."""

    def __init__(self, flow: ComputationDataflow, computation: Computation) -> None:
        self.computation = computation
        self.nodes = tuple(computation.instructions.values())
        rows = zip(self.nodes, flow.makes, strict=True)
        self.passing = {x: None for x, makes in rows if not makes and x.opcode not in _GIVEN}
        """What only passes values on, which takes no time."""
        self.sources = _elements(flow, self.nodes, self.passing)
        self.operands = {x: [self._source(y) for y in x.operands] for x in self.nodes}
        """What each instruction reads: instructions, and elements of their results."""
        self.readers: dict[Instruction, list[Instruction]] = {x: [] for x in self.nodes}
        for x in self.nodes:
            for source in dict.fromkeys([y.maker for y in self.operands[x]]):
                self.readers[source].append(x)
        self.spare = {
            (x.operands[0], x.attributes_as(GetTupleElement).index): x for x in self.sources
        }
        """What takes elements out of tuples already."""
        self.latest: dict[Instruction, Instruction] = {}
        """The latest run of what has run; of what passes on, as long as its operands last."""
        self.elements: dict[tuple[Instruction, int], Instruction] = {}
        self.used: set[Instruction] = set()
        self.order: list[Instruction] = []
        self.copies: dict[tuple[int, bool], Instruction] = {}
        """Per value and whether it comes back, the last part of its copy that there is."""
        self.flow = flow

    def run(self, sequence: Sequence[Step]) -> tuple[Instruction, ...]:
        """Make the computation run in a sequence; return its order."""
        for node in sequence:
            if isinstance(node, Transfer):
                self._transfer(node)
                continue
            x = self.nodes[node]
            if x in self.passing:
                continue
            for before in x.control_predecessors:
                self._current(_Source(before))
            if x.opcode is not Opcode.PARAMETER:
                self._place(x)
            elif x not in self.latest:
                self._current(_Source(x))
        self.computation.root = self._current(self._source(self.computation.root))
        self._remove_unused()
        return tuple(self.order)

    def _transfer(self, transfer: Transfer) -> None:
        """Begin or end a copy of a value; at the end of one back, readers read that."""
        value, is_back = transfer.value, transfer.is_back
        maker = self.nodes[self.flow.value_node[value]]
        index = list(maker.shape.leaves())[self.flow.value_leaf[value]][0]
        source = _Source(maker, index)
        if transfer.is_end:
            start = self.copies[value, is_back]
            copy = self._added(Opcode.COPY_DONE, start.shape.tuple_shapes[0], start)
            self.copies[value, is_back] = copy
            if is_back:
                self._replace(source, copy)
            return
        given = self.copies[value, False] if is_back else self._current(source)
        copied = given.shape.with_memory_space(0 if is_back else HOST_MEMORY)
        parts = (copied, given.shape, _CONTEXT)
        start = self._added(Opcode.COPY_START, tuple_shape(parts), given, CopyStart())
        self.copies[value, is_back] = start

    def _added(
        self,
        opcode: Opcode,
        shape: Shape,
        operand: Instruction,
        attributes: Attributes = NO_ATTRIBUTES,
    ) -> Instruction:
        made = self.computation.add(opcode, shape, (operand,), attributes)
        made.set_metadata(operand.raw_metadata)
        self.order.append(made)
        return made

    def _replace(self, source: _Source, copy: Instruction) -> None:
        """Have those who read a value from now on read its copy."""
        if source.index:
            holder = self._element(_Source(source.maker, source.index[:-1]))
            self.elements[holder, source.index[-1]] = copy
        else:
            self.latest[source.maker] = copy
        self._forget_readers(source.maker)

    def _place(self, x: Instruction) -> None:
        """Run an instruction, for the first time or again."""
        operands = tuple([self._current(source) for source in self.operands[x]])
        if x in self.latest:
            self._forget_readers(x)
        self.latest[x] = self._instance(x, operands)

    def _instance(self, x: Instruction, operands: tuple[Instruction, ...]) -> Instruction:
        if x not in self.used:
            self.used.add(x)
            if operands != x.operands:
                x.set_operands(operands)
            self.order.append(x)
            return x
        made = self.computation.add_like(x, operands)
        self.order.append(made)
        return made

    def _forget_readers(self, x: Instruction) -> None:
        """Have what passes on the value of an instruction be made anew where it is read next."""
        stack = [x]
        while stack:
            passing = [y for y in self.readers[stack.pop()] if y in self.passing]
            stack += [y for y in passing if self.latest.pop(y, None) is not None]

    def _current(self, source: _Source) -> Instruction:
        """The latest run of an instruction; what passes values on is made here if need be."""
        stack = [source.maker]
        while stack:
            x = stack[-1]
            if x in self.latest:
                stack.pop()
                continue
            if x not in self.passing and x.opcode is not Opcode.PARAMETER:
                raise ValueError(f"{x.name} is read before it runs")
            needed = [*[y.maker for y in self.operands[x]], *x.control_predecessors]
            waiting = [y for y in needed if y not in self.latest]
            if waiting:
                stack += waiting
                continue
            operands = tuple([self._element(y) for y in self.operands[x]])
            self.latest[x] = self._instance(x, operands)
            stack.pop()
        return self._element(source)

    def _element(self, source: _Source) -> Instruction:
        """The latest run of an instruction, or the element of its result that is asked for."""
        found = self.latest[source.maker]
        for place in source.index:
            if (found, place) not in self.elements:
                self.elements[found, place] = self._take(found, place)
            found = self.elements[found, place]
        return found

    def _take(self, value: Instruction, place: int) -> Instruction:
        """What takes an element out of a tuple: the one that there is, or a new one."""
        x = self.spare.get((value, place))
        if x is not None and x not in self.used:
            self.used.add(x)
            self.order.append(x)
            return x
        shape, attributes = value.shape.tuple_shapes[place], GetTupleElement(place)
        made = self.computation.add(Opcode.GET_TUPLE_ELEMENT, shape, (value,), attributes)
        made.set_metadata(value.raw_metadata)
        self.order.append(made)
        return made

    def _source(self, x: Instruction) -> _Source:
        return self.sources.get(x) or _Source(x)

    def _remove_unused(self) -> None:
        """Remove what passed on values that all readers now get elsewhere."""
        stack = [x for x in self.passing if x not in self.used and not x.users]
        while stack:
            x = stack.pop()
            operands = dict.fromkeys(x.operands)
            self.computation.remove(x)
            unused = [y for y in operands if y in self.passing and y not in self.used]
            stack += [y for y in unused if not y.users]


_CONTEXT: Final = array_shape(ElementType.U32)
"""What a copy that has begun is known by."""


@dataclass(frozen=True, slots=True)
class _Source:
    """An instruction, or the element of its result at an index."""

    maker: Instruction
    index: ShapeIndex = ()


def _elements(
    flow: ComputationDataflow, nodes: Sequence[Instruction], passing: Container[Instruction]
) -> dict[Instruction, _Source]:
    """Where elements of tuples come from, through all that passes them on unchanged.

    So that reading one element needs none of the others.
    """
    found: dict[Instruction, _Source] = {}
    indices: dict[Shape, list[ShapeIndex]] = {}
    for node, x in enumerate(nodes):
        if x.opcode is not Opcode.GET_TUPLE_ELEMENT or x.shape.is_tuple or x not in passing:
            continue
        (value,) = flow.leaves[node]
        maker = nodes[flow.value_node[value]]
        if maker.shape not in indices:
            indices[maker.shape] = [index for index, _ in maker.shape.leaves()]
        index = indices[maker.shape][flow.value_leaf[value]]
        if maker.shape.at(index) is x.shape:
            found[x] = _Source(maker, index)
    return found
