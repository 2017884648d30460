"""Functions that take addresses one by one where they only load them from a table."""

from __future__ import annotations

import pytest

from lowtide.codegen.kernel import ARGUMENTS
from lowtide.llvm.callee import Callee
from lowtide.llvm.direct_addresses import with_direct_addresses
from lowtide.llvm.function import Function, module_text
from lowtide.llvm.machine import KernelCompiler
from lowtide.llvm.target import host_target


def place(f: Function, number: int) -> str:
    return f.load("ptr", f.gep("%buffers", number, "ptr"), 8)


def moving(source: int, target: int, name: str = "moving") -> Function:
    f = Function(name, ARGUMENTS)
    there = place(f, target)
    f.store("i32", f.load("i32", place(f, source), 4), there, 4)
    return f


@pytest.mark.parametrize(("source", "target"), [(0, 1), (1, 0), (0, 5), (3, 1)])
def test_addresses_are_parameters_in_the_order_of_the_table(source: int, target: int) -> None:
    text, counts = with_direct_addresses(module_text([moving(source, target)]))
    count = 1 + max(source, target)
    assert counts == {"moving": count}
    assert "%buffers," not in text
    f = Function("caller", ARGUMENTS)
    values = [place(f, x) for x in range(count)]
    types = (*["ptr"] * (count + 1), "i64", "i64", "i64")
    f.call(Callee("@moving", "void", types), [*values, "%scratch", 0, 1, 0])
    assert KernelCompiler(host_target()).object_code(text + module_text([f]))
    given = text.split("@moving(")[1].split(", ")
    head, body = given[:count], text.split("{", 1)[1]
    assert f"load i32, {head[source]}," in body
    assert f", {head[target]}, align 4" in body


def test_what_reads_nothing_takes_no_address() -> None:
    f = Function("idle", ARGUMENTS)
    text, counts = with_direct_addresses(module_text([f]))
    assert counts == {"idle": 0}
    assert KernelCompiler(host_target()).object_code(text)


def test_a_table_that_is_used_otherwise_stays() -> None:
    at = Function("at", ARGUMENTS)
    at.load("ptr", at.gep("%buffers", "%begin", "ptr"), 8)
    twice = moving(0, 1)
    place(twice, 1)
    handed_on = Function("handed_on", ARGUMENTS)
    inside = moving(0, 1, "inside")
    handed_on.call(inside, ["%buffers", "%scratch", 0, 1, 0])
    kept = Function("kept", ARGUMENTS)
    address = kept.gep("%buffers", 1, "ptr")
    kept.load("ptr", address, 8)
    kept.store("i32", 0, address, 4)
    for functions in ([at], [twice], [inside, handed_on], [kept]):
        text = module_text(functions)
        assert with_direct_addresses(text) == (text, {})
