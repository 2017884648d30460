"""Tables of checkpoints in every form that a writer may choose: blocks, restarts, shared keys."""

import random
import struct

import pytest

from lowtide.frontend.tensorflow.bundle import _table
from lowtide.ir.errors import InputError

MAGIC = 0xDB4775248B80FB57


def varint(value):
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


def checksum(data):
    """The masked checksum of a block, bit by bit."""
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    value ^= 0xFFFFFFFF
    return ((value >> 15 | value << 17 & 0xFFFFFFFF) + 0xA282EAD8) % 2**32


def block(entries, interval):
    """Entries with what each key shares with the one before, but for one in `interval`."""
    data, before, restarts = bytearray(), b"", []
    for number, (key, value) in enumerate(entries):
        shared = 0
        if number % interval == 0:
            restarts.append(len(data))
        else:
            while shared < min(len(key), len(before)) and key[shared] == before[shared]:
                shared += 1
        data += varint(shared) + varint(len(key) - shared) + varint(len(value))
        data += key[shared:] + value
        before = key
    for place in restarts or [0]:
        data += struct.pack("<I", place)
    return bytes(data) + struct.pack("<I", max(len(restarts), 1))


def table(entries, size, interval):
    """A table of blocks of `size` entries."""
    data, index = bytearray(), []
    for first in range(0, len(entries), size):
        part = entries[first : first + size]
        content = block(part, interval)
        index.append((part[-1][0], varint(len(data)) + varint(len(content))))
        data += content + b"\0" + struct.pack("<I", checksum(content + b"\0"))
    handles = b""
    for content in (block([], 1), block(index, 1)):
        handles += varint(len(data)) + varint(len(content))
        data += content + b"\0" + struct.pack("<I", checksum(content + b"\0"))
    return bytes(data + handles.ljust(40, b"\0") + struct.pack("<Q", MAGIC))


def entries_of(seed):
    """Keys of layers, which share much or nothing with the one before, in order."""
    rng = random.Random(seed)
    words = ("a", "layer_with_weights-", "b/kernel", "0", "1", "/.ATTRIBUTES/VARIABLE_VALUE")
    keys = {"".join(rng.choices(words, k=rng.randrange(1, 7))).encode() for _ in range(30)}
    return [(b"", b"header"), *[(k, rng.randbytes(rng.randrange(200))) for k in sorted(keys)]]


@pytest.mark.parametrize("seed", range(12))
def test_entries_come_back(seed):
    entries = entries_of(seed)
    data = table(entries, 1 + seed % 11, 1 + seed % 5)
    assert [*_table(data, "x.index")] == entries


def test_each_changed_byte_of_a_block_is_told():
    entries = entries_of(3)
    data = table(entries, 4, 2)
    for place in range(0, 60, 7):
        changed = bytearray(data)
        changed[place] ^= 4
        with pytest.raises(InputError, match="is damaged"):
            [*_table(bytes(changed), "x.index")]
