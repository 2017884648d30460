"""The values that reach each position: joins resolved, needless phis removed.

A phi is needless where only one value besides phis of its own circle comes in. Circles are strongly
connected components, taken apart as by M. Braun et al., "Simple and Efficient Construction of
Static Single Assignment Form" (2013), section 3.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from lowtide.records import dataclass
from lowtide.xla.analysis.position_graph import DEFINED, JOINED, PositionGraph

Inputs = Mapping[int, Sequence[int]]


@dataclass(frozen=True, eq=False, slots=True)
class ReachingValues:
    """Per position the one that defines its value.

    Where several values may be there, `at` has a negative number, and `several` their positions
    under it. `phis` are the positions at which a phi is defined.
    """

    at: Sequence[int]
    several: Mapping[int, tuple[int, ...]]
    phis: Mapping[int, None]

    def values(self, position: int) -> tuple[int, ...]:
        """Return the positions that define the values at a position, in order of their numbers."""
        value = self.at[position]
        return (value,) if value >= 0 else self.several[value]


def reaching_values(graph: PositionGraph, *, ssa: bool) -> ReachingValues:
    """Return the values at each position; without `ssa` a phi is the set of what it stands for."""
    roots = _roots(graph.source)
    phis = graph.phis if ssa else {}
    inputs = {
        join: list(dict.fromkeys([roots[source] for source in sources]))
        for join, sources in graph.joins.items()
    }
    unions = _unions({join: found for join, found in inputs.items() if join not in phis})
    merged = {phi: _flat(inputs[phi], unions) for phi in phis}
    same_as = _needless(merged)
    several: dict[int, tuple[int, ...]] = {}
    known: dict[int, int] = dict(same_as)
    for union, found in unions.items():
        values = sorted({same_as.get(value, value) for value in found})
        if len(values) == 1:
            known[union] = values[0]
        else:
            known[union] = -1 - len(several)
            several[known[union]] = tuple(values)
    at = [known.get(root, root) for root in roots] if known else roots
    return ReachingValues(at, several, {phi: None for phi in phis if phi not in same_as})


def _roots(source: Sequence[int]) -> list[int]:
    """Return for each position the definition or join at the end of its chain of sources."""
    root = [-1] * len(source)
    for start in range(len(source)):
        path = []
        position = start
        while root[position] < 0 and source[position] not in (DEFINED, JOINED):
            path.append(position)
            position = source[position]
        end = root[position] if root[position] >= 0 else position
        root[position] = end
        for passed in path:
            root[passed] = end
    return root


def _flat(found: Iterable[int], unions: Inputs) -> list[int]:
    return list(dict.fromkeys([value for x in found for value in unions.get(x, (x,))]))


def _unions(inputs: Inputs) -> dict[int, Sequence[int]]:
    """Return for each join all that reaches it through other joins."""
    unions: dict[int, Sequence[int]] = {}
    for component in components(inputs):
        inside = set(component)
        found = [x for member in component for x in inputs[member] if x not in inside]
        values = _flat(found, unions)
        for member in component:
            unions[member] = values
    return unions


def _needless(inputs: Inputs) -> dict[int, int]:
    """Return for each phi that only one value reaches that value."""
    same_as: dict[int, int] = {}
    stack = components(inputs)[::-1]
    while stack:
        component = stack.pop()
        inside = set(component)
        outer: dict[int, None] = {}
        inner = []
        for member in component:
            found = [same_as.get(x, x) for x in inputs[member]]
            from_outside = [x for x in found if x not in inside]
            outer.update(dict.fromkeys(from_outside))
            if not from_outside:
                inner.append(member)
        if len(outer) == 1:
            same_as.update(dict.fromkeys(component, next(iter(outer))))
        elif outer and inner:
            stack += components({x: inputs[x] for x in inner})[::-1]
    return same_as


def components(inputs: Inputs) -> list[list[int]]:
    """Return the strongly connected components of a graph, those with inputs first.

    Inputs that are no keys do not count. The algorithm is that of R. Tarjan, "Depth-First Search
    and Linear Graph Algorithms" (1972), without recursion.
    """
    found: list[list[int]] = []
    order: dict[int, int] = {}
    low: dict[int, int] = {}
    open_nodes: list[int] = []
    done: set[int] = set()
    for start in inputs:
        stack: list[tuple[int, Iterator[int]]] = []
        following: int | None = start if start not in order else None
        while stack or following is not None:
            if following is not None:
                order[following] = low[following] = len(order)
                open_nodes.append(following)
                stack.append((following, iter(inputs[following])))
            node, remaining = stack[-1]
            following = None
            for x in remaining:
                if x not in inputs or x in done:
                    continue
                if x not in order:
                    following = x
                    break
                low[node] = min(low[node], order[x])
            if following is None:
                stack.pop()
                if stack:
                    parent = stack[-1][0]
                    low[parent] = min(low[parent], low[node])
                if low[node] == order[node]:
                    found.append(_close(node, open_nodes))
                    done.update(found[-1])
    return found


def _close(node: int, open_nodes: list[int]) -> list[int]:
    """Take the nodes from `node` on off the list of those whose component is not known yet."""
    component = [open_nodes.pop()]
    while component[-1] != node:
        component.append(open_nodes.pop())
    return component[::-1]
