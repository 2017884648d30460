"""Threefry-2x32 and Philox-4x32 on vectors of counters.

Source of both: J. Salmon, M. Moraes, R. Dror and D. Shaw (2011), "Parallel random numbers: as easy
as 1, 2, 3".
"""

from __future__ import annotations

from typing import Final

from lowtide.codegen.elementwise.number import Number

_ROTATIONS: Final = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY: Final = 0x1BD11BDA
_MULTIPLIERS: Final = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS: Final = (0x9E3779B9, 0xBB67AE85)
_PHILOX_ROUNDS: Final = 10
_LOW: Final = 0xFFFFFFFF


def threefry(key: Number, counter: Number) -> list[Number]:
    """Return the two words (i32) of counters (i64), in 20 rounds; the key is an i64 per lane."""
    low, high = _halves(key)
    keys = (low, high, low ^ high ^ _PARITY)
    a, b = _halves(counter)
    a, b = a + keys[0], b + keys[1]
    for group in range(5):
        for distance in _ROTATIONS[group % 2]:
            a = a + b
            b = _rotated(b, distance) ^ a
        a = a + keys[(group + 1) % 3]
        b = b + (keys[(group + 2) % 3] + (group + 1))
    return [a, b]


def _halves(x: Number) -> tuple[Number, Number]:
    return x.cast("trunc", "i32"), (x >> 32).cast("trunc", "i32")


def _rotated(x: Number, distance: int) -> Number:
    return x.intrinsic("fshl", x, distance)


def philox(key: Number, low: Number, high: Number) -> list[Number]:
    """Return the four words, each in an i64, of 128-bit counters; all are an i64 per lane."""
    words = [low & _LOW, low >> 32, high & _LOW, high >> 32]
    keys = [key & _LOW, key >> 32]
    for _ in range(_PHILOX_ROUNDS):
        p, q = words[0] * _MULTIPLIERS[0], words[2] * _MULTIPLIERS[1]
        words = [(q >> 32) ^ words[1] ^ keys[0], q & _LOW, (p >> 32) ^ words[3] ^ keys[1], p & _LOW]
        keys = [(x + step) & _LOW for x, step in zip(keys, _KEY_STEPS, strict=True)]
    return words
