"""The bytes of a model as it was given: their digest, and arrays that lie in them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any, Final, final

import numpy as np

from lowtide.ir.literal import Array
from lowtide.records import dataclass

_CHUNK_BYTES: Final = 1 << 20


@dataclass(frozen=True, eq=False, slots=True)
class ArrayPlace:
    """An array that lies in a file of the model's folder, "" for the model itself."""

    file: str
    begin: int
    dtype: np.dtype[Any]
    sizes: tuple[int, ...]


@final
class ModelBytes:
    """A model in a file or in bytes, and files in its folder."""

    def __init__(self, source: str | os.PathLike[str] | bytes) -> None:
        self._source = source
        self._digests: dict[str, str] = {}

    def digest(self, others: Iterable[str] = ()) -> str:
        """Return a digest of the model and of other files in its folder.

        It is "" where one of them is no plain file that can be read. A file is read once.
        """
        for name in ("", *others):
            if name not in self._digests:
                self._digests[name] = self._digest(name)
        parts = [self._digests[x] for x in ("", *others)]
        if "" in parts:
            return ""
        return parts[0] if len(parts) == 1 else hashlib.sha256("".join(parts).encode()).hexdigest()

    def arrays(self, places: Iterable[ArrayPlace]) -> list[Array]:
        """Return arrays that lie there; raises OSError and ValueError where they do not.

        Those in other files are mapped, as they are aligned there.
        """
        return [self._array(x) for x in places]

    def _digest(self, name: str) -> str:
        if isinstance(self._source, bytes):
            return "" if name else hashlib.sha256(self._source).hexdigest()
        found = hashlib.sha256()
        try:
            path = self._path(name)
            if not path.is_file():  # To open a pipe waits for who writes to it.
                return ""
            with path.open("rb") as file:
                while chunk := file.read(_CHUNK_BYTES):
                    found.update(chunk)
        except (OSError, ValueError):
            return ""
        return found.hexdigest()

    def _path(self, name: str) -> Path:
        assert not isinstance(self._source, bytes)
        path = Path(self._source)
        return path.parent / name if name else path

    def _array(self, place: ArrayPlace) -> Array:
        if isinstance(self._source, bytes):
            return np.ndarray(place.sizes, place.dtype, self._source, place.begin).copy()
        path = self._path(place.file)
        if place.file and 0 not in place.sizes:
            found = np.memmap(path, place.dtype, "r", place.begin, place.sizes)
            return np.asarray(found)
        with path.open("rb") as file:
            return _read(file, place)


def _read(file: IO[bytes], place: ArrayPlace) -> Array:
    found = np.empty(place.sizes, place.dtype)
    file.seek(place.begin)
    if file.readinto(found.reshape(-1).view(np.uint8)) < found.nbytes:  # type: ignore[attr-defined]
        raise ValueError("the file ends too early")
    return found
