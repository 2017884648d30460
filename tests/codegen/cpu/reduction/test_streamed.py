"""Results that are stored past the caches, rows of which are begun before the last one is done."""

import numpy as np
import pytest
from tests.codegen.cpu.reduction.kernels import TARGETS, check_program
from tests.codegen.cpu.reduction.test_fused import HEADER, LAYER_NORM, LOG_SOFTMAX, SOFTMAX

from lowtide.backends.build import build
from lowtide.backends.cpu import CpuBackend
from lowtide.codegen.cpu import element_streaming
from lowtide.codegen.cpu.reduction import staggered
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.runtime.cpu.call import LinkedExecutable

SHAPES = [(2, 64), (3, 16), (70, 32), (33, 10), (9, 208), (300, 129), (5, 4096), (2, 9000)]
"""Rows that begin at lines of the cache and others, short ones, and some that are too long."""


@pytest.fixture(autouse=True)
def _nothing_fits_in_caches(monkeypatch):
    monkeypatch.setattr(element_streaming, "STREAMED_BYTES", 0)
    monkeypatch.setattr(element_streaming, "FETCHED_BYTES", 0)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("m", "n"), SHAPES)
def test_softmax(m, n, target):
    x = 10 * np.random.default_rng(0).standard_normal((m, n), np.float32)
    x[0, 0] = -np.inf
    x[-1, n // 2] = np.nan
    for module in (SOFTMAX, LOG_SOFTMAX):
        check_program(HEADER + module.format(m=m, n=n), [x], ["rows"], target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("m", "n"), SHAPES)
def test_layer_norm(m, n, target):
    rng = np.random.default_rng(0)
    x, scale = (rng.standard_normal(shape, np.float32) for shape in ((m, n), n))
    given = [x, scale, rng.random((m, n)) < 0.8]
    check_program(HEADER + LAYER_NORM.format(m=m, n=n), given, ["rows"], target)


def test_rows_one_after_the_other_give_the_same_bits(monkeypatch):
    """The order of sums is that of rows that are not staggered."""
    x = np.random.default_rng(0).standard_normal((77, 512), np.float32)
    module = parse_hlo(HEADER + SOFTMAX.format(m=77, n=512))
    found = []
    written = []
    plain = staggered.StaggeredRows.write
    monkeypatch.setattr(
        staggered.StaggeredRows, "write", lambda self: written.append(self) or plain(self)
    )
    for most in (staggered.MOST_BYTES, 0):
        monkeypatch.setattr(staggered, "MOST_BYTES", most)
        found.append(np.asarray(LinkedExecutable(build(module, CpuBackend(2)).program)(x)))
    np.testing.assert_array_equal(*found)
    assert len(written) == 1
