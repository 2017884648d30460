"""Stages of an fft: passes through all groups, or through one group after the other.

Two passes along long lines have an array between them. Where there are many groups of lines each
thread takes a group through both, and through those that go with them; what is between them is as
large as a group then, and stays in the caches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final

from lowtide.codegen.library.fft_form import FftPass, FoldPass, LinesPlace
from lowtide.records import dataclass

MANY_GROUPS: Final = 8
"""Groups from which on threads share none."""


@dataclass(frozen=True, slots=True)
class FftStage:
    """Passes in turn: for each of `groups`, or one pass for everything where there are 0.

    `own` is how many elements lie between them in an array of the thread.
    """

    passes: tuple[FftPass | FoldPass, ...]
    groups: int = 0
    own: int = 0


def stages_of(passes: Sequence[FftPass | FoldPass]) -> tuple[FftStage, ...]:
    """Return the stages of an fft with these passes.

    Groups are those of the dimensions before the one along which lines lie: passes in turn that
    have as many of them have the same.
    """
    found: list[FftStage] = []
    for groups, neighbours in groupby(passes, lambda x: x.groups):
        together = tuple(neighbours)
        if groups >= MANY_GROUPS and any(_is_half_way(x) for x in together):
            found.append(_in_turn(together, groups))
        else:
            found += [FftStage((x,)) for x in together]
    return tuple(found)


def _is_half_way(one: FftPass | FoldPass) -> bool:
    return isinstance(one, FftPass) and one.target.place is LinesPlace.HALF_WAY


def _in_turn(passes: Sequence[FftPass | FoldPass], groups: int) -> FftStage:
    """The stage of passes through as many groups, each of which reads its own part of arrays."""
    own = max([x.count * x.kept for x in passes if isinstance(x, FftPass) and _is_half_way(x)])
    return FftStage(tuple([_by_thread(x) for x in passes]), groups, own)


def _by_thread(one: FftPass | FoldPass) -> FftPass | FoldPass:
    """A pass with what lies half way in an array of the thread."""
    if isinstance(one, FoldPass):
        return one
    source, target = (
        replace(x, place=LinesPlace.OWN, group=0) if x.place is LinesPlace.HALF_WAY else x
        for x in (one.source, one.target)
    )
    return replace(one, source=source, target=target)
