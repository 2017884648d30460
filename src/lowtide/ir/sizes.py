"""Sizes as people write them, and budgets of memory: sizes, or shares of what a program needs."""

from __future__ import annotations

import re
from numbers import Integral
from typing import Final

from lowtide.ir.errors import LowtideError
from lowtide.records import dataclass

_SIZE: Final = re.compile(r"(\d{1,40})(?:\.(\d{1,40}))?\s*(?:([kKMGTP])(i?))?B?", re.ASCII)
_POWERS: Final = {"k": 1, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}
_MOST: Final = 1 << 62
_EXAMPLES: Final = "512MiB, 1.5GB or 123"
_SHARE: Final = re.compile(r"(\d{1,40})(?:\.(\d{1,40}))?%", re.ASCII)


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


@dataclass(frozen=True, slots=True)
class MemoryShare:
    """A budget in percent of what the plan without a budget needs beyond its arguments.

    `digits` are those of the percent, of which `decimals` stand behind the point.
    """

    digits: int
    decimals: int = 0

    def of(self, nbytes: int) -> int:
        """Return the share in whole bytes; parts of a byte are cut off."""
        return nbytes * self.digits // int(100 * 10**self.decimals)

    def __str__(self) -> str:
        """Return the share as it is given, such as 80% or 62.5%."""
        text = str(self.digits).rjust(self.decimals + 1, "0")
        point = len(text) - self.decimals
        return f"{text[:point]}.{text[point:]}%" if self.decimals else f"{text}%"


Budget = int | MemoryShare
"""The most memory that a plan may take: bytes, or a share of the plan without a budget."""


def in_bytes(budget: Budget, nbytes: int) -> int:
    """Return a budget in bytes, of a program that needs `nbytes` without one."""
    return budget if isinstance(budget, int) else budget.of(nbytes)


def budget_of(size: object) -> Budget:
    """Return a budget in bytes, as `bytes_of` takes them, or a share from text like "80%".

    Raises SizeError for what is neither, and for a share that is not above 0% and at most 100%.
    """
    if isinstance(size, MemoryShare):
        return size
    text = size.strip() if isinstance(size, str) else ""
    if "%" not in text:
        return bytes_of(size)
    found = _SHARE.fullmatch(text)
    if found is None:
        joined = "".join(text.split())
        hint = f"; write {joined!r}" if _SHARE.fullmatch(joined) else ""
        raise SizeError(
            f"expected a share such as 80%, or a size such as {_EXAMPLES}, found {size!r}{hint}"
        )
    whole, decimals = found.group(1), (found.group(2) or "").rstrip("0")
    share = MemoryShare(int(whole + decimals), len(decimals))
    if not 0 < share.digits <= 100 * 10**share.decimals:
        raise SizeError(
            "a share is above 0% and at most 100% of what the plan without a budget needs, such "
            f"as 80%, found {size!r}"
        )
    return share


def _within(nbytes: int, size: object) -> int:
    if not 0 <= nbytes < _MOST:
        raise SizeError(
            f"a size is from 0 to below 2^62 bytes, such as {_EXAMPLES}, found {size!r}"
        )
    return nbytes
