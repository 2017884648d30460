"""Combining of small collectives: those that wait for none of each other start once together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from lowtide.cost.machine import X86_SERVER
from lowtide.ir import Attributes, Computation, Instruction, Module, Opcode, tuple_shape
from lowtide.ir.attributes import Collective, GetTupleElement
from lowtide.ir.traversal import post_order

_KINDS: Final = frozenset({Opcode.ALL_GATHER, Opcode.ALL_REDUCE, Opcode.REDUCE_SCATTER})

_STARTS: Final = 8
"""How often the devices of a group wait for each other in one collective, as a round figure."""

SMALL_BYTES: Final = _STARTS * X86_SERVER.launch_seconds * X86_SERVER.copy_bytes_per_second
"""Bytes that move in the time in which a collective starts.

Larger ones gain little together, and have to keep their operands until the last one is there.
"""

_Key = tuple[Opcode, Attributes, tuple[Computation, ...], int]


def combine_collectives(module: Module, most_bytes: float = SMALL_BYTES) -> int:
    """Join collectives of one kind and group up to so many bytes; return how many fewer there are.

    No two of them are joined of which one waits for the other, however indirectly.
    """
    saved = 0
    for computation in list(module.computations.values()):
        for members in _groups(computation):
            for part in _parts(members, most_bytes):
                _join(computation, part)
                saved += len(part) - 1
    return saved


def _groups(computation: Computation) -> list[list[Instruction]]:
    """Return collectives of equal kind between which no path leads, in order.

    All stand behind equally many others on the longest path to them; so joining several groups
    makes no circle.
    """
    depths: dict[Instruction, int] = {}
    found: dict[_Key, list[Instruction]] = {}
    for x in post_order(computation):
        before = [depths[y] for y in (*x.operands, *x.control_predecessors)]
        depths[x] = max(before, default=0)
        if x.opcode not in _KINDS or len(x.operands) != 1 or x.has_control_edges:
            continue
        depths[x] += 1
        alike = replace(x.attributes_as(Collective), channel_id=None)
        key = x.opcode, alike, tuple(x.called_computations), depths[x]
        found.setdefault(key, []).append(x)
    return [members for members in found.values() if len(members) > 1]


def _parts(members: Sequence[Instruction], most_bytes: float) -> list[list[Instruction]]:
    """Return the members in parts of at least two, none of which moves more bytes."""
    parts: list[list[Instruction]] = [[]]
    total = 0
    for x in members:
        nbytes = max(x.shape.nbytes, x.operands[0].shape.nbytes)
        if nbytes > most_bytes:
            continue
        if total + nbytes > most_bytes:
            parts.append([])
            total = 0
        parts[-1].append(x)
        total += nbytes
    return [part for part in parts if len(part) > 1]


def _join(computation: Computation, members: Sequence[Instruction]) -> None:
    first = members[0]
    made = computation.add(
        first.opcode,
        tuple_shape([x.shape for x in members]),
        tuple([x.operands[0] for x in members]),
        first.attributes,
        tuple(first.called_computations),
    )
    made.set_metadata(first.raw_metadata)
    for number, x in enumerate(members):
        part = computation.add(
            Opcode.GET_TUPLE_ELEMENT, x.shape, (made,), GetTupleElement(number), ()
        )
        x.replace_all_uses_with(part)
        computation.remove(x)
