"""Marks of files in other formats: those whose readers are loaded for them, and those of none."""

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

_EXPORT: Final = "export the model to ONNX"
_WEIGHTS: Final = f"has weights alone, without the operations of a model: {_EXPORT}"
_MODULE_BESIDE: Final = (
    "the module is the file before_optimizations or after_optimizations beside it"
)
_FOREIGN: Final = (
    (b"BufferAssignment:", f"XLA's buffer assignment: {_MODULE_BESIDE}"),
    (b"\nTotal bytes used:", f"XLA's list of allocated values: {_MODULE_BESIDE}"),
    (b"HloLiveRange (max", f"XLA's live ranges: {_MODULE_BESIDE}"),
    (b"Memory Space:", f"XLA's report on memory: {_MODULE_BESIDE}"),
    (b"; ModuleID =", f"LLVM IR, as XLA writes of kernels: {_MODULE_BESIDE}"),
    (b"\x7fELF", "machine code (ELF)"),
    (b"version https://git-lfs", "a pointer of Git LFS, not the file: git lfs pull fetches it"),
    (b"GGUF", f"GGUF, which {_WEIGHTS}"),
    (b"\x89HDF\r\n\x1a\n", f"HDF5, as Keras writes weights and models: {_EXPORT}"),
    (b"\x93NUMPY", "an array of NumPy"),
    (b"\xff\xfe", "UTF-16 text"),
    (b"\xfe\xff", "UTF-16 text"),
)
"""How files start that are given for models by mistake, and what they are."""

_ARCHIVED: Final = (
    (b"/data.pkl", f"an archive of PyTorch, whose pickle is not run: {_EXPORT}"),
    (b"metadata.json", f"a model of Keras: {_EXPORT} (model.export with format='onnx')"),
    (b".npy", "an archive of NumPy arrays"),
)
"""Names among the first entries of an archive, and what the archive is."""

_PICKLE: Final = re.compile(rb"\x80[\x02-\x05].*\.\Z", re.DOTALL)
_FLAGS: Final = re.compile(rb"xla_\w+: [^\n]*\n")
_PAGE: Final = re.compile(rb"\s*<(?:!doctype\s+html|html)\b", re.IGNORECASE)
_NAME_BYTES: Final = 26
"""Where the length of an entry's name stands in an archive; the name begins 4 bytes behind it."""


def looks_binary(data: bytes) -> bool:
    """Return whether the first bytes have characters that no text has."""
    return not _CONTROL.isdisjoint(data[:HEAD_BYTES])


def looks_like_tflite(data: bytes | memoryview) -> bool:
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


def foreign_kind(data: bytes | memoryview) -> str:
    """Return in words what bytes are that no reader takes, and what to do; "" where unknown."""
    head = bytes(data[:HEAD_BYTES])
    for start, words in _FOREIGN:
        if head.startswith(start):
            return words
    if head.startswith(ZIP):
        name = _first_name(head)
        return next((words for end, words in _ARCHIVED if name.endswith(end)), "a zip archive")
    if _FLAGS.match(head):
        return f"XLA's list of its options: {_MODULE_BESIDE}"
    if _PAGE.match(head):
        return "a page of HTML, as a download that failed leaves it"
    if 0 < int.from_bytes(head[:8], "little") <= len(data) - 8 and head[8:10] == b'{"':
        return f"safetensors, which {_WEIGHTS}"
    if _PICKLE.match(head[:2] + bytes(data[-1:])):
        return f"a pickle of Python, which is not run: {_EXPORT}"
    return ""


def _first_name(head: bytes) -> bytes:
    """The name of the first entry of an archive."""
    length = int.from_bytes(head[_NAME_BYTES : _NAME_BYTES + 2], "little")
    return head[_NAME_BYTES + 4 : _NAME_BYTES + 4 + length]
