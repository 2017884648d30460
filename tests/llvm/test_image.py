"""Objects linked without LLVM: what they compute, their rights, and what only LLVM links."""

from __future__ import annotations

import ctypes
import gc
import platform
from pathlib import Path

import numpy as np
import pytest

from lowtide.llvm.elf import ObjectFormatError, read_object, undefined_symbols
from lowtide.llvm.image import Image, NotLinkedError
from lowtide.llvm.library import Library
from lowtide.llvm.machine import KernelCompiler
from lowtide.llvm.target import AARCH64, host_target

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="links for x86-64 only")

FIRST = """
@zeros = internal global [5 x i64] zeroinitializer, align 64
@numbers = internal global [3 x i64] [i64 2, i64 3, i64 5]
@pointer = internal global ptr @numbers
@table = internal constant [4 x i64] [i64 7, i64 11, i64 13, i64 17], align 64
@environ = external global ptr
declare i64 @strlen(ptr)
declare i64 @second(i64)

define i64 @count(i64 %x) nounwind {
  %at = getelementptr [5 x i64], ptr @zeros, i64 0, i64 4
  %before = load i64, ptr %at
  %after = add i64 %before, %x
  store i64 %after, ptr %at
  ret i64 %after
}

define i64 @picked(i64 %i) nounwind {
  %home = load ptr, ptr @pointer
  %a.at = getelementptr i64, ptr %home, i64 %i
  %a = load i64, ptr %a.at
  %b.at = getelementptr [4 x i64], ptr @table, i64 0, i64 %i
  %b = load i64, ptr %b.at
  %c = call i64 @second(i64 %b)
  %sum = add i64 %a, %c
  ret i64 %sum
}

define i64 @length(ptr %text) nounwind {
  %n = call i64 @strlen(ptr %text)
  ret i64 %n
}

define ptr @environment() nounwind {
  %x = load ptr, ptr @environ
  ret ptr %x
}

define double @bent(double %x) nounwind {
  %y = fmul double %x, 0x400921FB54442D18
  ret double %y
}
"""

SECOND = """
define i64 @second(i64 %x) nounwind {
  %y = mul i64 %x, 100
  ret i64 %y
}
"""

NAMES = ["count", "picked", "length", "environment", "bent", "second"]


def objects() -> list[bytes]:
    compiler = KernelCompiler(host_target())
    return [compiler.object_code(x) for x in (FIRST, SECOND)]


def process_address(name: str) -> int:
    try:
        found = ctypes.cast(getattr(ctypes.CDLL(None), name), ctypes.c_void_p).value
    except AttributeError:
        raise NotLinkedError(f"nobody has {name}") from None
    assert found
    return found


def linked(codes: list[bytes], names: list[str] = NAMES) -> Image:
    return Image(codes, names, process_address)


def call(image: Image, name: str, result: type, *kinds: type) -> object:
    return ctypes.CFUNCTYPE(result, *kinds)(image.addresses[name])


def rights(address: int) -> str:
    """The rights of the pages at an address, "" where there are none."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        start, end = (int(x, 16) for x in line.split()[0].split("-"))
        if start <= address < end:
            return line.split()[1]
    return ""


def test_functions_reach_data_one_another_and_the_process() -> None:
    image = linked(objects())
    count = call(image, "count", ctypes.c_int64, ctypes.c_int64)
    assert [count(3), count(4)] == [3, 7]
    picked = call(image, "picked", ctypes.c_int64, ctypes.c_int64)
    assert [picked(i) for i in range(3)] == [702, 1103, 1305]
    assert call(image, "length", ctypes.c_int64, ctypes.c_char_p)(b"eleven") == 6
    environment = ctypes.c_void_p.in_dll(ctypes.CDLL(None), "environ").value
    assert call(image, "environment", ctypes.c_void_p)() == environment
    assert call(image, "bent", ctypes.c_double, ctypes.c_double)(2.0) == 2 * np.pi


def test_code_cannot_be_written_and_data_cannot_run() -> None:
    image = linked(objects())
    assert rights(image.addresses["count"]) == "r-xp"
    home = call(image, "environment", ctypes.c_void_p)
    assert home() and "x" not in rights(home())
    start = min(image.addresses.values())
    page = start - start % 4096
    found = [rights(page + 4096 * i) for i in range(3)]
    assert found == ["r-xp", "r--p", "rw-p"]


def test_memory_goes_with_the_image() -> None:
    image = linked(objects())
    address = image.addresses["count"]
    assert rights(address)
    del image
    gc.collect()
    assert rights(address) != "r-xp"


def test_images_have_data_of_their_own() -> None:
    codes = objects()
    one, other = linked(codes), linked(codes)
    assert call(one, "count", ctypes.c_int64, ctypes.c_int64)(5) == 5
    assert call(other, "count", ctypes.c_int64, ctypes.c_int64)(6) == 6


def test_a_weak_function_gives_way() -> None:
    weak = KernelCompiler(host_target()).object_code(
        SECOND.replace("define", "define weak").replace("100", "1000")
    )
    first, second = objects()
    for codes in ([weak, first, second], [second, first, weak]):
        image = linked(codes)
        assert call(image, "picked", ctypes.c_int64, ctypes.c_int64)(0) == 702
    assert call(linked([first, weak]), "picked", ctypes.c_int64, ctypes.c_int64)(0) == 7002


@pytest.mark.parametrize(
    ("codes", "reason"),
    [
        (lambda: [objects()[0]], "second"),
        (lambda: [*objects(), objects()[1] + b"\0"], "two objects define second"),
        (lambda: [KernelCompiler(AARCH64).object_code(SECOND)], "processor 183"),
        (lambda: [b"no object at all"], "object file"),
    ],
    ids=["missing", "twice", "other processor", "no object"],
)
def test_what_is_not_linked_is_refused(codes: object, reason: str) -> None:
    with pytest.raises(NotLinkedError, match=reason):
        linked(codes(), ["second"])


def test_a_name_that_no_object_has_is_an_error() -> None:
    with pytest.raises(NotLinkedError, match="no object defines third"):
        linked(objects(), ["third"])


def test_what_the_linker_cannot_do_llvm_does() -> None:
    text = (
        SECOND
        + "@shared = thread_local global i64 5\n"
        + ("define ptr @mine() nounwind {\n  ret ptr @shared\n}\n")
    )
    code = KernelCompiler(host_target()).object_code(text)
    with pytest.raises(NotLinkedError):
        linked([code], ["second"])
    plain = KernelCompiler(host_target()).object_code(SECOND)
    library = Library([plain], ["second"], host_target())
    assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(library["second"])(2) == 200


def test_cut_and_changed_files_are_errors_and_nothing_else() -> None:
    (code, _) = objects()
    for length in range(0, len(code), 7):
        with pytest.raises(NotLinkedError):
            linked([code[:length]])
    random = np.random.default_rng(3)
    header = int.from_bytes(code[40:48], "little")
    for _ in range(300):
        changed = bytearray(code)
        for at in random.integers(header, len(code), 3):
            changed[at] = random.integers(256)
        try:
            linked([bytes(changed)])  # Nothing of it is called.
        except NotLinkedError:
            continue


def test_tables_of_object_files() -> None:
    code, second = objects()
    assert undefined_symbols(code) == ("environ", "second", "strlen")
    assert read_object(second).names(defined=True) == ["second"]
    with pytest.raises(ObjectFormatError):
        read_object(b"\x7fELF")
