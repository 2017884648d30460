"""Signatures by which a user's own files are known again, wherever they were in between.

The key is a file of random bytes that only the user may read. Who has it can sign as the user.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import stat
from pathlib import Path
from typing import Final

from lowtide.files.writing import PRIVATE_MODE, stranger, write_new
from lowtide.records import dataclass

KEY_BYTES: Final = 32
SIGNATURE_BYTES: Final = 32
MAKER_BYTES: Final = 8

UNSIGNED: Final = bytes(MAKER_BYTES + SIGNATURE_BYTES)
"""What stands in place of a signature where there is no key."""

_FILE: Final = "signing.key"


@dataclass(frozen=True, slots=True)
class SigningKey:
    """The key of a user, b"" where there is none for the reason `obstacle`."""

    secret: bytes
    obstacle: str = ""

    @property
    def maker(self) -> bytes:
        """What names the key and does not betray it."""
        return hashlib.blake2b(self.secret, digest_size=MAKER_BYTES).digest()

    def signature(self, data: bytes | memoryview) -> bytes:
        """Return the maker and the signature of data; `UNSIGNED` without a key."""
        if not self.secret:
            return UNSIGNED
        return self.maker + hmac.digest(self.secret, data, "sha256")

    def made(self, signature: bytes, data: bytes | memoryview) -> bool:
        """Whether a signature of these data was made with this key."""
        return bool(self.secret) and hmac.compare_digest(signature, self.signature(data))


def signing_key(folder: Path) -> SigningKey:
    """Return the key that is kept in a folder, made where there is none yet.

    One that others may read, or in a folder that they may write to, is none.
    """
    path = folder / _FILE
    try:
        if not path.is_symlink() and not path.exists():
            folder.mkdir(0o700, parents=True, exist_ok=True)
            write_new(path, os.urandom(KEY_BYTES), PRIVATE_MODE)
        return _read(path)
    except OSError as error:
        return SigningKey(b"", f"{error.filename or path}: {(error.strerror or '').lower()}")


def _read(path: Path) -> SigningKey:
    if why := stranger(path.parent.stat()):
        return SigningKey(b"", f"{path.parent}: {why}")
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    # A pipe that nobody writes to would be waited for.
    if not stat.S_ISREG(path.lstat().st_mode):
        return SigningKey(b"", f"{path}: is no file")
    with os.fdopen(os.open(path, flags), "rb") as file:
        status = os.fstat(file.fileno())
        if why := stranger(status):
            return SigningKey(b"", f"{path}: {why}")
        if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            return SigningKey(b"", f"{path}: others may read it: chmod 600")
        secret = file.read(KEY_BYTES + 1)
    if len(secret) != KEY_BYTES:
        return SigningKey(b"", f"{path}: is no key; remove it, and a new one is made")
    return SigningKey(secret)
