"""Handlers of signals run while a bundle does, and what they raise ends it."""

from __future__ import annotations

import signal

import numpy as np
import pytest
from tests.codegen.bundles.programs import bundles_of, program_of

from lowtide.runtime.cpu.call import CallOptions, LinkedExecutable

ENDLESS = """HloModule endless

less { s = (s32[], s32[], f32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1
  ROOT c = pred[] compare(i, n), direction=NE }

body { s = (s32[], s32[], f32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1
  x = f32[] get-tuple-element(s), index=2
  two = s32[] constant(2)
  j = s32[] add(i, two)
  y = f32[] sine(x)
  ROOT t = (s32[], s32[], f32[]) tuple(j, n, y) }

ENTRY main {
  n = s32[] parameter(0)
  x = f32[] parameter(1)
  zero = s32[] constant(0)
  start = (s32[], s32[], f32[]) tuple(zero, n, x)
  l = (s32[], s32[], f32[]) while(start), condition=less, body=body
  ROOT y = f32[] get-tuple-element(l), index=2 }
"""
"""A loop that ends for even numbers only."""


class StoppedError(Exception):
    """What the handler raises."""


@pytest.mark.parametrize("threads", (1, 2))
def test_an_endless_bundle_ends_by_what_a_handler_raises(threads: int) -> None:
    program = program_of(ENDLESS, threads)
    assert bundles_of(program) == list(program.thunks)
    run = LinkedExecutable(program, options=CallOptions(huge_pages=False))

    def stop(*_: object) -> None:
        raise StoppedError

    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(StoppedError):
            run(np.int32(1), np.float32(0.5))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert run(np.int32(2), np.float32(0.5)) == pytest.approx(np.sin(np.float32(0.5)))
