"""Native code does what the same functions do as Python, or says where they are wrong."""

from __future__ import annotations

import ast
import ctypes
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.native_language import samples, wrong

from lowtide.files.object_cache import ObjectCache
from lowtide.llvm.library import Library
from lowtide.llvm.machine import KernelCompiler
from lowtide.llvm.objects import compiled_unit, unit_object
from lowtide.llvm.target import host_target
from lowtide.native import NativeError, NativeFunction, NativeUnit, make

ROOM = Path(samples.__file__).parents[2] / "src" / "lowtide"


@cache
def library() -> Library:
    target = host_target()
    return Library([compiled_unit(samples.UNIT, target)], samples.UNIT.names, target)


def call(function: NativeFunction[..., Any], *given: Any) -> Any:
    kinds = [ctypes.c_int64 if isinstance(x, int) else ctypes.c_void_p for x in given]
    values = [x if isinstance(x, int) else ctypes.addressof(x) for x in given]
    return ctypes.CFUNCTYPE(ctypes.c_int64, *kinds)(library()[function.name])(*values)


NUMBERS = [(7, 3), (-7, 3), (7, -3), (-7, -3), (6, 3), (0, 5), (99, 99), (101, 100)]


@pytest.mark.parametrize(("a", "b"), NUMBERS)
def test_numbers_are_computed_as_in_python(a: int, b: int) -> None:
    assert call(samples.arithmetic, a, b) == samples.arithmetic(a, b)


@pytest.mark.parametrize("number", [0, 1, 3, 7, 29, 45, 60])
def test_loops_and_choices_go_as_in_python(number: int) -> None:
    assert call(samples.loops, number) == samples.loops(number)
    assert call(samples.choice, number) == samples.choice(number)
    assert call(samples.by_eleven, number) == samples.by_eleven(number) == 11 * number
    call(samples.nothing, number)


def test_fields_are_numbers_for_python() -> None:
    link, numbers = make(samples.Longer, more=6), (ctypes.c_int64 * 12)(*range(12))
    assert call(samples.fields, link, numbers) == 6 + 44 + 100
    assert (link.small, link.signed, link.flag, link.more) == (44, -5, True, 50)
    assert link.next == ctypes.addressof(link)
    assert numbers[2] == -5
    part = ctypes.sizeof(samples.Part) // 8
    assert (numbers[2 * part] & 0xFFFFFFFF, numbers[2 * part + 1]) == (9, 2 * part)


def test_atomics_do_what_they_say() -> None:
    link = make(samples.Link)
    left = 9 - 4 + 77
    assert call(samples.atomics, link) == left + 50 - 200 + 40_000 + 400_000 + 100_000
    assert (link.count, link.narrow, list(link.places)) == (9, -4, [0, 0, 77])


def test_functions_are_called_by_pointers() -> None:
    twice = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(lambda x: 2 * x)
    link = make(samples.Link)
    assert call(samples.pointers, link) == 4 + 2000
    link.twice = ctypes.cast(twice, ctypes.c_void_p).value
    assert call(samples.pointers, link) == 4 + 200 + 2000


def test_memory_is_made_and_copied() -> None:
    assert call(samples.memory, 9) == 64 + 1000 * ctypes.sizeof(samples.Link) + 4


@pytest.mark.parametrize("number", [0, 3, -4, 1 << 40])
@pytest.mark.parametrize("share", [0.5, -2.25, 0.0, 1e300])
def test_floats_are_computed_as_in_python(number: int, share: float) -> None:
    kinds = (ctypes.c_double, ctypes.c_int64, ctypes.c_double)
    compiled = ctypes.CFUNCTYPE(*kinds)(library()["floats"])
    assert compiled(number, share) == samples.floats(number, share)


@pytest.mark.parametrize("number", [1, 8, 1 << 40, 3 << 20])
def test_zeros_are_counted(number: int) -> None:
    low = (number & -number).bit_length() - 1
    assert call(samples.bits, number) == low + 100 * (64 - number.bit_length())


def test_units_compile_for_other_processors() -> None:
    text = samples.UNIT.text("aarch64-unknown-linux-gnu")
    assert "i64 98," in text and "llvm.aarch64.isb" in text
    assert KernelCompiler(host_target()).object_code(samples.UNIT.text(host_target().triple))


def test_a_unit_has_the_same_text_each_time() -> None:
    triple = host_target().triple
    assert samples.UNIT.text(triple) == samples.UNIT.text(triple)


# -- errors --------------------------------------------------------------------------------------

PROBLEMS = {
    "a_field": "Link has no field signd; did you mean 'signed'?",
    "a_type": "expected int, found Link",
    "an_order": "expected an order as the last argument of load",
    "a_plain_atomic": "link.count cannot be set: atomics have methods",
    "an_operator": "native code has no Pow",
    "a_constant": "native code has no constant 'one'",
    "a_fraction": "expected int, found float",
    "a_float_operator": "native code has no Mod of floats",
    "a_choice": "expected a comparison: the value of and, or is a bool",
    "a_condition": "expected a condition",
    "a_path": "a path through the function returns nothing",
    "an_annotation": "is no type of native code",
    "a_statement": "native code has no With",
    "a_count": "load takes 0 arguments and an order",
    "a_name": "later is not set before it is read",
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_errors_tell_file_and_line(name: str) -> None:
    function: NativeFunction[..., Any] = getattr(wrong, name)
    tree = ast.parse(Path(wrong.__file__).read_text())
    (node,) = [x for x in ast.walk(tree) if isinstance(x, ast.FunctionDef) and x.name == name]
    with pytest.raises(NativeError) as found:
        NativeUnit("one", [function]).text(host_target().triple)
    place, _, problem = str(found.value).partition(f": in {name}: ")
    assert PROBLEMS[name] in problem
    path, _, line = place.rpartition(":")
    assert path == wrong.__file__ and node.lineno <= int(line) <= (node.end_lineno or 0)


def test_two_functions_of_one_name_are_refused() -> None:
    with pytest.raises(NativeError, match="two native functions have the name loops"):
        NativeUnit("two", [samples.loops, samples.choice.bound("loops")]).text(host_target().triple)


# -- what is kept --------------------------------------------------------------------------------


def test_a_unit_is_kept_by_its_sources_and_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cached, target = ObjectCache(tmp_path), host_target()
    first = samples.UNIT.sources
    made = unit_object(samples.UNIT, target, cached)
    monkeypatch.setattr(NativeUnit, "text", None)
    assert unit_object(samples.UNIT, target, cached) == made
    monkeypatch.setattr(samples, "FACTOR", 4)
    assert samples.UNIT.sources != first


@pytest.mark.parametrize(("families", "compiled"), [("FAMILIES", "False"), ("{}", "True")])
def test_what_is_kept_or_shipped_needs_no_compiler(
    tmp_path: Path, families: str, compiled: str
) -> None:
    script = f"""
import sys
from pathlib import Path
from lowtide.files.object_cache import ObjectCache
from lowtide.llvm import shipped
from lowtide.llvm.objects import unit_object
from lowtide.llvm.shipped import FAMILIES
from lowtide.llvm.target import host_target
from lowtide.runtime.cpu.native import RUNTIME
shipped.FAMILIES = {families}
unit_object(RUNTIME, host_target(), ObjectCache(Path({str(tmp_path)!r})))
print("lowtide.native.lowering" in sys.modules, "ast" in sys.modules)
"""
    told = [
        subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True
        ).stdout.split()[0]
        for _ in range(2)
    ]
    assert told == [compiled, "False"]


CONVERTED = ("pjrt/**/*.py", "runtime/cpu/*.py", "runtime/devices/*.py")
"""Rooms whose machine code is written as native functions."""

SIGNS = ("lowtide.llvm.function", "lowtide.llvm.callee", "getelementptr", "define ptr @")


def test_no_native_code_is_written_as_text() -> None:
    paths = [x for pattern in CONVERTED for x in sorted(ROOM.glob(pattern))]
    assert len(paths) > 60
    found = [(x.name, sign) for x in paths for sign in SIGNS if sign in x.read_text()]
    assert found == []
