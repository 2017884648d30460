"""Matching of the buffers of two peaks: by name, source and structure, never by number."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from typing import Final

from lowtide.records import dataclass
from lowtide.report.peak import PeakBuffer
from lowtide.report.side import program_name


@dataclass(frozen=True, slots=True)
class BufferMatches:
    """Pairs of a buffer of each side, and what has no partner."""

    pairs: tuple[tuple[PeakBuffer, PeakBuffer], ...]
    gone: tuple[PeakBuffer, ...]
    added: tuple[PeakBuffer, ...]


def match_buffers(before: Sequence[PeakBuffer], after: Sequence[PeakBuffer]) -> BufferMatches:
    """Return the pairs of buffers that are one thing in two programs.

    What agrees in most is paired first: name and shape, then name, then the function with the
    shape; buffers without a name by operation and shape, and so all where only one program has
    names. Each buffer is in at most one pair.
    """
    keys = _KEYS if _is_named(before) == _is_named(after) else (_operation_and_shape,)
    pairs: list[tuple[PeakBuffer, PeakBuffer]] = []
    left, right = list(before), list(after)
    for key in keys:
        waiting: dict[Hashable, deque[PeakBuffer]] = {}
        for buffer in left:
            waiting.setdefault(key(buffer), deque()).append(buffer)
        waiting.pop(None, None)
        rest, taken = [], set()
        for buffer in right:
            queue = waiting.get(key(buffer))
            if queue:
                partner = queue.popleft()
                taken.add(partner.name)
                pairs.append((partner, buffer))
            else:
                rest.append(buffer)
        left = [x for x in left if x.name not in taken]
        right = rest
    return BufferMatches(tuple(pairs), tuple(left), tuple(right))


def _function(buffer: PeakBuffer) -> Hashable:
    source = buffer.source
    return None if source is None else (source.file.rpartition("/")[2], source.function)


def _name_and_all(buffer: PeakBuffer) -> Hashable:
    name = program_name(buffer.op_name)
    return (name, _function(buffer), buffer.shape, buffer.opcode) if name else None


def _name_and_shape(buffer: PeakBuffer) -> Hashable:
    name = program_name(buffer.op_name)
    return (name, buffer.shape) if name else None


def _name_and_operation(buffer: PeakBuffer) -> Hashable:
    name = program_name(buffer.op_name)
    return (name, buffer.opcode) if name else None


def _name(buffer: PeakBuffer) -> Hashable:
    return program_name(buffer.op_name) or None


def _function_and_shape(buffer: PeakBuffer) -> Hashable:
    function = _function(buffer)
    return None if function is None else (function, buffer.shape, buffer.opcode)


def _structure(buffer: PeakBuffer) -> Hashable:
    return None if buffer.op_name or buffer.source else _operation_and_shape(buffer)


def _operation_and_shape(buffer: PeakBuffer) -> Hashable:
    return buffer.opcode, buffer.shape


def _is_named(buffers: Sequence[PeakBuffer]) -> bool:
    """Whether a program says where anything in it comes from; any program does that has nothing."""
    return not buffers or any(x.op_name or x.source for x in buffers)


_KEYS: Final[tuple[Callable[[PeakBuffer], Hashable], ...]] = (
    *(_name_and_all, _name_and_shape, _name_and_operation, _name),
    *(_function_and_shape, _structure),
)
"""What two buffers have in common, the surest first; None for a buffer that it says nothing of."""
