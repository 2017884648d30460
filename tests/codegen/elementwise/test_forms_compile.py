"""LLVM is given nothing that it ends the process on: every way to write elements compiles."""

import pytest
from tests.codegen.elementwise import forms
from tests.codegen.elementwise.forms import (
    TARGETS,
    Access,
    Form,
    Use,
    drawn_forms,
    every_case_once,
    refused,
)
from tests.codegen.elementwise.kernels import Case

from lowtide.ir.element_type import ElementType
from lowtide.ir.opcode import Opcode
from lowtide.llvm.elf import undefined_symbols
from lowtide.llvm.machine import KernelCompiler
from lowtide.llvm.target import host_target

PIPELINES = ("kernel", "whole")
PARTS = [
    Form(Case(opcode, (whole,), part), lanes, read, use, Access.WHOLE)
    for opcode in (Opcode.REAL, Opcode.IMAG)
    for whole, part in ((ElementType.C64, ElementType.F32), (ElementType.C128, ElementType.F64))
    for lanes in (2, 4, 8)
    for read in (Access.FIRST, Access.RANGE, Access.SOMEWHERE)
    for use in Use
]
"""Half of what is loaded under a mask is read."""


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("target", TARGETS)
def test_forms_compile_for_each_family_of_processors(target: str, pipeline: str) -> None:
    assert refused([*PARTS, *drawn_forms(40, seed=len(target))], target, pipeline) == []


@pytest.mark.slow
@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("target", TARGETS)
def test_every_operation_of_every_type_compiles(target: str, pipeline: str) -> None:
    assert refused(every_case_once(seed=len(target)), target, pipeline) == []


def test_a_routine_that_no_process_has_is_found() -> None:
    names = ("no_such_routine", "memcpy", "__truncdfhf2")
    declared = "".join([f"declare void @{x}()\n" for x in names])
    calls = "".join([f"  call void @{x}()\n" for x in names])
    text = f"{declared}define void @k() {{\n{calls}  ret void\n}}\n"
    code = KernelCompiler(host_target()).object_code(text, whole=False)
    assert {*undefined_symbols(code)} == {*names}
    assert [x for x in names if not forms.is_known(x, code, host_target())] == ["no_such_routine"]


@pytest.mark.slow
@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("target", TARGETS)
def test_many_forms_compile_for_each_family_of_processors(target: str, pipeline: str) -> None:
    assert refused(drawn_forms(20_000, seed=1), target, pipeline) == []


def test_what_llvm_refuses_is_found_among_others(monkeypatch: pytest.MonkeyPatch) -> None:
    some = drawn_forms(5, seed=0)
    text_of = forms.text_of

    def broken(given, target):
        return text_of(given, target) + ("nonsense" if some[3] in given else "")

    monkeypatch.setattr(forms, "text_of", broken)
    (found,) = refused(some, "x86-64", "kernel")
    assert str(some[3]) in found
