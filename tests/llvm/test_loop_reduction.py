"""Loop strength reduction is left out of long modules only, whatever else is compiled meanwhile."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from lowtide.llvm import loop_reduction as room
from lowtide.llvm.loop_reduction import loop_reduction
from lowtide.llvm.machine import LONG_LINES, KernelCompiler
from lowtide.llvm.target import host_target


def _sums(streams: int) -> str:
    """A loop that adds up many streams, each at an address of its own."""
    lines = [
        "define float @sums(ptr %a, i64 %n, i64 %pitch) {",
        "entry:",
        "  br label %loop",
        "loop:",
    ]
    lines += ["  %i = phi i64 [0, %entry], [%next, %loop]"]
    lines += [f"  %s{k} = phi float [0.0, %entry], [%t{k}, %loop]" for k in range(streams)]
    for k in range(streams):
        lines += [
            f"  %m{k} = mul i64 %pitch, {k}",
            f"  %x{k} = add i64 %m{k}, %i",
            f"  %p{k} = getelementptr float, ptr %a, i64 %x{k}",
            f"  %v{k} = load float, ptr %p{k}",
            f"  %t{k} = fadd float %s{k}, %v{k}",
        ]
    lines += ["  %next = add i64 %i, 1", "  %more = icmp slt i64 %next, %n"]
    lines += ["  br i1 %more, label %loop, label %end", "end:", "  ret float %t0", "}", ""]
    return "\n".join(lines)


def test_the_code_is_the_same_whatever_else_is_compiled() -> None:
    short, long = _sums(4), _sums(LONG_LINES // 4)
    assert short.count("\n") < LONG_LINES <= long.count("\n")
    alone = {x: KernelCompiler(host_target()).object_code(x) for x in (short, long)}

    def compiled(text: str) -> bytes:
        return KernelCompiler(host_target()).object_code(text)

    with ThreadPoolExecutor(4) as pool:
        texts = [short, long] * 8
        assert [*pool.map(compiled, texts)] == [alone[x] for x in texts]


def test_one_that_is_to_be_reduced_waits_for_those_that_are_not() -> None:
    begun, done = Event(), Event()
    seen: list[bool] = []

    def other() -> None:
        begun.set()
        with loop_reduction(on=True):
            seen.append(done.is_set())

    with ThreadPoolExecutor(1) as pool:
        with loop_reduction(on=False):
            waiting = pool.submit(other)
            begun.wait()
            with loop_reduction(on=False):
                done.set()
        waiting.result()
    assert seen == [True]


def test_the_switch_is_on_behind_the_last_module(monkeypatch: pytest.MonkeyPatch) -> None:
    import llvmlite.binding as llvm

    given: list[str] = []
    monkeypatch.setattr(llvm, "set_option", lambda _, option: given.append(option))
    with loop_reduction(on=True):
        assert given == []
    with pytest.raises(ValueError, match="refused"), loop_reduction(on=False):
        raise ValueError("refused")
    assert given == ["-disable-lsr=true", "-disable-lsr=false"]


def test_a_forked_process_waits_for_nobody() -> None:
    with loop_reduction(on=False):
        child = os.fork()
        if not child:
            with loop_reduction(on=True):
                os._exit(int(not room._THE_SWITCH.is_on))
    assert os.waitpid(child, 0)[1] == 0
