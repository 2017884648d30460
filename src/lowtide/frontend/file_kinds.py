"""Marks of files in other formats, whose readers are loaded for such files only."""

from __future__ import annotations

from typing import Final

IDENTIFIER: Final = b"TFL3"
"""Bytes 4 to 7 of a TFLite model."""


def looks_like_tflite(data: bytes) -> bool:
    """Return whether bytes begin as a TFLite model does."""
    return data[4:8] == IDENTIFIER


def looks_like_nnvm(data: bytes) -> bool:
    """Return whether a JSON text may be a graph of NNVM: its fields tell, wherever they stand."""
    return begins_like_nnvm(data) and b'"arg_nodes"' in data and b'"heads"' in data


def begins_like_nnvm(data: bytes) -> bool:
    """Return whether a text begins as a graph of NNVM does, behind white space."""
    return data.lstrip().startswith(b"{")
