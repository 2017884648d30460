"""Assignments to variables, each carried out by a copy or by computing in its storage.

    old ──> R ──> assign(v, R)        R may write over v itself if nothing needs the old v any more

NNVM asks only whether R has one reader, is no variable and is at most a broadcast. That leaves out
other readers of v, which are scheduled after R and get the new value: a write after read hazard.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from lowtide.planning.nnvm.graph import UNKNOWN_SIZE, NnvmGraph, ops_of_nodes
from lowtide.planning.nnvm.ops import ASSIGN, NnvmOp, Pattern, op_table
from lowtide.records import dataclass

NO_ASSIGN: Final = 0
"""The flag of a node that assigns nothing."""

COPY: Final = 1
"""The flag of an assignment that copies its right-hand side into the variable."""

IN_PLACE: Final = 2
"""The flag of one that does nothing: its right-hand side is computed in the variable's storage."""

_Rows = Mapping[str, NnvmOp | Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Hazard:
    """Node `culprit` reads or writes the variable of `assign` where its storage is taken.

    `right_side` is the node that writes over the variable, in front of `assign`. All are numbers
    of nodes; `sentence` says it in words.
    """

    assign: int
    right_side: int
    culprit: int
    sentence: str


def assign_flags(graph: NnvmGraph, ops: _Rows | None = None) -> tuple[int, ...]:
    """Return the flag of each node: those of NNVM, but a copy wherever there is a hazard.

    Raises ValueError for an unknown operation, and an assignment to what is no variable.
    """
    flags = list(original_assign_flags(graph, ops))
    for hazard in find_hazards(graph, flags, ops):
        flags[hazard.assign] = COPY
    return tuple(flags)


def original_assign_flags(graph: NnvmGraph, ops: _Rows | None = None) -> tuple[int, ...]:
    """Return the flag of each node as NNVM has it.

    An assignment is in place if its right-hand side has one reader, is no variable, and is element
    wise or a broadcast. Raises ValueError as `assign_flags` does.
    """
    table = ops_of_nodes(graph, op_table(ops))
    readers = [0] * len(graph.nodes)
    for node in graph.nodes:
        for source, _ in node.inputs:
            readers[source] += 1
    for source, _ in graph.outputs:
        readers[source] += 1
    flags = [NO_ASSIGN] * len(graph.nodes)
    for number in assignments(graph):
        source = graph.nodes[number].inputs[1][0]
        simple = table[source].pattern <= Pattern.BROADCAST
        computed = not graph.nodes[source].is_variable
        flags[number] = IN_PLACE if readers[source] <= 1 and computed and simple else COPY
    return tuple(flags)


def assignments(graph: NnvmGraph) -> dict[int, int]:
    """Return the assignments, in order, and the entry of the variable that each one writes.

    Raises ValueError where one does not have two inputs, the first of them a variable or what
    another assignment returns, the second as large.
    """
    target: dict[int, int] = {}
    for number, node in enumerate(graph.nodes):
        if node.op not in ASSIGN:
            continue
        if len(node.inputs) != 2 or len(node.sizes) != 1:
            raise ValueError(
                f"{graph.place(number)}: an assignment has two inputs and one output, found "
                f"{len(node.inputs)} in field 'inputs' and {len(node.sizes)} in field 'sizes'"
            )
        source = node.inputs[0][0]
        if not graph.nodes[source].is_variable and source not in target:
            raise ValueError(
                f"{graph.place(number)}: inputs[0] is of {graph.place(source)}, which is no "
                "variable; only variables can be assigned to"
            )
        target[number] = target.get(source, graph.first_entry[source])
        _check_sizes(graph, number)
    return target


def _check_sizes(graph: NnvmGraph, number: int) -> None:
    node = graph.nodes[number]
    variable, value = [graph.nodes[source].sizes[output] for source, output in node.inputs]
    if variable != value and UNKNOWN_SIZE not in (variable, value):
        raise ValueError(
            f"{graph.place(number)}: {value} elements are assigned to {variable} of "
            f"{graph.place(node.inputs[0][0])}"
        )


# -- hazards -----------------------------------------------------------------------------------


def find_hazards(
    graph: NnvmGraph, flags: Sequence[int], ops: _Rows | None = None
) -> tuple[Hazard, ...]:
    """Return why assignments cannot be in place, the first reason of each one.

    Between the right-hand side and the assignment nothing else may read or write the variable, and
    the right-hand side may read it only by inputs that its operation may write over. An assignment
    that is refused counts as a copy when the later ones are looked at.
    """
    table = ops_of_nodes(graph, op_table(ops))
    target = assignments(graph)
    flags = list(flags)
    touched = _touching(graph, target, flags)
    found = []
    for number, variable in target.items():
        if flags[number] != IN_PLACE:
            continue
        hazard = _own_reads(graph, table, target, number) or next(
            _between(graph, touched[variable], number), None
        )
        if hazard is not None:
            flags[number] = COPY
            found.append(hazard)
    return tuple(found)


def _touching(
    graph: NnvmGraph, target: Mapping[int, int], flags: Sequence[int]
) -> dict[int, list[tuple[int, str]]]:
    """Return per variable the nodes that read or write its storage, in order.

    What an assignment writes over is no reading. Right-hand sides in place count as writers even if
    their assignment is refused later, which is on the safe side.
    """
    touched: dict[int, list[tuple[int, str]]] = {entry: [] for entry in target.values()}
    writes = {graph.nodes[k].inputs[1][0]: v for k, v in target.items() if flags[k] == IN_PLACE}
    for number, node in enumerate(graph.nodes):
        for source, output in dict.fromkeys(node.inputs):
            entry = target.get(source, graph.first_entry[source] + output)
            if entry in touched and not (number in target and node.inputs[0] == (source, output)):
                touched[entry].append((number, "reads"))
        if number in target:
            touched[target[number]].append((number, "writes"))
        elif number in writes:
            touched[writes[number]].append((number, "writes"))
    return touched


def _own_reads(
    graph: NnvmGraph, table: Sequence[NnvmOp], target: Mapping[int, int], number: int
) -> Hazard | None:
    """The right-hand side reads the variable by an input that it may not write over."""
    right, output = graph.nodes[number].inputs[1]
    for position, (source, result) in enumerate(graph.nodes[right].inputs):
        entry = target.get(source, graph.first_entry[source] + result)
        if entry != target[number] or (position, output) in table[right].inplace_pairs:
            continue
        return _hazard(graph, number, right, f"reads it by input {position}, not in place")
    return None


def _between(graph: NnvmGraph, touched: Sequence[tuple[int, str]], number: int) -> Iterator[Hazard]:
    right = graph.nodes[number].inputs[1][0]
    for culprit, verb in touched:
        if right < culprit < number:
            yield _hazard(graph, number, culprit, f"{verb} it in between")


def _hazard(graph: NnvmGraph, number: int, culprit: int, what: str) -> Hazard:
    right, variable = graph.nodes[number].inputs[1][0], graph.nodes[number].inputs[0][0]
    return Hazard(
        number,
        right,
        culprit,
        f"{graph.place(right)} cannot be computed in the storage of {graph.place(variable)}, which "
        f"{graph.place(number)} assigns: {graph.place(culprit)} {what}",
    )
