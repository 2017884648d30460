"""Groups of the peak's buffers: by line, function, scope, operation or cause."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final

from lowtide.report.blame import primitive_of, scope_of, user_frames
from lowtide.report.peak import PeakBuffer, PeakGroup

_WEIGHTY: Final = 4
"""A line with at least one part in so many of the peak is worth to be split by its callers."""
_DOMINANT: Final = (3, 4)
"""A part of a line with at least this share of it is split in turn."""
_PARTS: Final = 5
"""How many parts of such a line have a row; the others are one."""


def groups_of(buffers: Sequence[PeakBuffer], by: str = "line") -> tuple[PeakGroup, ...]:
    """Return buffers in groups, largest sum first; `by` is a name of `GROUPINGS`.

    By line, a helper that makes much of the peak for several scopes or callers is split by these.
    """
    key, label = GROUPINGS[by]
    found = _grouped(buffers, key, label)
    if by == "line":
        total = sum([x.nbytes for x in buffers])
        found = [
            part
            for group in found
            for part in (_by_use(group) if group.nbytes * _WEIGHTY >= total else [group])
        ]
    return tuple(sorted(found, key=lambda group: -group.nbytes))


def _grouped(
    buffers: Sequence[PeakBuffer],
    key: Callable[[PeakBuffer], Hashable],
    label: Callable[[PeakBuffer], str],
) -> list[PeakGroup]:
    found: dict[Hashable, list[PeakBuffer]] = {}
    for buffer in buffers:
        found.setdefault(key(buffer), []).append(buffer)
    return [
        PeakGroup(members[0].source, sum([x.nbytes for x in members]), tuple(members), text)
        for members in found.values()
        for text in [label(members[0])]
    ]


# -- the ways to group -----------------------------------------------------------------------------


def _line(buffer: PeakBuffer) -> Hashable:
    source = buffer.source
    if source is None:
        return scope_of(buffer.op_name) or (buffer.kind, buffer.opcode)
    return source.file, source.line


def _line_label(buffer: PeakBuffer) -> str:
    return "" if buffer.source is not None else "/".join(scope_of(buffer.op_name))


def _function(buffer: PeakBuffer) -> Hashable:
    source = buffer.source
    return (source.file, source.function) if source else _line(buffer)


def _function_label(buffer: PeakBuffer) -> str:
    source = buffer.source
    if source is None:
        return _line_label(buffer)
    return f"{PurePosixPath(source.file).name} {source.function}".rstrip()


def _scope(buffer: PeakBuffer) -> str:
    return "/".join(scope_of(buffer.op_name)) or f"({buffer.kind}s outside of scopes)"


def _operation(buffer: PeakBuffer) -> str:
    return primitive_of(buffer.op_name) or buffer.opcode


def _cause(buffer: PeakBuffer) -> str:
    return buffer.cause.value


_Grouping = tuple[Callable[[PeakBuffer], Hashable], Callable[[PeakBuffer], str]]

GROUPINGS: Final[Mapping[str, _Grouping]] = {
    "line": (_line, _line_label),
    "function": (_function, _function_label),
    "scope": (_scope, _scope),
    "op": (_operation, _operation),
    "cause": (_cause, _cause),
}
"""By name: what the buffers of a group have in common, and what it is called; "" for its line."""


# -- helpers that many use ---------------------------------------------------------------------


def _by_use(group: PeakGroup) -> list[PeakGroup]:
    """The parts of a group by the outermost scopes, or else callers, in which its buffers differ.

    A part that has most of the group is split in turn. The largest parts stand by themselves, the
    others are one.
    """
    for path_of in (_scopes, _callers):
        parts = [group]
        while depth := _split_depth(parts[0], group, path_of):
            found: dict[tuple[str, ...], list[PeakBuffer]] = {}
            for buffer in parts[0].buffers:
                found.setdefault(tuple(path_of(buffer)[:depth]), []).append(buffer)
            inner = [_part(group, members, "/".join(path)) for path, members in found.items()]
            parts = sorted([*parts[1:], *inner], key=lambda x: -x.nbytes)
        if len(parts) > 1:
            break
    rest = [x for part in parts[_PARTS:] for x in part.buffers]
    if len(parts) <= _PARTS + 1:
        return parts
    rest.sort(key=lambda x: -x.nbytes)
    return [*parts[:_PARTS], _part(group, rest, f"{len(parts) - _PARTS} other scopes")]


def _split_depth(
    part: PeakGroup, group: PeakGroup, path_of: Callable[[PeakBuffer], Sequence[str]]
) -> int:
    """How many parts of their paths tell the buffers of the main part apart, 0 for no matter."""
    if part.nbytes * _DOMINANT[1] < group.nbytes * _DOMINANT[0]:
        return 0
    depth = _first_difference([path_of(x) for x in part.buffers])
    return 0 if depth is None else depth + 1


def _part(group: PeakGroup, members: Sequence[PeakBuffer], label: str) -> PeakGroup:
    nbytes = sum([x.nbytes for x in members])
    is_line = group.source is not None
    return PeakGroup(group.source, nbytes, tuple(members), label, is_line)


def _scopes(buffer: PeakBuffer) -> tuple[str, ...]:
    return scope_of(buffer.op_name)


def _callers(buffer: PeakBuffer) -> tuple[str, ...]:
    """The calls in the user's files around the line itself, from it outwards."""
    around = user_frames(buffer.stack)[1:]
    return tuple([f"{PurePosixPath(x.file).name}:{x.line}" for x in around])


def _first_difference(paths: Sequence[Sequence[str]]) -> int | None:
    """The first part in which some paths differ, None where they do not."""
    longest = max([len(path) for path in paths], default=0)
    for depth in range(longest):
        if len({tuple(path[depth : depth + 1]) for path in paths}) > 1:
            return depth
    return None
