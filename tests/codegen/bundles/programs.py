"""Programs with bundles beside the same programs without, bit for bit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from tests.native.comparing import target_named

from lowtide.backends.build import build
from lowtide.backends.cpu import CpuBackend
from lowtide.evaluator import array_leaves
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir.module import Module
from lowtide.ir.thunk import BundleThunk, all_thunks, unbundled
from lowtide.runtime.cpu.call import CallOptions, LinkedExecutable
from lowtide.runtime.cpu.program import NativeProgram


def program_of(module: Module | str, threads: int = 1, target: str = "native") -> NativeProgram:
    """Return a module, or its text, as a program."""
    if isinstance(module, str):
        module = parse_hlo(module)
    return build(module, CpuBackend(threads, target_named(target))).program


def without_bundles(program: NativeProgram) -> NativeProgram:
    """Return a program that runs the parts of its bundles as thunks."""
    return replace(program, thunks=unbundled(program.thunks))


def bundles_of(program: NativeProgram) -> list[BundleThunk]:
    """Return the bundles of a program."""
    return [x for x in all_thunks(program.thunks) if isinstance(x, BundleThunk)]


def results(program: NativeProgram, *arguments: Any, consume: bool = False) -> list[np.ndarray]:
    """Return the arrays that a program makes of copies of arguments, depth first."""
    run = LinkedExecutable(program, options=CallOptions(huge_pages=False))
    given = [np.array(x) for x in arguments]
    return [np.asarray(x) for x in array_leaves(run(*given, consume=consume))]


def assert_same_bits(program: NativeProgram, *arguments: Any, consume: bool = False) -> None:
    """Assert that a program computes the same with and without its bundles; NaN is one number."""
    found = results(program, *arguments, consume=consume)
    expected = results(without_bundles(program), *arguments, consume=consume)
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        with np.errstate(all="ignore"):
            both_nan = (a != a) & (b != b)
        width = a.dtype.itemsize
        bits = [
            np.ascontiguousarray(x).reshape(-1).view(np.uint8).reshape(-1, width) for x in (a, b)
        ]
        equal = (bits[0] == bits[1]).all(axis=1)
        assert (equal | both_nan.reshape(-1)).all()
