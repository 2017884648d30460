"""The digest of the sources of a package: it tells one tree from another where both are 0.1.0."""

from __future__ import annotations

import hashlib
from pathlib import Path

_DIGITS = 12


def source_digest(folder: Path) -> str:
    """Return the first hexadecimal digits of the digest of a folder, for people to compare."""
    return tree_digest(folder)[:_DIGITS]


def tree_digest(folder: Path) -> str:
    """Return the digest of all Python files below a folder, in hexadecimal digits.

    Names and contents count, times do not: a wheel has the digest of the checkout it was built of.
    """
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py"), key=lambda x: x.relative_to(folder).as_posix()):
        name = path.relative_to(folder).as_posix().encode()
        content = path.read_bytes()
        for part in (name, content):
            digest.update(len(part).to_bytes(8, "little"))
            digest.update(part)
    return digest.hexdigest()
