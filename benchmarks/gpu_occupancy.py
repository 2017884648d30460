"""How many warps of a kernel a multiprocessor has room for, by the limits of its architecture.

By the table of technical specifications per compute capability in NVIDIA's CUDA C++ Programming
Guide. Registers are given out to a warp by 256, shared memory to a block by 128 bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

WARP = 32
REGISTERS = 1 << 16
MOST_BLOCKS = 32
BLOCK_BYTES = 1 << 10
"""Registers and blocks of a multiprocessor; shared memory of a block that the system takes."""


@dataclass(frozen=True)
class Multiprocessor:
    """The warps that are resident at most, and bytes of shared memory for all blocks."""

    warps: int
    shared: int


MULTIPROCESSORS = {
    "sm_80": Multiprocessor(64, 164 << 10),
    "sm_90a": Multiprocessor(64, 228 << 10),
    "sm_100": Multiprocessor(64, 228 << 10),
}


def resident_warps(target: str, registers: int, shared: int, threads: int) -> int:
    """Return how many warps of a kernel are resident at once, at most."""
    room = MULTIPROCESSORS[target.removeprefix("cuda:")]
    warps = -(-threads // WARP)
    of_a_warp = -(-registers * WARP // 256) * 256
    of_a_block = -(-(shared + BLOCK_BYTES) // 128) * 128
    blocks = min(
        MOST_BLOCKS, room.warps // warps, REGISTERS // of_a_warp // warps, room.shared // of_a_block
    )
    return blocks * warps


def occupancy(target: str, registers: int, shared: int, threads: int) -> float:
    """Return the part of the warps that a multiprocessor can have which are resident."""
    most = MULTIPROCESSORS[target.removeprefix("cuda:")].warps
    return resident_warps(target, registers, shared, threads) / most
