"""The known name that somebody may have meant."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from difflib import SequenceMatcher

_LONGEST: Final = 80
_MOST: Final = 20_000
_LIKE: Final = 0.6
"""The least ratio of names that are alike: twice the letters in common by those of both."""

_FIRST: Final = 4
"""First letters that count for more than others."""

_BEGUN: Final = 3
"""Letters of a name that tell it, however long it is."""

_BEGUN_SCORE: Final = 0.9


def nearest(value: str, known: Iterable[str], like: float = _LIKE) -> str:
    """Return `; did you mean 'x'?` for the known name that is nearest, or nothing."""
    found = nearest_name(value, known, like)
    return f"; did you mean {str(found)!r}?" if found else ""


def nearest_name(value: str, known: Iterable[str], like: float = _LIKE) -> str:
    """Return the known name that is nearest, or "" where none is as much alike as `like` (0 to 1).

    Beginnings count for more than ends: names that are as much alike go by the first letters that
    they share, and three letters are enough to begin a longer name. Lower and upper case are alike.
    Source of the weight of first letters: Winkler (1990), "String Comparator Metrics and Enhanced
    Decision Rules in the Fellegi-Sunter Model of Record Linkage".
    """
    from difflib import SequenceMatcher  # Loaded where something is misspelt.

    wanted = value[:_LONGEST].casefold()
    matcher = SequenceMatcher(b=wanted)
    best, chosen = (0.0, 0.0), ""
    for name in islice(known, _MOST):
        score = _score(matcher, wanted, name.casefold(), like)
        if score > best or (score == best and chosen and name < chosen):
            best, chosen = score, name
    return chosen


def _score(
    matcher: SequenceMatcher[str], wanted: str, name: str, like: float
) -> tuple[float, float]:
    """How near a name is, and its ratio; zeros where it is not alike."""
    is_begun = len(wanted) >= _BEGUN and name.startswith(wanted)
    matcher.set_seq1(name)
    if not is_begun and min(matcher.real_quick_ratio(), matcher.quick_ratio()) < like:
        return 0.0, 0.0
    ratio = matcher.ratio()
    if ratio < like and not is_begun:
        return 0.0, 0.0
    pairs = zip(name[:_FIRST], wanted, strict=False)
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    score = ratio + 0.1 * shared * (1 - ratio)
    return max(score, _BEGUN_SCORE) if is_begun else score, ratio
