"""Figures of devices that work together: what one computes, and the links between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lowtide.cost.machine import ACCELERATOR, X86_SERVER, Machine
from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class LinkRecord:
    """What one device sends to others at a time: one transfer, in the order of their starts.

    A collective takes `start_seconds` besides the time of its bytes. At most `slots` transfers may
    be started and not ended; one more waits for the oldest one.
    """

    name: str
    bytes_per_second: float
    start_seconds: float
    slots: int

    def seconds(self, nbytes: float) -> float:
        """Return the time of a collective in which one device sends so many bytes."""
        return self.start_seconds + nbytes / self.bytes_per_second


@dataclass(frozen=True, slots=True)
class DeviceRecord:
    """One device: its machine, and its links, those within a host first, then those to others.

    Devices of numbers that `devices_per_host` divides equally are on one host.
    """

    machine: Machine
    links: tuple[LinkRecord, LinkRecord]
    devices_per_host: int

    def link_between(self, groups: tuple[tuple[int, ...], ...]) -> int:
        """Return the number of the link that groups of devices need, the slowest of all.

        No groups stand for one of all devices, on several hosts.
        """
        hosts = [{device // self.devices_per_host for device in group} for group in groups]
        return 0 if groups and all(len(own) == 1 for own in hosts) else 1


DEVICES: Final[dict[str, DeviceRecord]] = {
    "accelerator": DeviceRecord(
        ACCELERATOR,
        (
            LinkRecord("links within a host", 300e9, 8e-6, 32),
            LinkRecord("network", 45e9, 20e-6, 32),
        ),
        8,
    ),
    "x86-server": DeviceRecord(
        X86_SERVER,
        (
            LinkRecord("shared memory", X86_SERVER.copy_bytes_per_second, 8e-6, 32),
            LinkRecord("network", 2.5e9, 50e-6, 32),
        ),
        64,
    ),
}
"""By name, the usual one first. Round figures, of which only the ratios matter."""


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
