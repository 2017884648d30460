"""The bytes of a file, decompressed where they are compressed, never more than a limit."""

from __future__ import annotations

import gzip
import io
import lzma
import zlib
from collections.abc import Callable
from typing import IO, Final, NamedTuple

from lowtide.ir.errors import InputError

LIMIT_BYTES: Final = 4 << 30
"""What a module may take once it is decompressed; more is taken for a decompression bomb."""

_CHUNK_BYTES: Final = 1 << 22


class _Format(NamedTuple):
    name: str
    magic: bytes
    open: Callable[[IO[bytes]], io.BufferedIOBase]


def _gzip_stream(stream: IO[bytes]) -> io.BufferedIOBase:
    return gzip.GzipFile(fileobj=stream)


_FORMATS: Final = (
    _Format("xz", b"\xfd7zXZ\x00", lzma.LZMAFile),
    _Format("gzip", b"\x1f\x8b", _gzip_stream),
)
_FAULTS: Final = (lzma.LZMAError, zlib.error, gzip.BadGzipFile, EOFError)


def read_bytes(stream: IO[bytes], file: str, limit_bytes: int = LIMIT_BYTES) -> bytes:
    """Return all bytes of `stream`, decompressed if they start as xz or gzip do.

    `file` names the stream in errors. Raises InputError for damaged data and for more than
    `limit_bytes` bytes, before or after decompression.
    """
    data = _read_up_to(stream, limit_bytes, "the file", file)
    for form in _FORMATS:
        if data.startswith(form.magic):
            return _decompress(form, data, file, limit_bytes)
    return data


def first_bytes(stream: IO[bytes], count: int) -> bytes:
    """Return up to `count` bytes from the start of a stream, decompressed; b"" if damaged."""
    head = stream.read(8)
    stream.seek(0)
    for form in _FORMATS:
        if head.startswith(form.magic):
            try:
                return form.open(stream).read(count)
            except _FAULTS:
                return b""
    return stream.read(count)


def _decompress(form: _Format, data: bytes, file: str, limit_bytes: int) -> bytes:
    try:
        return _read_up_to(form.open(io.BytesIO(data)), limit_bytes, "decompressed, it", file)
    except _FAULTS as error:
        reason = str(error).rstrip(".") or type(error).__name__
        raise InputError(f"the {form.name} data are damaged: {reason}", file=file) from error


def _read_up_to(
    stream: IO[bytes] | io.BufferedIOBase, limit_bytes: int, what: str, file: str
) -> bytes:
    parts = []
    size = 0
    while chunk := stream.read(_CHUNK_BYTES):
        parts.append(chunk)
        size += len(chunk)
        if size > limit_bytes:
            raise InputError(f"{what} is larger than {limit_bytes:,} bytes", file=file)
    return b"".join(parts)
