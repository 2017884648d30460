"""Time and memory of straight-line programs with copies to a host, worked out from the rules alone.

It shares no code with the planner. A device runs one instruction after the other. A link carries
copies out, and copies back, one at a time each way. What ends a copy waits for it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from lowtide.cost.machine import HostLink
from lowtide.ir import Module, Opcode
from lowtide.ir.shape import HOST_MEMORY


def seconds_of(module: Module, link: HostLink, times: Mapping[str, float]) -> float:
    """Return how long the entry takes; `times` are those of instructions by name, without numbers.

    Further runs of an instruction have its name with a number.
    """
    assert module.schedule is not None
    out, back, now = 0.0, 0.0, 0.0
    ends: dict[str, float] = {}
    for x in module.schedule.sequences[module.entry]:
        if x.opcode is Opcode.COPY_START:
            target = x.shape.tuple_shapes[0]
            long = link.start_seconds + target.nbytes / link.bytes_per_second
            if target.memory_space == HOST_MEMORY:
                ends[x.name] = out = max(out, now) + long
            else:
                ends[x.name] = back = max(back, now) + long
        elif x.opcode is Opcode.COPY_DONE:
            now = max(now, ends[x.operands[0].name])
        else:
            now += times[x.name] if x.name in times else times.get(x.name.rsplit(".", 1)[0], 0.0)
    return now


class Node(NamedTuple):
    """An instruction: its name, what it reads, the bytes that it makes, its seconds."""

    name: str
    reads: tuple[str, ...]
    nbytes: int
    seconds: float


class Item(NamedTuple):
    """A part of a program: `run`, or the begin or end of a copy `out` or `back`."""

    what: str
    name: str


class Found(NamedTuple):
    """The most bytes that a program holds, and its seconds."""

    nbytes: int
    seconds: float


def best_of_all(nodes: Sequence[Node], link: HostLink) -> list[Found]:
    """Return what nothing beats: each value kept, made again, or copied, at all places for that."""
    found = {_judged(nodes, program, link) for program in _programs(nodes)}
    kept: list[Found] = []
    for one in sorted(found, key=lambda x: (x.seconds, x.nbytes)):
        if not kept or one.nbytes < kept[-1].nbytes:
            kept.append(one)
    return kept


def _programs(nodes: Sequence[Node]) -> Iterator[list[Item]]:
    """Yield all programs in which each value's longest gap is kept, or filled in either way."""
    options = []
    for made, node in enumerate(nodes):
        uses = [made, *[k for k, x in enumerate(nodes) if node.name in x.reads]]
        gap = max(itertools.pairwise(uses), key=lambda x: x[1] - x[0], default=(0, 0))
        options.append([()])
        if node.reads and gap[1] - gap[0] > 2:
            places = range(gap[0] + 1, gap[1] + 1)
            options[-1] += [(("run", gap[1], 3),)]
            options[-1] += [
                (("out", made + 1, 0), ("out ends", a, 1), ("back", b, 2), ("back ends", gap[1], 3))
                for a, b in itertools.combinations_with_replacement(places, 2)
            ]
    for chosen in itertools.product(*options):
        extra = [(at, k, what, n) for n, x in enumerate(chosen) for what, at, k in x]
        program: list[Item] = []
        for place, node in enumerate(nodes):
            here = sorted([x for x in extra if x[0] == place])
            program += [Item(what, nodes[n].name) for _, _, what, n in here]
            program.append(Item("run", node.name))
        yield program


def _judged(nodes: Sequence[Node], program: Sequence[Item], link: HostLink) -> Found:
    by_name = {x.name: x for x in nodes}
    begin: list[int] = []
    end: list[float] = []
    size: list[int] = []
    latest: dict[str, int] = {}
    coming: dict[str, int] = {}
    now, free, ends = 0.0, {"out": 0.0, "back": 0.0}, dict[tuple[str, str], float]()
    for step, (what, name) in enumerate(program):
        node = by_name[name]
        if what in free:
            long = link.start_seconds + node.nbytes / link.bytes_per_second
            ends[what, name] = free[what] = max(now, free[what]) + long
        elif what != "run":
            now = max(now, ends[what.split()[0], name])
        reads = node.reads if what == "run" else (name,) if what.startswith("out") else ()
        for read in reads:
            end[latest[read]] = step
        if what == "back ends":
            latest[name] = coming[name]
            end[latest[name]] = step
        if what in ("run", "back"):
            begin.append(step)
            end.append(step)
            size.append(node.nbytes)
            place = latest if what == "run" else coming
            place[name] = len(begin) - 1
            now += node.seconds if what == "run" else 0.0
    end[latest[nodes[-1].name]] = math.inf
    held = [
        sum([size[k] for k in range(len(begin)) if begin[k] <= step <= end[k]])
        for step in range(len(program))
    ]
    return Found(max(held), now)
