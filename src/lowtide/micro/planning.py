"""The plan of a model: the order of its operators, and offsets for its tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lowtide.frontend.tflite.model import LiteGraph, LiteModel
from lowtide.micro.lifetimes import LINE, Lifetime, in_lines, lifetimes, live_bytes, overwritable
from lowtide.micro.ordering import OperatorOrder, best_order
from lowtide.planning.assign import assign_offsets
from lowtide.planning.problem import TensorUsageRecord
from lowtide.records import dataclass
from lowtide.search.effort import Effort

_MANY_GRAPHS = (
    "the model has {count} subgraphs, and firmware does not agree on where their offsets stand: "
    "the order and the offsets are left to it"
)


@dataclass(frozen=True, slots=True)
class MicroPlan:
    """The order of a model's operators, and the offsets of tensors in the arena's head.

    `offsets` are by tensor; `overwrites` says whose place a tensor takes. `head_bytes` is where
    the last tensor ends, `live_bytes` what is live at once, and no order needs less than
    `bound_bytes`. `caveats` say what is not planned, and why.
    """

    order: tuple[int, ...]
    lifetimes: tuple[Lifetime, ...]
    offsets: dict[int, int]
    overwrites: dict[int, int]
    head_bytes: int
    live_bytes: int
    bound_bytes: int
    caveats: tuple[str, ...] = ()

    @property
    def is_reordered(self) -> bool:
        """Whether the operators run in another order than in the file."""
        return self.order != tuple(range(len(self.order)))

    @property
    def is_planned(self) -> bool:
        """Whether there are offsets."""
        return not self.caveats


def plan_micro(model: LiteModel, effort: Effort = Effort.DEFAULT) -> MicroPlan:
    """Return the plan of a model of one subgraph; one of several gets none, with a caveat.

    Of the order in the file and the best one found, that of the lower head is taken, the one in
    the file where they are equal.
    """
    graph = model.main
    written = tuple(range(len(graph.operators)))
    found = best_order(graph, effort)
    if len(model.graphs) > 1:
        caveat = _MANY_GRAPHS.format(count=len(model.graphs))
        return MicroPlan(written, (), {}, {}, 0, 0, 0, (caveat,))
    orders = dict.fromkeys([written, found.operators])
    return min([_placed(graph, x, found, effort) for x in orders], key=lambda x: x.head_bytes)


def _placed(
    graph: LiteGraph, order: Sequence[int], found: OperatorOrder, effort: Effort
) -> MicroPlan:
    """The lower of two packings of an order: with and without tensors in the place of others."""
    lives = lifetimes(graph, order)
    plans = []
    for shares in (_shares(graph, order, lives), {}):
        groups = _groups(lives, shares)
        records = [
            TensorUsageRecord(
                max([x.nbytes for x in group]),
                min([x.first for x in group]) + 1,
                max([x.last for x in group]) + 1,
            )
            for group in groups
        ]
        packed = assign_offsets(records, "exact", alignment=LINE)
        offsets = {
            x.tensor: place for g, place in zip(groups, packed.offsets, strict=True) for x in g
        }
        plans.append(
            MicroPlan(
                tuple(order),
                tuple(lives),
                offsets,
                shares,
                in_lines(packed.total_size),
                _live(lives, shares),
                min(found.bound_bytes, _live(lives, shares)),
            )
        )
    return min(plans, key=lambda x: x.head_bytes)


def _shares(graph: LiteGraph, order: Sequence[int], lives: Sequence[Lifetime]) -> dict[int, int]:
    """Of tensors that take the place of an input which ends there, that input."""
    last = {x.tensor: x.last for x in lives}
    found: dict[int, int] = {}
    for step, number in enumerate(order):
        operator = graph.operators[number]
        for given in overwritable(graph, operator):
            if last.get(given) == step and operator.outputs[0] in last:
                found[operator.outputs[0]] = given
                break
    return found


def _groups(lives: Sequence[Lifetime], shares: dict[int, int]) -> list[list[Lifetime]]:
    """Tensors that lie in one place, one after the other in time."""
    groups: dict[int, list[Lifetime]] = {}
    for life in sorted(lives, key=lambda x: (x.first, x.tensor)):
        given = shares.get(life.tensor)
        group = groups[given] if given is not None else []
        group.append(life)
        groups[life.tensor] = group
    return list({id(x): x for x in groups.values()}.values())


def _live(lives: Sequence[Lifetime], shares: dict[int, int]) -> int:
    """The most bytes that are live at once; a tensor in the place of another begins one later."""
    moved = [replace(x, first=x.first + (x.tensor in shares)) for x in lives]
    counted = [x for x in moved if x.first <= x.last]
    return max(live_bytes(counted).values(), default=0)
