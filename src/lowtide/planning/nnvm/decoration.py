"""Storage for variables, and assignments tied to it: the step DecorateMemoryPlan of NNVM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lowtide.planning.nnvm.assignment import (
    COPY,
    IN_PLACE,
    NO_ASSIGN,
    Hazard,
    assignments,
    find_hazards,
    original_assign_flags,
)
from lowtide.planning.nnvm.graph import NO_STORAGE, NnvmGraph, NnvmPlan
from lowtide.planning.nnvm.graph_reader import read_graph
from lowtide.planning.nnvm.ops import NnvmOp
from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class DecoratedPlan:
    """Storage ids for all entries, those of variables and assignments included.

    `assign_flags` are by node. `hazards` say why assignments that NNVM does in place are copies
    here; where its flags or given ones are used in spite of them, what goes wrong.
    """

    storage_id: tuple[int, ...]
    assign_flags: tuple[int, ...]
    hazards: tuple[Hazard, ...]


def decorate(
    graph: NnvmGraph | Mapping[str, Any],
    plan: NnvmPlan,
    *,
    ops: Mapping[str, NnvmOp | Mapping[str, Any]] | None = None,
    assign_flags: Sequence[int] | None = None,
    original: bool = False,
) -> DecoratedPlan:
    """Return the plan of a graph with storage for its variables.

    Variables without storage get ids of their own behind those of the plan, in order. An
    assignment lies where its variable does, and if it is in place, its right-hand side too. A block
    that an assignment leaves empty keeps its number. `assign_flags` are taken as they are; without
    them NNVM's flags are used, but a copy wherever there is a hazard, with `original` in spite of
    it.

    Raises ValueError where an output has no storage, the plan or the flags are not of this graph,
    and as `assign_flags` does.
    """
    graph = graph if isinstance(graph, NnvmGraph) else read_graph(graph)
    _check_plan(graph, plan)
    flags, hazards = _flags(graph, ops, assign_flags, original)
    storage = list(plan.storage_id)
    following = max([NO_STORAGE, *storage]) + 1
    for number, node in enumerate(graph.nodes):
        entry = graph.first_entry[number]
        if node.is_variable and storage[entry] < 0:
            storage[entry] = following
            following += 1
    for number, variable in assignments(graph).items():
        if flags[number] == NO_ASSIGN:
            continue
        storage[graph.first_entry[number]] = storage[variable]
        if flags[number] == IN_PLACE:
            storage[graph.entry_id(graph.nodes[number].inputs[1])] = storage[variable]
    return DecoratedPlan(tuple(storage), flags, hazards)


def _check_plan(graph: NnvmGraph, plan: NnvmPlan) -> None:
    if len(plan.storage_id) != graph.entry_count:
        raise ValueError(f"the plan has {len(plan.storage_id)} entries, not {graph.entry_count}")
    if plan.not_allocated:
        raise ValueError(
            f"{plan.not_allocated} entries have no storage; all of them have to be planned before "
            "variables get theirs"
        )


def _flags(
    graph: NnvmGraph,
    ops: Mapping[str, NnvmOp | Mapping[str, Any]] | None,
    given: Sequence[int] | None,
    original: bool,
) -> tuple[tuple[int, ...], tuple[Hazard, ...]]:
    if given is not None and len(given) != len(graph.nodes):
        raise ValueError(f"{len(given)} flags for {len(graph.nodes)} nodes")
    wanted = original_assign_flags(graph, ops) if given is None else tuple(given)
    hazards = find_hazards(graph, wanted, ops)
    if given is not None or original:
        return wanted, hazards
    refused = {hazard.assign for hazard in hazards}
    return tuple([COPY if k in refused else flag for k, flag in enumerate(wanted)]), hazards
