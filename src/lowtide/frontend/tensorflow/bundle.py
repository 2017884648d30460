"""Checkpoints of TensorFlow: an index, which is a sorted table, and shards of tensors' bytes.

    variables.index ──> name, type, sizes, shard, place ──> variables.data-00000-of-00001

The index is in the form of LevelDB's tables: blocks of entries whose keys leave out what they begin
with like the one before, each block with a checksum, and at the end where the list of blocks is.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, final

import numpy as np

from lowtide.frontend.tensorflow.dtypes import type_of
from lowtide.frontend.tensorflow.messages import parse
from lowtide.frontend.tensorflow.tensors import sizes_of
from lowtide.ir.element_type import ElementType
from lowtide.ir.errors import InputError
from lowtide.ir.literal import DTYPES, Array
from lowtide.records import dataclass
from lowtide.suggestions import nearest

_MAGIC: Final = 0xDB4775248B80FB57
_FOOTER: Final = 48
_TRAILER: Final = 5
_PLAIN: Final = 0
_MOST_ENTRIES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """Where a tensor lies: its type, sizes, and the part of a shard."""

    kind: ElementType | str
    sizes: tuple[int, ...]
    shard: int
    offset: int
    nbytes: int


@final
class CheckpointBundle:
    """A checkpoint by its prefix, such as `variables/variables`; tensors are read when asked for.

    Raises InputError for files that are missing or damaged.
    """

    def __init__(self, prefix: Path) -> None:
        self._prefix = prefix
        self._file = prefix.with_name(prefix.name + ".index")
        entries = dict(_table(_bytes_of(self._file), str(self._file)))
        header = parse("BundleHeader", entries.pop(b"", b""), str(self._file))
        self._shards = int(header.num_shards)
        self.tensors: Mapping[str, StoredTensor] = {
            key.decode("utf-8", "replace"): self._stored(value) for key, value in entries.items()
        }

    def array(self, name: str) -> Array:
        """Return a tensor; raises InputError for an unknown name and for a short shard."""
        if name not in self.tensors:
            raise self._error(f"holds no tensor {name!r}{nearest(name, self.tensors)}")
        found = self.tensors[name]
        if not isinstance(found.kind, ElementType):
            raise self._error(f"tensor {name!r} is {found.kind}, which no array is")
        dtype = DTYPES[found.kind]
        count = int(np.prod(found.sizes, dtype=np.int64))
        if count * dtype.itemsize != found.nbytes:
            raise self._error(
                f"tensor {name!r} of sizes {list(found.sizes)} has {found.nbytes:,} bytes, "
                f"{count * dtype.itemsize:,} needed"
            )
        return np.frombuffer(self.content(name), dtype).reshape(found.sizes)

    def content(self, name: str) -> bytes:
        """Return the bytes of a tensor as they lie in its shard."""
        found = self.tensors[name]
        if not 0 <= found.shard < self._shards:
            raise self._error(f"tensor {name!r} lies in shard {found.shard} of {self._shards}")
        path = self._prefix.with_name(
            f"{self._prefix.name}.data-{found.shard:05}-of-{self._shards:05}"
        )
        try:
            with path.open("rb") as stream:
                stream.seek(found.offset)
                data = stream.read(found.nbytes)
        except OSError as error:
            raise InputError(_reason(error), file=str(path)) from error
        if len(data) != found.nbytes:
            text = f"ends before tensor {name!r}, bytes {found.offset:,} to "
            raise InputError(f"{text}{found.offset + found.nbytes:,}", file=str(path))
        return data

    def _stored(self, value: bytes) -> StoredTensor:
        entry = parse("BundleEntry", value, str(self._file))
        sizes = sizes_of(entry.shape)
        if sizes is None or min(sizes, default=0) < 0 or entry.size < 0 or entry.offset < 0:
            raise self._error("has a tensor of unknown sizes")
        place = int(entry.shard_id), int(entry.offset), int(entry.size)
        return StoredTensor(type_of(entry.dtype), sizes, *place)

    def _error(self, message: str) -> InputError:
        return InputError(message, file=str(self._file))


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(_reason(error), file=str(path)) from error


def _reason(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "no such file: the weights of the model are missing"
    return f"cannot be read: {(error.strerror or str(error)).lower()}"


# -- tables --------------------------------------------------------------------------------------


def _table(data: bytes, file: str) -> Iterator[tuple[bytes, bytes]]:
    """The entries of a table in order; raises InputError where it is damaged."""
    if len(data) < _FOOTER or struct.unpack_from("<Q", data, len(data) - 8)[0] != _MAGIC:
        raise InputError("is no index of a checkpoint: its last bytes are others", file=file)
    try:
        at = _skipped(data, len(data) - _FOOTER, 2)
        place, size = _handle(data, at)
        count = 0
        for _, handle in _block(data, place, size, file):
            for entry in _block(data, *_handle(handle, 0), file):
                count += 1
                if count > _MOST_ENTRIES:
                    raise InputError(f"has over {_MOST_ENTRIES:,} entries", file=file)
                yield entry
    except (IndexError, struct.error) as error:
        raise InputError("is damaged: an entry reaches beyond its end", file=file) from error


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of 7 bits a byte, the lowest first, and where the next begins."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128 or shift > 63:
            return value, at


def _skipped(data: bytes, at: int, numbers: int) -> int:
    for _ in range(numbers):
        _, at = _varint(data, at)
    return at


def _handle(data: bytes, at: int) -> tuple[int, int]:
    """Where a block is, and how long without its trailer."""
    place, at = _varint(data, at)
    return place, _varint(data, at)[0]


def _block(data: bytes, place: int, size: int, file: str) -> Iterator[tuple[bytes, bytes]]:
    if place + size + _TRAILER > len(data) or size < 4:
        raise InputError(f"is damaged: a block at {place:,} reaches beyond its end", file=file)
    if data[place + size] != _PLAIN:
        raise InputError("has compressed blocks, which are not read", file=file)
    wanted = struct.unpack_from("<I", data, place + size + 1)[0]
    if _masked(_crc32c(data[place : place + size + 1])) != wanted:
        raise InputError(f"is damaged: the checksum of the block at {place:,} differs", file=file)
    block = data[place : place + size]
    restarts = struct.unpack_from("<I", block, size - 4)[0]
    end, at, key = size - 4 - 4 * restarts, 0, b""
    while at < end:
        shared, at = _varint(block, at)
        rest, at = _varint(block, at)
        length, at = _varint(block, at)
        key = key[:shared] + block[at : at + rest]
        value = block[at + rest : at + rest + length]
        at += rest + length
        if at > end:
            raise InputError("is damaged: an entry reaches beyond its block", file=file)
        yield key, value


def _crc_table() -> list[int]:
    """What each byte does to a checksum of Castagnoli's polynomial, reversed."""
    found = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        found.append(value)
    return found


_CRC: Final = _crc_table()


def _crc32c(data: bytes) -> int:
    value = 0xFFFFFFFF
    for byte in data:
        value = (value >> 8) ^ _CRC[(value ^ byte) & 255]
    return value ^ 0xFFFFFFFF


def _masked(value: int) -> int:
    """A checksum as tables store it: turned by 15 bits, and a constant added."""
    return (((value >> 15) | (value << 17)) + 0xA282EAD8) & 0xFFFFFFFF
