"""Bundles of models: zip archives, as those of MediaPipe's tasks, with TFLite files inside."""

from __future__ import annotations

import io
import zipfile
from typing import Final

from lowtide.frontend.file_kinds import ZIP
from lowtide.ir.errors import InputError

_SUFFIX: Final = ".tflite"


def models_in(data: bytes) -> list[str]:
    """Return the names of TFLite files in an archive, none for bytes that are no archive."""
    if not data.startswith(ZIP):
        return []
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return [x for x in archive.namelist() if x.lower().endswith(_SUFFIX)]
    except zipfile.BadZipFile:
        return []


def model_in(data: bytes, file: str) -> bytes:
    """Return the bytes of the only model in an archive, and others as they are.

    Raises InputError for archives of several models, which it names, and for damaged ones.
    """
    names = models_in(data)
    if not names:
        return data
    if len(names) > 1:
        listed = ", ".join(names)
        raise InputError(f"the archive has several models: unpack one of {listed}", file=file)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return archive.read(names[0])
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
        raise InputError(f"the archive is damaged at {names[0]}: {error}", file=file) from error
