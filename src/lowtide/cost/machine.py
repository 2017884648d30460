"""Figures of machines: clocks, rates and times of the memory, one record per target.

Every estimate of time reads them: which kernels are fused, how products are blocked, into how many
pieces work is split, what recomputation costs. Equal options have to give equal programs. So the
figures come from this table, not from the host at hand.
"""

from __future__ import annotations

import math
from typing import Final

from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class CacheRate:
    """Bytes per cycle that a loop moves whose arrays have at most `most_bytes` together."""

    most_bytes: int
    bytes_per_cycle: float


@dataclass(frozen=True, slots=True)
class Machine:
    """The work that one core of a machine does in a second.

    `clock_hertz` is the clock where little but loads and stores runs, `vector_clock_hertz` that of
    a core busy with multiplications of vectors, which is lower. `launch_seconds` start a kernel and
    wait for its threads; `step_seconds` go by from one kernel to the next on one thread.

    Moving data: `cached_byte_seconds` for a byte from or to the second-level cache, of which an
    array of `cache_bytes` fits beside the other operands, `memory_byte_seconds` for one from or to
    memory. `stream_bytes_per_second` is what one thread reads with nothing else to do, and
    `bytes_per_cycle` what a loop moves that also computes. `cache_rates`, the smallest first, and
    `memory_bytes_per_cycle` beyond the last of them are those of a loop that computes little.
    `copy_bytes_per_second` is a copy from memory to memory.

    Computing, on one element in vectors of 32-bit floats: `element_seconds` for a simple operation,
    `division_seconds`, `transcendental_seconds` for exp, log and the like; `flop_seconds` for an
    addition or multiplication of a contraction.
    """

    name: str
    clock_hertz: float
    vector_clock_hertz: float
    launch_seconds: float
    step_seconds: float
    cache_bytes: int
    cached_byte_seconds: float
    memory_byte_seconds: float
    stream_bytes_per_second: float
    bytes_per_cycle: float
    cache_rates: tuple[CacheRate, ...]
    memory_bytes_per_cycle: float
    copy_bytes_per_second: float
    element_seconds: float
    division_seconds: float
    transcendental_seconds: float
    flop_seconds: float


@dataclass(frozen=True, slots=True)
class HostLink:
    """The link between a device and the memory of its host, each way by itself.

    One copy goes over it at a time, each way, beside what the device computes: it takes
    `start_seconds` and the time of its bytes. Raises ValueError where bytes per second are not
    a number above 0, or seconds not one from 0 on.
    """

    bytes_per_second: float
    start_seconds: float

    def __post_init__(self) -> None:
        """Check both figures."""
        if not 0 < self.bytes_per_second < math.inf:
            raise ValueError(
                f"a link moves a positive number of bytes per second, not {self.bytes_per_second}"
            )
        if not 0 <= self.start_seconds < math.inf:
            raise ValueError(f"a copy starts in 0 seconds or more, not {self.start_seconds}")

    def seconds(self, nbytes: float) -> float:
        """Return the time of a copy of so many bytes."""
        return self.start_seconds + nbytes / self.bytes_per_second


PCI_EXPRESS: Final = HostLink(bytes_per_second=64e9, start_seconds=1e-5)
"""16 lanes of the fifth generation, as specified: none was measured."""

X86_SERVER: Final = Machine(
    name="one core of an x86-64 server",
    clock_hertz=3e9,
    vector_clock_hertz=2.5e9,
    launch_seconds=1e-6,
    step_seconds=4e-8,
    cache_bytes=1 << 19,
    cached_byte_seconds=2e-11,
    memory_byte_seconds=1e-10,
    stream_bytes_per_second=12e9,
    bytes_per_cycle=8.0,
    cache_rates=(CacheRate(1 << 20, 24.0), CacheRate(4 << 20, 14.0)),
    memory_bytes_per_cycle=6.0,
    copy_bytes_per_second=8e9,
    element_seconds=5e-11,
    division_seconds=4e-10,
    transcendental_seconds=1e-9,
    flop_seconds=8e-12,
)
"""Measured with loops over arrays of 32-bit floats that exceed each cache, on servers with AVX-512.

For what is fused only the ratios of the figures matter.
"""

H100: Final = Machine(
    name="NVIDIA H100 SXM, as its maker describes it",
    clock_hertz=1.755e9,
    vector_clock_hertz=1.755e9,
    launch_seconds=3e-6,
    step_seconds=2e-6,
    cache_bytes=25 << 20,
    cached_byte_seconds=1.8e-13,
    memory_byte_seconds=3.0e-13,
    stream_bytes_per_second=3.35e12,
    bytes_per_cycle=1900.0,
    cache_rates=(CacheRate(25 << 20, 3100.0),),
    memory_bytes_per_cycle=1900.0,
    copy_bytes_per_second=1.5e12,
    element_seconds=6e-14,
    division_seconds=4.8e-13,
    transcendental_seconds=6e-13,
    flop_seconds=1.5e-14,
)
"""The whole device at work: 132 multiprocessors of 128 lanes, 50 MiB of second-level cache, 80 GB
at 3.35 TB/s, 67 TFLOP/s in 32-bit floats. Figures of the maker, and of arithmetic with them: none
was measured. `flop_seconds` is that of 32-bit floats without tensor cores.
"""

ACCELERATOR: Final = Machine(
    name="one accelerator of a data centre",
    clock_hertz=1.7e9,
    vector_clock_hertz=1.7e9,
    launch_seconds=2e-6,
    step_seconds=2e-6,
    cache_bytes=32 << 20,
    cached_byte_seconds=2e-13,
    memory_byte_seconds=4e-13,
    stream_bytes_per_second=2.5e12,
    bytes_per_cycle=1500.0,
    cache_rates=(CacheRate(32 << 20, 3000.0),),
    memory_bytes_per_cycle=1500.0,
    copy_bytes_per_second=1.25e12,
    element_seconds=3e-14,
    division_seconds=2e-13,
    transcendental_seconds=1.2e-13,
    flop_seconds=2.5e-15,
)
"""Round figures of 2.5 TB/s of memory and 400 Tflop/s in products: no kernels are made for it.

Only the simulated step of a partitioned program reads them.
"""
