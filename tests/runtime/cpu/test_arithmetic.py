"""Runs compute as IEEE 754 says by default, whatever the calling thread is set to."""

import ctypes
import platform
import struct
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from tests.runtime.cpu.handmade import MULTIPLY, Draft, kernel

from lowtide.runtime.cpu.call import load

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64" or platform.libc_ver()[0] != "glibc",
    reason="sets the register of x86-64 through glibc",
)

DEFAULT, FLUSH, UPWARD = 0x1F80, 0x8040, 0x4000
"""Values of MXCSR: all masked; denormals become 0; rounding up."""

MXCSR_PLACE = 28
"""Where glibc's environment of 32 bytes has the register."""


def set_register(value: int) -> None:
    libm = ctypes.CDLL("libm.so.6")
    environment = ctypes.create_string_buffer(32)
    libm.fegetenv(environment)
    struct.pack_into("<I", environment, MXCSR_PLACE, value)
    libm.fesetenv(environment)


@contextmanager
def register(bits: int) -> Iterator[None]:
    set_register(DEFAULT | bits)
    try:
        yield
    finally:
        set_register(DEFAULT)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("seconds", [1e-9, 1e-3])
def test_the_callers_rounding_is_not_that_of_kernels(threads: int, seconds: float) -> None:
    draft = Draft(units=64, seconds=seconds)
    a, b, c = draft.argument(), draft.argument(), draft.temporary()
    draft.result(c)
    run = load(draft.program([kernel(MULTIPLY, a, b, c)], threads=threads))
    small = np.full(draft.count, 3e-39, np.float32)
    odd = np.random.default_rng(0).random(draft.count, np.float32)
    third = np.full(draft.count, 1 / 3, np.float32)
    for bits, x in ((FLUSH, small), (UPWARD, odd)):
        wanted = (x * third).view(np.uint32)
        with register(bits):
            changed = (x * third).view(np.uint32)
            found = run(x, third).view(np.uint32)
            again = (x * third).view(np.uint32)
        assert not np.array_equal(changed, wanted), "the register is not set"
        np.testing.assert_array_equal(again, changed)
        np.testing.assert_array_equal(found, wanted)
