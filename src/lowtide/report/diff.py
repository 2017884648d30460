"""The difference of two peaks in parts that add up to it, and the line that it is put down to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from lowtide.ir import SourceLocation
from lowtide.records import dataclass
from lowtide.report.blame import scope_of
from lowtide.report.contents import CommonPart, in_common, share_arguments
from lowtide.report.matching import match_buffers
from lowtide.report.peak import CauseKind, PeakBuffer
from lowtide.report.schema import Json, TextReport, source_json
from lowtide.report.side import DiffSide, program_name

DIFF_SCHEMA: Final = "lowtide.diff/1"


class ChangeKind(StrEnum):
    """The ways in which a part of the peak can differ."""

    ADDED = "added"
    """Nothing of that name was computed before."""
    GONE = "gone"
    """Nothing of that name is computed any more."""
    GREW = "grew"
    SHRANK = "shrank"
    LIVES_LONGER = "lives longer"
    """It was stored before too, but not at the peak."""
    ENDS_EARLIER = "ends earlier"
    """It is stored still, but not at the peak."""
    FUSED_OTHERWISE = "fused otherwise"
    """It is stored where a kernel joined it, or the other way round."""
    AT_THE_PEAK = "at the peak"
    """Only one of the peaks has it; whether the other program has it is not known."""
    ARGUMENTS = "arguments"
    CONSTANTS = "constants"
    PACKING = "packing"
    CAUSE = "cause"
    """The sum of one cause, in programs that have nothing in common."""


@dataclass(frozen=True, slots=True)
class DiffPart:
    """A part of the difference: `nbytes` more after the change than before, or fewer if negative.

    `text` says what it is; `source` and `scope` where it comes from; `count` is how many buffers.
    """

    kind: ChangeKind
    nbytes: int
    count: int
    text: str
    source: SourceLocation | None = None
    scope: str = ""

    def to_json(self) -> Json:
        """Return the entry of the schema's `parts`."""
        return {
            "kind": self.kind.value,
            "bytes": self.nbytes,
            "count": self.count,
            "text": self.text,
            "source": source_json(self.source),
            "scope": self.scope,
        }


@dataclass(frozen=True, slots=True)
class MemoryDiff(TextReport):
    """Two programs and what their peaks differ in; the bytes of `parts` sum to the difference.

    Parts stand by size, largest first, whatever their sign. `is_related` says whether the programs
    have enough in common for parts to be put down to lines. `common` counts what they share,
    nothing where only reports are known.
    """

    before: DiffSide
    after: DiffSide
    parts: tuple[DiffPart, ...]
    is_related: bool
    common: tuple[CommonPart, ...] = ()

    @property
    def nbytes(self) -> int:
        """The difference of all memory of a call, in bytes."""
        return self.after.total_bytes - self.before.total_bytes

    @property
    def culprit(self) -> DiffPart | None:
        """The part to blame: the largest at the place whose parts make most of the difference."""
        if not self.nbytes or not self.is_related:
            return None
        sign = 1 if self.nbytes > 0 else -1
        sums: Counter[Hashable] = Counter()
        for part in self.parts:
            sums[_place(part)] += sign * part.nbytes
        worst = max(sums, key=lambda x: sums[x])
        return max([x for x in self.parts if _place(x) == worst], key=lambda x: sign * x.nbytes)

    def __repr__(self) -> str:
        from lowtide.report.diff_text import headline
        from lowtide.report.drawing import harmless

        return f"<MemoryDiff {harmless(headline(self))}>"

    def __str__(self) -> str:
        from lowtide.report.diff_text import diff_text
        from lowtide.report.drawing import visible

        return visible(diff_text(self))

    def to_json(self) -> Json:
        """Return the schema "lowtide.diff/1"."""
        from lowtide.report.diff_text import headline

        return {
            "schema": DIFF_SCHEMA,
            "before": _side_json(self.before),
            "after": _side_json(self.after),
            "difference_bytes": self.nbytes,
            "related": self.is_related,
            "common": [x.to_json() for x in self.common],
            "headline": headline(self),
            "parts": [x.to_json() for x in self.parts],
        }


def _side_json(side: DiffSide) -> Json:
    return {"file": side.label, "module": side.module, "total_bytes": side.total_bytes}


def _place(part: DiffPart) -> Hashable:
    source = part.source
    if source is None:
        return part.scope or part.kind
    return source.file.rpartition("/")[2], source.function or source.line


def diff_of(before: DiffSide, after: DiffSide) -> MemoryDiff:
    """Return what the peak of `after` differs in from that of `before`."""
    is_related = _are_related(before, after)
    if is_related:
        parts = [*_figures(before, after), *_buffers(before, after)]
    else:
        parts = _causes(before, after)
    first, second = before.contents, after.contents
    common = () if first is None or second is None else in_common(first, second)
    return MemoryDiff(before, after, _by_size(parts), is_related, common)


def _by_size(parts: Sequence[DiffPart]) -> tuple[DiffPart, ...]:
    return tuple(sorted([x for x in parts if x.nbytes], key=lambda x: -abs(x.nbytes)))


def _figures(before: DiffSide, after: DiffSide) -> Iterator[DiffPart]:
    rows = (
        (ChangeKind.ARGUMENTS, after.arguments - before.arguments, "arguments"),
        (ChangeKind.CONSTANTS, after.constants - before.constants, "constants"),
        (ChangeKind.PACKING, after.packing - before.packing, "holes between buffers"),
    )
    for kind, nbytes, text in rows:
        yield DiffPart(kind, nbytes, 0, text)


def _causes(before: DiffSide, after: DiffSide) -> list[DiffPart]:
    sums: Counter[CauseKind] = Counter()
    for buffer in after.buffers:
        sums[buffer.cause] += buffer.nbytes
    for buffer in before.buffers:
        sums[buffer.cause] -= buffer.nbytes
    parts = [DiffPart(ChangeKind.CAUSE, sums[kind], 0, kind.value) for kind in CauseKind]
    return [*_figures(before, after), *parts]


# -- what is in common -------------------------------------------------------------------------

_LEAST_SHARED: Final = 10
"""Two forms of a program share at least one in so many of the names of the smaller one."""
_LEAST_OF_OTHERS: Final = 4
"""Programs of different names share at least one in so many of the names of the larger one."""

_LEAST_OF_STRANGERS: Final = 2
"""Programs that take nothing alike share more than one in so many of the names of the larger."""


def _are_related(before: DiffSide, after: DiffSide) -> bool:
    first, second = _names(before), _names(after)
    if not first or not second:
        first, second = _operations(before), _operations(after)
    smaller = min(len(first), len(second))
    shared, is_one = len(first & second), before.module == after.module
    if not smaller:
        return is_one
    if not is_one and shared * _LEAST_OF_OTHERS < max(len(first), len(second)):
        return False  # Any two programs add, and have the names of JAX's own functions.
    if shared * _LEAST_OF_STRANGERS <= max(len(first), len(second)) and not _take_alike(
        before, after
    ):
        return False  # Two programs that are called `step` are not one for that.
    return shared * _LEAST_SHARED >= smaller


def _take_alike(before: DiffSide, after: DiffSide) -> bool:
    """Whether two programs have an argument in common, as far as that is known."""
    first, second = before.contents, after.contents
    return first is None or second is None or share_arguments(first, second)


def _names(side: DiffSide) -> set[str]:
    """The names in a program."""
    found = {program_name(x.op_name) for x in side.buffers}
    if side.names is not None:
        found |= side.names.stored | side.names.joined
    return found - {""}


def _operations(side: DiffSide) -> set[str]:
    """The operations in a program with their shapes; else those at its peak."""
    if side.contents is not None:
        return set(side.contents.operations)
    return {f"{x.opcode} {x.shape}" for x in side.buffers}


# -- buffers -------------------------------------------------------------------------------------


class _Change(NamedTuple):
    """A buffer that differs by `nbytes`; `text` has the place of its shape as `{}`."""

    kind: ChangeKind
    buffer: PeakBuffer
    nbytes: int
    text: str


def _buffers(before: DiffSide, after: DiffSide) -> list[DiffPart]:
    matches = match_buffers(before.buffers, after.buffers)
    changes = []
    for old, new in matches.pairs:
        if nbytes := new.nbytes - old.nbytes:
            kind = ChangeKind.GREW if nbytes > 0 else ChangeKind.SHRANK
            changes.append(_Change(kind, new, nbytes, f"{kind.value} from {old.shape}: {{}}"))
    for new in matches.added:
        kind = _fate(new, before, ChangeKind.ADDED, ChangeKind.LIVES_LONGER)
        text = f"{_ADDED[kind]}: {{}}, live over {_steps(new)}"
        changes.append(_Change(kind, new, new.nbytes, text))
    for old in matches.gone:
        kind = _fate(old, after, ChangeKind.GONE, ChangeKind.ENDS_EARLIER)
        changes.append(_Change(kind, old, -old.nbytes, f"{_GONE[kind]}: {{}}"))
    return _merged(changes)


def _steps(buffer: PeakBuffer) -> str:
    count = buffer.live[1] - buffer.live[0] + 1
    return f"{count:,} step{'s' if count > 1 else ''}"


_ADDED: Final = {
    ChangeKind.ADDED: "new",
    ChangeKind.LIVES_LONGER: "held at the peak now",
    ChangeKind.FUSED_OTHERWISE: "stored now, joined by a kernel before",
    ChangeKind.AT_THE_PEAK: "at the peak now",
}
_GONE: Final = {
    ChangeKind.GONE: "not computed any more",
    ChangeKind.ENDS_EARLIER: "not held at the peak any more",
    ChangeKind.FUSED_OTHERWISE: "joined by a kernel now, stored before",
    ChangeKind.AT_THE_PEAK: "not at the peak any more",
}


def _fate(
    buffer: PeakBuffer, other: DiffSide, missing: ChangeKind, elsewhere: ChangeKind
) -> ChangeKind:
    """What became, in the other program, of a value that only one of the peaks has."""
    name = program_name(buffer.op_name)
    if other.names is None or not name:
        return ChangeKind.AT_THE_PEAK
    if name in other.names.stored:
        return elsewhere
    return ChangeKind.FUSED_OTHERWISE if name in other.names.joined else missing


def _merged(changes: Sequence[_Change]) -> list[DiffPart]:
    """One part per kind, source line and shape."""
    found: dict[Hashable, list[_Change]] = {}
    for change in changes:
        buffer = change.buffer
        scope = scope_of(buffer.op_name) if buffer.source is None else ()
        found.setdefault((change.kind, buffer.source, scope, buffer.shape), []).append(change)
    return [_part(members) for members in found.values()]


def _part(members: Sequence[_Change]) -> DiffPart:
    worst = max(members, key=lambda x: abs(x.nbytes))
    count, buffer = len(members), worst.buffer
    return DiffPart(
        worst.kind,
        sum([x.nbytes for x in members]),
        count,
        worst.text.format(f"{count:,} x {buffer.shape}" if count > 1 else buffer.shape),
        buffer.source,
        "/".join(scope_of(buffer.op_name)),
    )
