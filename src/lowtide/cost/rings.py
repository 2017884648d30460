"""Bytes that collectives send where the devices of a group pass them round a ring."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_ROUNDS: Final[Mapping[str, float]] = {
    "all-gather": 1.0,
    "all-reduce": 2.0,
    "all-to-all": 1.0,
    "reduce-scatter": 1.0,
}
"""How often the whole of an array goes round, by the kind of a collective."""


def ring_bytes(kind: str, nbytes: float, group: int) -> float:
    """Return the bytes that one device of a group sends.

    `nbytes` are those of the larger side: what a device has before, and of an all-gather, what it
    has behind. A collective of another kind, such as a permute, sends what it has.
    """
    rounds = _ROUNDS.get(kind)
    return nbytes if rounds is None else rounds * nbytes * (group - 1) / group
