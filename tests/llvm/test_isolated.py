"""Compiling in a process of its own: the same code, and an error where that process ends."""

import subprocess
import sys

import numpy as np
import pytest

import lowtide
from lowtide.llvm import objects
from lowtide.llvm.isolated import CompilerEndedError, IsolatedCompiler
from lowtide.llvm.machine import CodeError, KernelCompiler
from lowtide.llvm.target import host_target
from lowtide.processes import child

TEXT = """define i64 @twice(i64 %x) {
  %y = add i64 %x, %x
  ret i64 %y
}
"""
ENDING = "import sys; sys.stdin.buffer.read(9); print('LLVM ERROR: no', file=sys.stderr); 1 / 0"


@pytest.mark.parametrize("whole", [False, True])
def test_the_code_is_that_of_this_process(whole: bool) -> None:
    target = host_target()
    compiler = IsolatedCompiler(target)
    expected = KernelCompiler(target).object_code(TEXT, whole=whole)
    assert [compiler.object_code(TEXT, whole=whole) for _ in range(2)] == [expected] * 2


def test_what_llvm_refuses_is_refused_and_the_process_goes_on() -> None:
    compiler = IsolatedCompiler(host_target())
    with pytest.raises(CodeError, match="expected"):
        compiler.object_code("nonsense")
    assert compiler.object_code(TEXT)


def test_an_end_is_an_error_and_the_next_module_has_a_new_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiler = IsolatedCompiler(host_target())
    with monkeypatch.context() as patch:
        patch.setattr(child, "_CODE", ENDING)
        with pytest.raises(CompilerEndedError, match=r"compiled twice: LLVM ERROR: no;"):
            compiler.object_code(TEXT)
    assert compiler.object_code(TEXT)


def test_a_program_is_compiled_in_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[object] = []
    popen = subprocess.Popen

    def counted(*given, **named):
        begun.append(given[0])
        return popen(*given, **named)

    monkeypatch.setattr(child.subprocess, "Popen", counted)
    objects._idle_machines.cache_clear()  # Another test may have left a process that waits.
    module = "HloModule m\nENTRY e {\n  p = f32[7] parameter(0)\n  ROOT r = f32[7] cosine(p)\n}"
    program = lowtide.compile(lowtide.parse_hlo(module), isolate=True, cache=False)
    np.testing.assert_allclose(program(np.zeros(7, np.float32)), np.ones(7))
    assert any(x[0] == sys.executable for x in begun)
