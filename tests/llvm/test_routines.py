"""Routines that LLVM calls, each against NumPy."""

import ctypes
import platform

import numpy as np
import pytest

from lowtide.llvm.elf import read_object, undefined_symbols
from lowtide.llvm.library import Library
from lowtide.llvm.machine import KernelCompiler
from lowtide.llvm.named_targets import NAMED_TARGETS
from lowtide.llvm.routines import routines_of
from lowtide.llvm.target import Target, host_target

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


x86_only = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="all processors of Arm have halves"
)


def like_host(name: str) -> Target:
    """Return this processor with no more instructions than a named one has."""
    host = host_target()
    kept = tuple([x for x in NAMED_TARGETS[name].features if x in host.features])
    return Target(host.triple, "x86-64", kept, 16)


@x86_only
def test_doubles_are_rounded_to_halves_once() -> None:
    target = like_host("x86-64-v3")  # Those with AVX-512 for halves need no routine.
    code = KernelCompiler(target).object_code(TEXT)
    assert "__truncdfhf2" in routines_of([code], target)
    given = doubles()
    got = np.empty(given.shape, np.float16)
    library = Library([code], ["shortened"], target)
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    call(library["shortened"])(given.ctypes.data, got.ctypes.data, given.size)
    with np.errstate(all="ignore"):
        expected = given.astype(np.float16)
    np.testing.assert_array_equal(got, expected)
    assert (np.signbit(got) == np.signbit(given))[~np.isnan(given)].all()


BOTH_WAYS = """
define void @widened(ptr %from, ptr %to, i64 %count) nounwind {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %source = getelementptr i16, ptr %from, i64 %i
  %target = getelementptr float, ptr %to, i64 %i
  %bits = load i16, ptr %source
  %x = bitcast i16 %bits to half
  %y = fpext half %x to float
  store float %y, ptr %target
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %loop, label %out
out:
  ret void
}
define void @narrowed(ptr %from, ptr %to, i64 %count) nounwind {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %source = getelementptr float, ptr %from, i64 %i
  %target = getelementptr i16, ptr %to, i64 %i
  %x = load float, ptr %source
  %y = fptrunc float %x to half
  %bits = bitcast half %y to i16
  store i16 %bits, ptr %target
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %loop, label %out
out:
  ret void
}
"""


@x86_only
def test_halves_on_a_processor_that_has_none() -> None:
    target = like_host("x86-64")
    code = KernelCompiler(target).object_code(BOTH_WAYS)
    assert {"__extendhfsf2", "__truncsfhf2"} <= {*undefined_symbols(code)}
    library = Library([code], ["widened", "narrowed"], target)
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    halves = np.arange(1 << 16, dtype=np.uint16)
    wide = np.empty(halves.shape, np.float32)
    call(library["widened"])(halves.ctypes.data, wide.ctypes.data, halves.size)
    expected = halves.view(np.float16).astype(np.float32)
    is_nan = np.isnan(expected)
    np.testing.assert_array_equal(wide.view(np.uint32)[~is_nan], expected.view(np.uint32)[~is_nan])
    assert np.isnan(wide[is_nan]).all()
    with np.errstate(all="ignore"):
        floats = doubles().astype(np.float32)
        given = np.concatenate([floats, expected, np.nextafter(expected, np.float32(np.inf))])
        wanted = given.astype(np.float16)
    found = np.empty(given.shape, np.float16)
    call(library["narrowed"])(given.ctypes.data, found.ctypes.data, given.size)
    numbers = ~np.isnan(wanted)
    np.testing.assert_array_equal(found.view(np.uint16)[numbers], wanted.view(np.uint16)[numbers])
    assert np.isnan(found[~numbers]).all()


@x86_only
def test_doubles_become_halves_on_a_processor_that_has_none() -> None:
    target = like_host("x86-64")
    library = Library([KernelCompiler(target).object_code(TEXT)], ["shortened"], target)
    given, got = doubles(), np.empty(doubles().shape, np.float16)
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    call(library["shortened"])(given.ctypes.data, got.ctypes.data, given.size)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(got, given.astype(np.float16))


@x86_only
@pytest.mark.parametrize("wide", ["double", "float"])
def test_numbers_are_rounded_to_bfloats_once(wide: str) -> None:
    """All bfloats, what is half-way to the next one, and what is beside that."""
    target = like_host("x86-64-v3")
    text = TEXT.replace("half", "bfloat").replace("double", wide)
    code = KernelCompiler(target).object_code(text)
    assert {"__truncdfbf2", "__truncsfbf2"} & {*undefined_symbols(code)}
    library = Library([code], ["shortened"], target)
    bits = np.arange(0x7F80, dtype=np.uint32)
    dtype = np.float64 if wide == "double" else np.float32
    numbers = (bits << 16).view(np.float32).astype(np.float64)
    exact, between = numbers.astype(dtype), ((numbers[:-1] + numbers[1:]) / 2).astype(dtype)
    even, upper = bits[:-1] + (bits[:-1] & 1), bits[1:]
    large, infinite = np.array([3.4e38, np.inf], dtype), [0x7F80, 0x7F80]
    below, above = (np.nextafter(between, dtype(to)) for to in (0, np.inf))
    given = np.concatenate([exact, between, below, above, large])
    expected = np.concatenate([bits, even, bits[:-1], upper, infinite])
    got = np.empty(given.shape, np.uint16)
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    call(library["shortened"])(given.ctypes.data, got.ctypes.data, given.size)
    np.testing.assert_array_equal(got, expected)
    negative = -given
    call(library["shortened"])(negative.ctypes.data, got.ctypes.data, given.size)
    np.testing.assert_array_equal(got, expected | 0x8000)
    nan = np.array([np.nan], dtype)
    call(library["shortened"])(nan.ctypes.data, got.ctypes.data, 1)
    assert got[0] & 0x7FFF > 0x7F80


@x86_only
def test_routines_are_added_once() -> None:
    target = like_host("x86-64-v3")
    compiler = KernelCompiler(target)
    code, unused = compiler.object_code(TEXT), compiler.object_code(TEXT.replace("half", "float"))
    routines = compiler.object_code(routines_of([unused, code], target))
    assert "__truncdfhf2" in read_object(routines).names(defined=True)
    assert routines_of([code, routines], target) == ""
    assert routines_of([routines, code], target) == ""
    assert routines_of([unused], target) == ""
    library = Library([code, routines], ["shortened"], target)
    assert library["shortened"]
