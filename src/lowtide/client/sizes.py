"""Sizes as people write them."""

from __future__ import annotations

import re
from numbers import Integral
from typing import Final

_SIZE: Final = re.compile(r"(\d{1,19})(?:\.(\d{1,9}))?\s*(?:([kKMGTP])(i?))?B?", re.ASCII)
_POWERS: Final = {"k": 1, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}
_MOST: Final = 1 << 62


def bytes_of(size: int | str) -> int:
    """Return a size in whole bytes: a number, or text like "512MiB", "1.5GB" or "123".

    A MB has 10^6 bytes, a MiB 2^20. Raises ValueError for what is no size, is negative, or reaches
    2^62 bytes.
    """
    if isinstance(size, Integral) and not isinstance(size, bool):
        nbytes = int(size)
    elif not isinstance(size, str):
        raise ValueError(f"expected a size such as 512MiB, 1.5GB or 123, found {size!r}")
    else:
        found = _SIZE.fullmatch(size.strip())
        if found is None:
            raise ValueError(f"expected a size such as 512MiB, 1.5GB or 123, found {size!r}")
        whole, digits, prefix, binary = found.groups(default="")
        unit = int((1024 if binary else 1000) ** _POWERS.get(prefix, 0))
        nbytes = int(whole + digits) * unit // int(10 ** len(digits))
    if not 0 <= nbytes < _MOST:
        raise ValueError(f"expected a size from 0 to 2^62 bytes, found {size!r}")
    return nbytes
