"""Orders made for writing in place: all readers of a value run before it is overwritten."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from lowtide.analysis.colocation import Wish, WishKind
from lowtide.analysis.flat_schedule import CarriedState, FlatSchedule
from lowtide.analysis.topological_order import Edge, TopologicalOrder
from lowtide.analysis.write_constraints import Constraint, WriteConstraints
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
        joined = _join(constraints, orders, before, after, wish)
        if joined is None:
            continue
        chains.replace(joined)
        if wish.kind is WishKind.STATE:
            final = chains.of(chains.final[wish.before])
            chains.replace([*joined, *[value for value in final if value not in joined]])


def _join(
    constraints: WriteConstraints,
    orders: Mapping[Computation, TopologicalOrder],
    before: list[int],
    after: list[int],
    wish: Wish,
) -> list[int] | None:
    """Both chains as one, with the orders changed accordingly; None where that cannot be."""
    for joined in _spliced(before, after, wish):
        needed = _needed(constraints, before, after, joined)
        if needed is not None and _constrain(orders, needed):
            return joined
    return None


def _spliced(before: list[int], after: list[int], wish: Wish) -> Iterator[list[int]]:
    """The ways to put one chain as a whole into the other one, or behind it."""
    if after[0] == wish.after and before[-1] != wish.before:
        place = before.index(wish.before) + 1
        yield [*before[:place], *after, *before[place:]]
    if before[-1] == wish.before and after[0] != wish.after:
        place = after.index(wish.after)
        yield [*after[:place], *before, *after[place:]]
    yield [*before, *after]


def _needed(
    constraints: WriteConstraints, before: list[int], after: list[int], joined: list[int]
) -> list[Constraint] | None:
    """The constraints between values that follow one another in the joined chain only."""
    known = {*pairwise(before), *pairwise(after)}
    found: list[Constraint] = []
    for pair in pairwise(joined):
        if pair in known:
            continue
        needed = constraints.between(*pair)
        if needed is None:
            return None
        found += needed
    return found


class _Chains:
    """Values that lie in one place after one another."""

    def __init__(self, flat: FlatSchedule) -> None:
        self.final: dict[int, int] = {}
        """Per element of the state of a loop what the loop returns."""
        for join in flat.joins:
            if isinstance(join, CarriedState):
                self.final.update(zip(join.state, join.final, strict=True))
        self._chain_of: dict[int, list[int]] = {}

    def of(self, value: int) -> list[int]:
        return self._chain_of.setdefault(value, [value])

    def replace(self, chain: list[int]) -> None:
        for value in chain:
            self._chain_of[value] = chain


def _constrain(
    orders: Mapping[Computation, TopologicalOrder], needed: Sequence[Constraint]
) -> bool:
    """Add the constraints of one wish; return False where they close a cycle."""
    edges: dict[Computation, list[Edge]] = {}
    for computation, edge in needed:
        edges.setdefault(computation, []).append(edge)
    return all(orders[computation].constrain(found) for computation, found in edges.items())
