"""Orders made for writing in place: what reads a value runs before what overwrites it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lowtide.analysis.colocation import Wish, WishKind
from lowtide.analysis.flat_schedule import FlatSchedule, Loop
from lowtide.analysis.topological_order import Edge, TopologicalOrder
from lowtide.analysis.write_constraints import WriteConstraints
from lowtide.ir import Computation


def arrange_writes(
    flat: FlatSchedule, wanted: Sequence[Wish], orders: Mapping[Computation, TopologicalOrder]
) -> None:
    """Change the orders such that values which want one place follow one another in time.

    Wishes are met in turn. One that would close a cycle with those met already is left out.
    """
    constraints = WriteConstraints(flat)
    chains = _Chains(flat)
    for wish in wanted:
        before, after = chains.of(wish.before), chains.of(wish.after)
        if before is after:
            continue
        needed = constraints.between(before[-1], after[0])
        if needed is not None and _constrain(orders, needed):
            chains.link(before, after)
            if wish.kind is WishKind.STATE:
                chains.link(before, chains.of(chains.final[wish.before]))


class _Chains:
    """Values that lie in one place after one another."""

    def __init__(self, flat: FlatSchedule) -> None:
        self.final: dict[int, int] = {}
        """Per element of the state of a loop what the loop returns."""
        for join in flat.joins:
            if isinstance(join, Loop):
                self.final.update(zip(join.state, join.final, strict=True))
        self._chain_of: dict[int, list[int]] = {}

    def of(self, value: int) -> list[int]:
        return self._chain_of.setdefault(value, [value])

    def link(self, before: list[int], after: list[int]) -> None:
        if before is not after:
            before += after
            for value in after:
                self._chain_of[value] = before


def _constrain(
    orders: Mapping[Computation, TopologicalOrder], needed: Sequence[tuple[Computation, Edge]]
) -> bool:
    """Add the constraints of one wish; return False where they close a cycle."""
    edges: dict[Computation, list[Edge]] = {}
    for computation, edge in needed:
        edges.setdefault(computation, []).append(edge)
    return all(orders[computation].constrain(found) for computation, found in edges.items())
