"""Checked calls: right programs return what they return, wrong ones a file that repeats them."""

import os
import re
import runpy
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import lowtide
from lowtide.client.errors import SanitizerError, WrongResultError
from lowtide.client.library import LocalClient
from lowtide.codegen.elementwise import dispatch
from lowtide.inspection import first_calls
from lowtide.inspection.failure_file import arrays_in, packed
from lowtide.ir import Opcode

TEXT = """HloModule step, input_output_alias={ {0}: (0, {}, may-alias) }

add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }

ENTRY main {
  x = f32[64] parameter(0)
  w = f32[64,64] parameter(1)
  y = f32[64] dot(w, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  n = f32[64] negate(y)
  zero = f32[] constant(0)
  s = f32[] reduce(n, zero), dimensions={0}, to_apply=add
  ROOT r = (f32[64], f32[]) tuple(n, s)
}
"""


def arguments():
    random = np.random.default_rng(0)
    return random.random(64, np.float32), random.random((64, 64), np.float32)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A cache and a folder of their own."""
    monkeypatch.setenv("LOWTIDE_CACHE", str(tmp_path / "cache"))
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return work


@pytest.fixture
def wrong(monkeypatch):
    """Plant a wrong kernel: negate does nothing."""
    monkeypatch.setitem(dispatch.FLOATS, Opcode.NEGATE, lambda x: x)


@pytest.fixture
def checks(monkeypatch):
    """The runs beside the evaluator."""
    found = []
    usual = first_calls.check_program

    def counting(*given):
        found.append(threading.get_ident())
        return usual(*given)

    monkeypatch.setattr(first_calls, "check_program", counting)
    return found


def compiled(check, text=TEXT, **options):
    return lowtide.compile(lowtide.parse_hlo(text), check=check, threads=2, **options)


@pytest.mark.parametrize(("check", "count"), [("never", 0), ("first", 1), ("always", 3)])
def test_right_calls_return_what_they_return(checks, folder, check, count):
    x, w = arguments()
    executable = compiled(check)
    for _ in range(3):
        found, total = executable(x, w)
        np.testing.assert_allclose(found, -(w @ x), rtol=1e-5)
        np.testing.assert_allclose(total, -(w @ x).sum(), rtol=1e-4)
    assert len(checks) == count
    assert not list(folder.iterdir())
    executable.profile(x, w)
    executable.release_memory()


def test_what_was_cached_is_checked_too(checks):
    compiled("never")
    executable = compiled("first")
    assert executable.making.was_cached
    executable(*arguments())
    assert len(checks) == 1
    stored = lowtide.deserialize(executable.serialize(), lowtide.Options(check="first"))
    stored(*arguments())
    assert len(checks) == 2


def repeat(path):
    """Run a file that repeats a wrong call in this process, in which it is still wrong."""
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(path), run_name="__main__")
    return ended.value.code


@pytest.mark.usefixtures("wrong")
def test_a_wrong_kernel_is_found_and_its_file_repeats_it(folder, capsys):
    executable = compiled("first")
    x, w = arguments()
    with pytest.raises(
        WrongResultError, match="does not compute what the evaluator does"
    ) as raised:
        executable(x, w)
    (path,) = folder.iterdir()
    assert raised.value.path == path and f"`python {path}` repeats it" in str(raised.value)
    assert "no result is returned" in str(raised.value)
    text = path.read_text()
    assert f"python {path.name}\n" in text and "threads=2" in text
    assert repeat(path) == 4
    assert "does not compute what the evaluator does" in capsys.readouterr().out
    with pytest.raises(WrongResultError):
        executable(x, w)
    assert list(folder.iterdir()) == [path]


def test_the_file_ends_well_where_nothing_is_wrong_any_more(folder, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setitem(dispatch.FLOATS, Opcode.NEGATE, lambda x: x)
        with pytest.raises(WrongResultError):
            compiled("first")(*arguments())
    (path,) = folder.iterdir()
    command = [sys.executable, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "nothing is wrong any more\n")


@pytest.mark.usefixtures("wrong")
def test_one_step_alone_stands_in_the_file(folder):
    extra = "\n".join(f"  e{i} = f32[64] sine(x)" for i in range(50))
    with pytest.raises(WrongResultError):
        compiled("first", TEXT.replace("  n = ", f"{extra}\n  n = "), stage="input")(*arguments())
    (path,) = folder.iterdir()
    text = path.read_text()
    assert "negate(" in text and "dot(" not in text and "sine(" not in text
    assert len(text) < 4000
    assert repeat(path) == 4


@pytest.mark.usefixtures("wrong")
def test_consumed_arguments_keep_their_values():
    x, w = arguments()
    before = x.copy()
    with pytest.raises(WrongResultError):
        compiled("first")(x, w, consume=True)
    np.testing.assert_array_equal(x, before)


def test_consumed_arguments_are_consumed_by_right_calls():
    x, w = arguments()
    expected = -(w @ x)
    found, _ = compiled("first")(x, w, consume=True)
    assert np.shares_memory(found, x)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_a_call_that_returns_something_else_than_its_steps(folder, monkeypatch):
    """The steps are right, and the walker is not: values come back as they were."""
    executable = compiled("first")
    x, w = arguments()
    before = x.copy()
    usual = executable._linked

    class Bent:
        def __call__(self, *arrays, consume=False):
            found, total = usual(*arrays, consume=consume)
            found[3] += 1
            return found, total

    monkeypatch.setattr(executable._callee, "_callee", Bent())
    with pytest.raises(WrongResultError, match="a call returns something else: result 0") as raised:
        executable(x, w, consume=True)
    np.testing.assert_array_equal(x, before)
    assert raised.value.path is not None and raised.value.path.parent == folder


def test_a_pass_that_changes_what_is_computed(folder, monkeypatch, capsys):
    """Each step is what the evaluator makes of it, and the module is another one."""
    from lowtide import compiler

    usual = compiler.pipeline.optimize

    def bent(module, *rest, **named):
        (negate,) = [x for x in module.entry.instructions.values() if x.opcode is Opcode.NEGATE]
        new = module.entry.add(Opcode.ABS, negate.shape, (negate.operands[0],))
        negate.replace_all_uses_with(new)
        return usual(module, *rest, **named)

    monkeypatch.setattr("lowtide.compiler.pipeline.optimize", bent)
    with pytest.raises(WrongResultError, match="a pass changed what it computes"):
        compiled("first")(*arguments())
    (path,) = folder.iterdir()
    assert repeat(path) == 4
    assert "a pass changed what it computes" in capsys.readouterr().out


def test_threads_wait_for_the_first_call(checks):
    executable = compiled("first")
    x, w = arguments()
    results = []

    def call():
        results.append(executable(x, w)[0])

    threads = [threading.Thread(target=call) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(checks) == 1 and len(results) == 6
    assert len({x.tobytes() for x in results}) == 1


@pytest.mark.usefixtures("wrong")
def test_of_many_threads_each_gets_the_error():
    executable, errors = compiled("first"), []

    def call():
        with pytest.raises(WrongResultError):
            executable(*arguments())
        errors.append(1)

    threads = [threading.Thread(target=call) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == [1, 1, 1]


# -- what cannot be compared ---------------------------------------------------------------------

UNDEFINED = """HloModule m
ENTRY main {
  ROOT r = f32[64] custom-call(), custom_call_target="AllocateBuffer"
}
"""
MINUS = """HloModule m
minus { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] subtract(a, b) }
ENTRY main {
  x = f32[64,64] parameter(0)
  zero = f32[] constant(0)
  ROOT r = f32[64] reduce(x, zero), dimensions={0}, to_apply=minus
}
"""


@pytest.mark.parametrize(
    ("text", "given"),
    [(UNDEFINED, []), (MINUS, [np.random.default_rng(0).random((64, 64), np.float32)])],
)
def test_what_is_not_compared_is_said_once(text, given):
    executable = compiled("always", text)
    with pytest.warns(
        RuntimeWarning, match="m was not compared with the evaluator in all: %"
    ) as said:
        executable(*given)
        executable(*given)
    assert len([x for x in said if "not compared" in str(x.message)]) == 1
    assert said[0].filename == __file__


def test_a_program_that_is_compared_warns_of_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled("first")(*arguments())


def test_arguments_of_all_types_are_in_the_file():
    arrays = [
        np.arange(6, dtype=np.int32).reshape(2, 3).T,
        np.array(True),
        np.array([1.5, 2], ml_dtypes.bfloat16),
        np.zeros((0, 3)),
    ]
    found = arrays_in(packed(arrays))
    assert packed(arrays) == packed([x.copy() for x in arrays])
    for a, b in zip(found, arrays, strict=True):
        assert a.shape == b.shape and a.tobytes() == b.tobytes()
    assert found[2].dtype == np.uint16


@pytest.mark.usefixtures("wrong")
def test_where_no_file_can_be_written_the_error_says_so(folder, monkeypatch):
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(folder / "none"))
    monkeypatch.chdir("/proc" if Path("/proc").is_dir() else "/")
    with pytest.raises(
        WrongResultError, match=r"no file to repeat it \(.*: no such file"
    ) as raised:
        compiled("first")(*arguments())
    assert raised.value.path is None


def test_an_unknown_check_is_told():
    with pytest.raises(ValueError, match="check is one of never, first, always; found 'once'"):
        lowtide.Options(check="once")


# -- the other doors -----------------------------------------------------------------------------


def test_the_library_checks(checks):
    executable = LocalClient().compile(
        lowtide.parse_hlo(TEXT), options=lowtide.Options(check="first")
    )
    executable.run(arguments())
    executable.run(arguments())
    assert len(checks) == 1


def test_the_command_line(folder, monkeypatch, capsys):
    from lowtide.cli.main import main

    path = folder.parent / "step.hlo"
    path.write_text(TEXT)
    assert main(["run", str(path), "--check", "first"]) == 0
    assert (
        "the first call was checked: it computes what the evaluator does" in capsys.readouterr().out
    )
    assert main(["run", str(path), "--check", "some"]) == 1
    assert "--check takes never, first, always" in capsys.readouterr().err
    rng = folder.parent / "rng.hlo"
    rng.write_text(UNDEFINED)
    assert main(["run", str(rng), "--check", "always"]) == 0
    assert "was not compared with the evaluator in all: %" in capsys.readouterr().out
    monkeypatch.setitem(dispatch.FLOATS, Opcode.NEGATE, lambda x: x)
    monkeypatch.setenv("LOWTIDE_CACHE", str(folder.parent / "other"))
    assert main(["run", str(path), "--check", "first"]) == 4
    error = capsys.readouterr().err
    assert re.fullmatch(r"error: [^\n]* repeats it\n", error), error
    assert len(list(folder.iterdir())) == 1


def test_jit_of_pytrees_with_donation(checks):
    jax = pytest.importorskip("jax")

    def step(state, x):
        w, b = state["w"], state["b"]
        return {"w": w - 0.1 * jax.numpy.outer(x, x @ w), "b": -b}, (x @ w).sum()

    fast = lowtide.jit(step, donate_argnums=0, check="first", threads=2)
    random = np.random.default_rng(0)
    w, b, x = random.random((8, 8), np.float32), np.ones(8, np.float32), np.ones(8, np.float32)
    expected, total = jax.jit(step)({"w": w.copy(), "b": b.copy()}, x)
    found, ours = fast({"w": w, "b": b}, x)
    np.testing.assert_allclose(found["w"], expected["w"], rtol=1e-5)
    np.testing.assert_allclose(ours, total, rtol=1e-5)
    assert len(checks) == 1
    fast(found, x)
    assert len(checks) == 1
    small = np.ones(4, np.float32)
    fast({"w": np.ones((4, 4), np.float32), "b": small.copy()}, small)
    assert len(checks) == 2
    shared = np.ones(3, np.float32)
    found, total = fast({"w": np.ones((3, 3), np.float32), "b": shared}, shared)
    assert (found["b"] == -1).all() and total == 9


def test_jit_of_random_numbers_and_custom_calls(checks):
    jax = pytest.importorskip("jax")

    def draw(key, x):
        noise = jax.random.normal(key, x.shape)
        return jax.numpy.linalg.cholesky(x @ x.T + 9 * jax.numpy.eye(5)) + noise

    x = np.random.default_rng(0).random((5, 5), np.float32)
    key = jax.random.PRNGKey(3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = lowtide.jit(draw, check="first")(key, x)
    np.testing.assert_allclose(found, jax.jit(draw)(key, x), rtol=1e-4, atol=1e-5)
    assert len(checks) == 1


@pytest.mark.filterwarnings("ignore:.*was not compared:RuntimeWarning")
@pytest.mark.parametrize("n", [3, 8])
def test_vectors_of_either_sign_are_no_fault(n):
    jax = pytest.importorskip("jax")
    linalg = jax.numpy.linalg
    for seed in range(3):
        x = np.random.default_rng(seed).normal(size=(n, n)).astype(np.float32)
        for function in (linalg.svd, linalg.eigh, linalg.pinv, linalg.eig):
            lowtide.jit(function, check="first")(x + x.T)


def test_jit_raises_what_is_wrong(monkeypatch, folder):
    jax = pytest.importorskip("jax")
    monkeypatch.setitem(dispatch.FLOATS, Opcode.NEGATE, lambda x: x)
    x = np.ones(8, np.float32)
    fast = lowtide.jit(lambda x: (-x, x), check="first", donate_argnums=0)
    with pytest.raises(WrongResultError):
        fast(jax.numpy.asarray(x))
    (path,) = folder.iterdir()
    assert repeat(path) == 4
    with pytest.raises(TypeError, match="no option 'chek'; did you mean 'check'"):
        lowtide.jit(len, chek="first")


def test_the_error_is_one_of_the_sanitizer():
    assert issubclass(WrongResultError, SanitizerError)
    assert os.path.isdir(".")
