"""Sizes as people write them."""

from __future__ import annotations

import re
from numbers import Integral
from typing import Final

from lowtide.ir.errors import LowtideError

_SIZE: Final = re.compile(r"(\d{1,40})(?:\.(\d{1,40}))?\s*(?:([kKMGTP])(i?))?B?", re.ASCII)
_POWERS: Final = {"k": 1, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}
_MOST: Final = 1 << 62
_EXAMPLES: Final = "512MiB, 1.5GB or 123"


class SizeError(LowtideError, ValueError):
    """A text that is given as a size and is none."""


def bytes_of(size: object) -> int:
    """Return a size in whole bytes: a number, or text like "512MiB", "1.5GB" or "123".

    A MB has 10^6 bytes, a MiB 2^20; parts of a byte that larger units leave are cut off. Raises
    SizeError for what is no size, is negative, or reaches 2^62 bytes, and for parts of one byte.
    """
    if isinstance(size, Integral) and not isinstance(size, bool):
        return _within(int(size), size)
    found = _SIZE.fullmatch(size.strip()) if isinstance(size, str) else None
    if found is None:
        raise SizeError(f"expected a size such as {_EXAMPLES}, found {size!r}")
    whole, digits, prefix, binary = found.groups(default="")
    unit = int((1024 if binary else 1000) ** _POWERS.get(prefix, 0))
    scaled, one = int(whole + digits) * unit, int(10 ** len(digits))
    if scaled % one and (not prefix or scaled < one):
        raise SizeError(f"a size is whole bytes, such as {_EXAMPLES}, found {size!r}")
    return _within(scaled // one, size)


def _within(nbytes: int, size: object) -> int:
    if not 0 <= nbytes < _MOST:
        raise SizeError(
            f"a size is from 0 to below 2^62 bytes, such as {_EXAMPLES}, found {size!r}"
        )
    return nbytes
