"""Marks of files in other formats, whose readers are loaded for such files only."""

from __future__ import annotations

import re
from typing import Final

IDENTIFIER: Final = b"TFL3"
"""Bytes 4 to 7 of a TFLite model."""

BYTECODE: Final = b"ML\xefR"
"""The first bytes of MLIR's bytecode."""

HEAD_BYTES: Final = 4096
"""So many first bytes tell what a file is."""

ZIP: Final = b"PK\x03\x04"
"""The first bytes of an archive."""

SAVED_MODEL: Final = "saved_model.pb"
"""The file in the folder of a SavedModel that has its graphs."""

_CONTROL: Final = frozenset(range(32)) - frozenset(b"\t\n\v\f\r")

_TEXTS: Final = (b"module @", b"module attributes", b"module {", b"#loc", b"func.func")
"""How texts of MLIR begin."""

_SPACE: Final = re.compile(rb"(?:\s|//[^\n]*(?:\n|\Z))*")
"""Comments and white space ahead of a text."""

_MOST_FIELDS: Final = 64
"""Bytes of the list of fields of an export at most."""


def looks_binary(data: bytes) -> bool:
    """Return whether the first bytes have characters that no text has."""
    return not _CONTROL.isdisjoint(data[:HEAD_BYTES])


def looks_like_tflite(data: bytes) -> bool:
    """Return whether bytes begin as a TFLite model does."""
    return data[4:8] == IDENTIFIER


def looks_like_nnvm(data: bytes) -> bool:
    """Return whether a JSON text may be a graph of NNVM: its fields tell, wherever they stand."""
    return begins_like_nnvm(data) and b'"arg_nodes"' in data and b'"heads"' in data


def begins_like_nnvm(data: bytes) -> bool:
    """Return whether a text begins as a graph of NNVM does, behind white space."""
    return data.lstrip().startswith(b"{")


def looks_like_stablehlo(data: bytes) -> bool:
    """Return whether bytes begin as MLIR does, its text or bytecode, or are those of an export."""
    space = _SPACE.match(data)
    start = space.end() if space else 0
    return data.startswith((BYTECODE, *_TEXTS), start) or looks_like_export(data)


def looks_like_export(data: bytes) -> bool:
    """Return whether bytes are what `jax.export` serializes: a table of flatbuffers with bytecode.

    Such a table is found where the first four bytes say, and tells where its own fields are listed.
    """
    root = int.from_bytes(data[:4], "little")
    if not 4 <= root <= len(data) - 4 or data.find(BYTECODE) < 4:
        return False
    fields = root - int.from_bytes(data[root : root + 4], "little", signed=True)
    return 4 <= fields <= len(data) - 4 and data[fields] <= _MOST_FIELDS
