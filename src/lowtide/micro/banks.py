"""Tensors in several memories: what is touched most per byte lies in the first one."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

from lowtide.frontend.tflite.model import LiteGraph
from lowtide.ir.errors import LowtideError
from lowtide.micro.lifetimes import LINE
from lowtide.micro.planning import MicroPlan
from lowtide.planning.assign import assign_offsets
from lowtide.planning.problem import TensorUsageRecord
from lowtide.records import dataclass

_TRIED: Final = "greedy_by_size"
"""How tensors are packed to see whether they fit a memory; what fits is packed exactly."""


class BankError(LowtideError):
    """Tensors that do not fit the memories that there are."""


@dataclass(frozen=True, slots=True)
class Bank:
    """A memory: its name and its bytes."""

    name: str
    nbytes: int


@dataclass(frozen=True, slots=True)
class BankPlan:
    """A memory, the offsets of the tensors in it, and where the last of them ends."""

    bank: Bank
    offsets: dict[int, int]
    used_bytes: int


def plan_banks(graph: LiteGraph, plan: MicroPlan, banks: Sequence[Bank]) -> list[BankPlan]:
    """Return which tensors lie in which memory, the first of which is to be the fastest.

    Tensors that take the place of others stay there. Raises BankError where they do not all fit.
    """
    left = _hottest_first(graph, plan)
    found = []
    for bank in banks:
        count = _fitting(left, bank.nbytes)
        taken, left = left[:count], left[count:]
        packed = assign_offsets([x.record for x in taken], "exact", alignment=LINE)
        offsets = {y: place for x, place in zip(taken, packed.offsets, strict=True) for y in x.all}
        found.append(BankPlan(bank, offsets, packed.total_size))
    if left:
        first = left[0]
        name = graph.tensors[first.all[0]].name
        raise BankError(
            f"tensor {first.all[0]} ({name}) of {first.record.size:,} bytes, and {len(left) - 1:,} "
            f"others that are touched less, fit none of "
            + ", ".join([f"{x.name} ({x.nbytes:,} bytes)" for x in banks])
        )
    return found


@dataclass(frozen=True, slots=True)
class _Place:
    """Tensors that share one place, when it is taken, and how often it is touched."""

    all: tuple[int, ...]
    record: TensorUsageRecord
    touches: int


def _hottest_first(graph: LiteGraph, plan: MicroPlan) -> list[_Place]:
    """The places of tensors: those with most touches per byte first, small before large."""
    touches: dict[int, int] = {}
    for operator in graph.operators:
        for tensor in (*operator.inputs, *operator.outputs):
            touches[tensor] = touches.get(tensor, 0) + 1
    groups: dict[int, list[int]] = {}
    for life in sorted(plan.lifetimes, key=lambda x: (x.first, x.tensor)):
        given = plan.overwrites.get(life.tensor)
        group = groups[given] if given is not None else []
        group.append(life.tensor)
        groups[life.tensor] = group
    lives = {x.tensor: x for x in plan.lifetimes}
    places = []
    for group in {id(x): x for x in groups.values()}.values():
        held = [lives[x] for x in group]
        first, last = min([x.first for x in held]), max([x.last for x in held])
        record = TensorUsageRecord(held[0].nbytes, first + 1, last + 1)
        places.append(_Place(tuple(group), record, sum([touches.get(x, 0) for x in group])))
    return sorted(places, key=lambda x: (x.record.size, -x.touches, x.all))


def _fitting(places: Sequence[_Place], nbytes: int) -> int:
    """How many of the first places fit together into some bytes."""

    def height(count: int) -> int:
        records = [x.record for x in places[: count + 1]]
        return assign_offsets(records, _TRIED, alignment=LINE).total_size

    return bisect_left(range(len(places)), True, key=lambda x: height(x) > nbytes)
