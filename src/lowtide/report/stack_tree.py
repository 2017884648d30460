"""The peak as a tree of calls in the user's program, from the outermost one in."""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.ir import SourceLocation
from lowtide.records import dataclass
from lowtide.report.blame import scope_of
from lowtide.report.peak import PeakBuffer
from lowtide.report.schema import Json

_Call = tuple[str, int, str]
"""File, line and function of a call."""


@dataclass(frozen=True, slots=True)
class StackNode:
    """A call, and what it and all that it calls hold at the peak.

    `parent` is the number of the caller in the list of nodes, -1 for none. `live` spans from the
    first definition to the last use. A scope has its name as function, without file and line.
    """

    file: str
    line: int
    function: str
    parent: int
    nbytes: int
    live: tuple[int, int]

    def to_json(self) -> Json:
        """Return the entry of the schema's `peak.tree`."""
        return {
            "file": self.file,
            "line": self.line,
            "function": self.function,
            "parent": self.parent,
            "bytes": self.nbytes,
            "live": list(self.live),
        }


@dataclass(frozen=True, slots=True)
class StackTree:
    """The nodes, callers before callees, and the number of each buffer's innermost call.

    A buffer of which no call is known has -1.
    """

    nodes: tuple[StackNode, ...]
    leaf_of: tuple[int, ...]


def stack_tree(buffers: Sequence[PeakBuffer]) -> StackTree:
    """Return the tree of the calls that made some buffers.

    Where a buffer has no calls, or only one, the scopes of its name stand around it.
    """
    number: dict[tuple[int, _Call], int] = {}
    calls: list[tuple[int, _Call]] = []
    members: list[list[PeakBuffer]] = []
    leaf_of = []
    for buffer in buffers:
        at = -1
        for call in _path(buffer):
            key = (at, call)
            if key not in number:
                number[key] = len(calls)
                calls.append(key)
                members.append([])
            at = number[key]
            members[at].append(buffer)
        leaf_of.append(at)
    nodes = [
        StackNode(*call, parent, sum([x.nbytes for x in held]), _live(held))
        for (parent, call), held in zip(calls, members, strict=True)
    ]
    return StackTree(tuple(nodes), tuple(leaf_of))


def _path(buffer: PeakBuffer) -> list[_Call]:
    """The calls that made a buffer, from the outside in."""
    if len(buffer.stack) > 1:
        return [_call(x) for x in reversed(buffer.stack)]
    scopes: list[_Call] = [("", 0, scope) for scope in scope_of(buffer.op_name)]
    return [*scopes, *map(_call, buffer.stack)]


def _call(place: SourceLocation) -> _Call:
    return place.file, place.line, place.function


def _live(held: Sequence[PeakBuffer]) -> tuple[int, int]:
    return min([x.live[0] for x in held]), max([x.live[1] for x in held])
