"""Routines that LLVM calls, each against NumPy."""

import ctypes

import numpy as np

from lowtide.llvm.machine import KernelCompiler, Library
from lowtide.llvm.routines import routines_of
from lowtide.llvm.target import host_target

TEXT = """
define void @shortened(ptr %from, ptr %to, i64 %count) nounwind {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %source = getelementptr double, ptr %from, i64 %i
  %target = getelementptr half, ptr %to, i64 %i
  %x = load double, ptr %source
  %y = fptrunc double %x to half
  store half %y, ptr %target
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %loop, label %out
out:
  ret void
}
"""


def doubles() -> np.ndarray:
    """All halves, what is between two of them, and what is next to both."""
    bits = np.arange(0x7C00, dtype=np.uint16)
    halves = bits.view(np.float16).astype(np.float64)
    between = (halves[:-1] + halves[1:]) / 2
    found = [halves, between, [65519.0, 65520.0, 1e5, 1e300, 5e-324, 1e-40, np.inf, np.nan]]
    found += [np.nextafter(x, to) for x in (halves, between) for to in (0.0, np.inf)]
    values = np.concatenate(found)
    return np.concatenate([values, -values])


def test_doubles_are_rounded_to_halves_once() -> None:
    code = KernelCompiler(host_target()).object_code(TEXT)
    assert "__truncdfhf2" in routines_of([code])
    given = doubles()
    got = np.empty(given.shape, np.float16)
    library = Library([code], ["shortened"], host_target())
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    call(library["shortened"])(given.ctypes.data, got.ctypes.data, given.size)
    with np.errstate(over="ignore"):
        expected = given.astype(np.float16)
    np.testing.assert_array_equal(got, expected)
    assert (np.signbit(got) == np.signbit(given))[~np.isnan(given)].all()
