"""The plan of a model: the order of its operators, and offsets for its tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lowtide.frontend.tflite.model import LiteGraph, LiteModel
from lowtide.micro.lifetimes import (
    LINE,
    Lifetime,
    in_lines,
    is_in_arena,
    lifetimes,
    live_bytes,
    overwritable,
)
from lowtide.micro.ordering import OperatorOrder, best_order
from lowtide.planning.assign import assign_offsets
from lowtide.planning.problem import TensorUsageRecord
from lowtide.records import dataclass
from lowtide.search.effort import Effort

_OTHER_GRAPHS = (
    "the model has {count} subgraphs: head, live and bound are those of the first; tensors of the "
    "others are placed by firmware, and so are {left} of the first, whose numbers they share"
)


@dataclass(frozen=True, slots=True)
class MicroPlan:
    """The order of a model's operators, and the offsets of tensors in the arena's head.

    `offsets` are by tensor; `overwrites` says whose place a tensor takes. `head_bytes` is where
    the last tensor ends, `live_bytes` what is live at once, and no order needs less than
    `bound_bytes`. `caveats` say what is not planned, and why. A plan without offsets leaves the
    file as it is.
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
        return bool(self.offsets)


def plan_micro(model: LiteModel, effort: Effort = Effort.DEFAULT) -> MicroPlan:
    """Return the plan of a model's first subgraph.

    Of the order in the file and the best one found, that of the lower head is taken, the one in
    the file where they are equal.
    """
    graph = model.main
    written = tuple(range(len(graph.operators)))
    found = best_order(graph, effort)
    orders = dict.fromkeys([written, found.operators])
    left = shared_numbers(model)
    plan = min([_placed(graph, x, found, left) for x in orders], key=lambda x: x.head_bytes)
    if len(model.graphs) == 1:
        return plan
    count = len([x for x in plan.lifetimes if x.tensor in left])
    caveat = _OTHER_GRAPHS.format(count=len(model.graphs), left=count)
    return replace(plan, caveats=(caveat,))


def shared_numbers(model: LiteModel) -> frozenset[int]:
    """Return the numbers of tensors that other subgraphs than the first have in the arena.

    Firmware reads the offset of tensor i of any subgraph where that of tensor i of the first one
    stands, or behind all of those in front of its subgraph: versions differ. Where no tensor of
    these numbers has an offset, both readings are the same.
    """
    return frozenset(
        [x.number for g in model.graphs[1:] for x in g.tensors if is_in_arena(g, x.number)]
    )


def _placed(
    graph: LiteGraph, order: Sequence[int], found: OperatorOrder, left: frozenset[int]
) -> MicroPlan:
    """The lower of two packings of an order: with and without tensors in the place of others.

    Tensors of the numbers in `left` have a place in the packing and no offset.
    """
    lives = lifetimes(graph, order)
    plans = []
    for shares in (_shares(graph, order, lives, left), {}):
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
            x.tensor: place
            for g, place in zip(groups, packed.offsets, strict=True)
            for x in g
            if x.tensor not in left
        }
        live = _live(lives, shares)
        plans.append(
            MicroPlan(
                tuple(order),
                tuple(lives),
                offsets,
                shares,
                in_lines(packed.total_size),
                live,
                min(found.bound_bytes, live),
            )
        )
    return min(plans, key=lambda x: x.head_bytes)


def _shares(
    graph: LiteGraph, order: Sequence[int], lives: Sequence[Lifetime], left: frozenset[int]
) -> dict[int, int]:
    """Of tensors that take the place of an input which ends there, that input; not of `left`."""
    last = {x.tensor: x.last for x in lives}
    found: dict[int, int] = {}
    for step, number in enumerate(order):
        operator = graph.operators[number]
        for given in overwritable(graph, operator):
            made = operator.outputs[0]
            if last.get(given) == step and made in last and not {given, made} & left:
                found[made] = given
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
