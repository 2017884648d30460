"""Places in runs of a graph: the nodes that are left, and what was compiled there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from typing import Any, TypeAlias

from lowtide.frontend.graphs.graph import GraphNode
from lowtide.frontend.onnx.stretch import Stretch, reads_of
from lowtide.onnx.recent import Recent
from lowtide.onnx.values import is_tensor
from lowtide.records import dataclass

Program: TypeAlias = Callable[..., Any]

Kinds: TypeAlias = tuple[bool | None, ...]
"""Of values whether each is a tensor, None where it is not there."""


@dataclass(frozen=True, eq=False, slots=True)
class PlannedStep:
    """A compiled stretch, and where the run is after it.

    Its parameters are the same in all runs for those names that `constants` has a value for.
    """

    stretch: Stretch
    program: Program | None
    following: Place


@dataclass(frozen=True, eq=False, slots=True)
class HostRun:
    """The nodes that the host ran at a place, and the place then.

    The steps have what runs each node, its outputs, and what kind each of these was of.
    """

    nodes: tuple[GraphNode, ...]
    steps: tuple[tuple[Callable[[dict[str, Any]], None], tuple[str, ...], Kinds], ...]
    following: Place


@dataclass(eq=False, slots=True)
class Place:
    """A place in runs.

    `reads` are the values that each of the `nodes` reads, `names` all of them, `same` those that
    are equal in all runs, and `varying` the others, without what the nodes make. `fixed` are the
    values that are constants of what is compiled here; so are those in `cases`, as conditions need
    them: there each has the values that it had. Those of more than a few are `free`, which no
    condition makes constant. `host_runs` are runs of the host, by how many nodes are
    its own and the kinds of varying values.
    """

    nodes: tuple[GraphNode, ...]
    reads: tuple[tuple[str, ...], ...]
    names: frozenset[str]
    same: frozenset[str]
    varying: tuple[str, ...]
    fixed: set[str] = field(default_factory=set)
    cases: dict[str, set[bytes]] = field(default_factory=dict)
    free: set[str] = field(default_factory=set)
    steps: Recent[tuple[Any, ...], PlannedStep] = field(default_factory=Recent)
    after_host: dict[tuple[str, ...], Place] = field(default_factory=dict)
    host_runs: dict[tuple[Any, ...], HostRun] = field(default_factory=dict)

    def without(self, gone: Collection[str]) -> Place:
        """Return the place where the nodes of these names are done."""
        rest = [
            (node, reads)
            for node, reads in zip(self.nodes, self.reads, strict=True)
            if node.name not in gone
        ]
        return _made(rest, self.same)


def place_of(nodes: Sequence[GraphNode], same: Collection[str]) -> Place:
    """Return the place where these nodes are left; `same` are values that are so in all runs."""
    return _made([(node, tuple(reads_of(node))) for node in nodes], same)


def _made(rest: Sequence[tuple[GraphNode, tuple[str, ...]]], same: Collection[str]) -> Place:
    names = dict.fromkeys([x for _, reads in rest for x in reads])
    made = {x for node, _ in rest for x in node.outputs}
    return Place(
        tuple([node for node, _ in rest]),
        tuple([reads for _, reads in rest]),
        frozenset(names),
        frozenset([x for x in names if x in same]),
        tuple([x for x in names if x not in same and x not in made]),
    )


def kinds_of(names: Sequence[str], values: Mapping[str, Any]) -> Kinds:
    """Return what kind the values of some names are of."""
    return tuple([is_tensor(values[x]) if x in values else None for x in names])


def kept_values(values: Mapping[str, Any], names: frozenset[str]) -> dict[str, Any]:
    """Return those of the values that still have a use."""
    return {x: y for x, y in values.items() if x in names}
