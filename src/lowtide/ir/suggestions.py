"""The known name that somebody may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from itertools import islice
from typing import Final

_LONGEST: Final = 80
_MOST: Final = 20_000


def nearest(value: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` for the known name that is nearest, or nothing."""
    found = difflib.get_close_matches(value[:_LONGEST], list(islice(known, _MOST)), 1, 0.6)
    return f"; did you mean {found[0]!r}?" if found else ""
