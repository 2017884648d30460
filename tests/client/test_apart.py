"""Compiling in a process of its own: equal programs, errors, ends of that process, forks."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from tests.support import HANG_SECONDS

import lowtide
from lowtide.client.errors import OverMemoryError
from lowtide.client.executable import apart
from lowtide.client.executable.apart import compile_apart
from lowtide.client.executable.compiling import compile_module
from lowtide.ir.errors import UnsupportedOpError
from lowtide.llvm import target
from lowtide.llvm.isolated import CompilerEndedError
from lowtide.llvm.target import Target
from lowtide.onnx import read_module
from lowtide.options import Options
from lowtide.processes import child

TEXT = """HloModule wave
add { x = f32[] parameter(0) y = f32[] parameter(1) ROOT s = f32[] add(x, y) }
ENTRY e {
  p = f32[7,33] parameter(0)
  w = f32[33,5] constant({...})
  c = f32[] constant(-0.1)
  d = f32[7,5] dot(p, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  b = f32[7,5] broadcast(c), dimensions={}
  t = f32[7,5] add(d, b), metadata={op_name="a/b"}
  ROOT r = f32[7] reduce(t, c), dimensions={1}, to_apply=add
}""".replace(
    "{...}",
    "{"
    + ",".join(["{" + ",".join(f"{i * 0.1 + j}" for j in range(5)) + "}" for i in range(33)])
    + "}",
)
NEW = Options(cache=False, threads=2)


def module(text: str = TEXT):
    return lowtide.parse_hlo(text)


@pytest.fixture(autouse=True)
def _fresh_process():
    """A process that another test left is ended, so that each begins its own."""
    running, apart._COMPILER._running = apart._COMPILER._running, None
    if running is not None:
        running.end()


def test_the_program_is_that_of_this_process():
    here, there = [x(module(), NEW) for x in (compile_module, compile_apart)]
    assert there.serialize() == here.serialize()
    assert there.making.seconds["apart"] > 0 and not there.making.was_cached
    x = np.ones((7, 33), np.float32)
    np.testing.assert_array_equal(there(x), here(x))


def test_models_are_compiled_alike():
    from tests.onnx.models import perceptron

    found = read_module(perceptron(), sizes={"batch": 3})
    assert compile_apart(found, NEW).serialize() == compile_module(found, NEW).serialize()


def test_a_program_is_kept_where_this_process_keeps_its_own(tmp_path, monkeypatch):
    for folder in ("one", "two"):
        monkeypatch.setenv("LOWTIDE_CACHE", str(tmp_path / folder))
        assert not compile_apart(module(), Options()).making.was_cached
        assert compile_apart(module(), Options()).making.was_cached


def test_programs_are_for_the_processor_that_this_one_is_taken_for():
    here = target.host_target()
    other = Target(here.triple, here.cpu, here.features[1:], 16)
    before = target.pretended_host()
    target.pretend_host(other)
    try:
        assert compile_apart(module(), NEW).program.target == other
    finally:
        target.pretend_host(before)
    assert compile_apart(module(), NEW).program.target == here


def test_errors_are_those_of_this_process():
    with pytest.raises(OverMemoryError, match="wave"):
        compile_apart(module(), Options(cache=False, memory=1))
    odd = (
        "HloModule m\nENTRY e { p = f32[2] parameter(0) "
        'ROOT r = f32[2] custom-call(p), custom_call_target="none" }'
    )
    with pytest.raises(UnsupportedOpError, match="none"):
        compile_apart(module(odd), NEW)
    assert compile_apart(module(), NEW)


def test_a_process_that_ended_of_itself_is_followed_by_another(monkeypatch):
    compile_apart(module(), NEW)
    first = apart._COMPILER._running
    first.process.stdin.close()  # As it ends when it was not asked for a while: with status 0.
    assert first.process.wait(HANG_SECONDS) == 0
    first.process.stdin = open(os.devnull, "wb")  # noqa: SIM115
    compile_apart(module(), NEW)
    assert apart._COMPILER._running is not first


def test_a_process_that_was_killed_is_an_error_and_the_next_program_has_another():
    compile_apart(module(), NEW)
    killed = apart._COMPILER._running.process
    killed.send_signal(signal.SIGKILL)
    killed.wait(HANG_SECONDS)
    with pytest.raises(CompilerEndedError, match="wave was compiled: status -9"):
        compile_apart(module(), NEW)
    assert compile_apart(module(), NEW)


def test_an_interrupted_request_ends_its_process(monkeypatch):
    compile_apart(module(), NEW)
    process = apart._COMPILER._running.process

    def interrupted(stream):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(child, "_read", interrupted)
        with pytest.raises(KeyboardInterrupt):
            compile_apart(module(), NEW)
    assert process.poll() is not None
    assert compile_apart(module(), NEW)


FORKED = """
import os
from lowtide.client.executable import apart
from lowtide.client.executable.apart import compile_apart
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.processes import child
from lowtide.llvm import target
from lowtide.options import Options

TEXT = "HloModule m\\nENTRY e {\\n  a = f32[4] parameter(0)\\n  ROOT b = f32[4] negate(a)\\n}"
compile_apart(parse_hlo(TEXT), Options(cache=False))
running = apart._COMPILER._running
pid = os.fork()
if not pid:
    ended = child._end(running.process, running._said, os.getppid())
    os._exit(0 if apart._COMPILER._running is None and not ended else 1)
assert os.waitpid(pid, 0)[1] == 0
assert running.process.poll() is None
assert compile_apart(parse_hlo(TEXT), Options(cache=False))
assert apart._COMPILER._running is running
"""


def test_a_forked_process_has_a_compiler_of_its_own_and_leaves_the_other():
    """In a process of its own: JAX, which other tests load, warns of any fork."""
    done = subprocess.run(
        [sys.executable, "-c", FORKED], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("options", "frozen"), [(Options(cache=False, check="first"), False), (NEW, True)]
)
def test_what_this_process_has_to_do_it_does(options, frozen, monkeypatch):
    monkeypatch.setattr(sys, "frozen", frozen, raising=False)
    program = compile_apart(module(), options)
    assert "apart" not in program.making.seconds and apart._COMPILER._running is None
    assert program(np.ones((7, 33), np.float32)).shape == (7,)


def test_a_child_ends_once_it_was_not_asked():
    served = child.Child("tests.client.test_apart:shortly")
    assert served.ask(3, b"abc") == (4, b"cba")
    assert served.process.wait(HANG_SECONDS) == 0
    with pytest.raises(child.ChildEndedError):
        served.ask(0, b"")


def shortly(_):
    print("no answer")
    return (lambda flag, data: (flag + 1, data[::-1])), 1.0
