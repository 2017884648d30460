"""The part of `jax_suite.py` that runs in child processes: tests of one file.

    python benchmarks/jax_suite_child.py FILE RESULTS NAME...

FILE is one of JAX's test files, which is read as it is; NAMEs are tests of it. With no NAME the
tests are listed. Lines of JSON are appended to RESULTS while tests run. With JAX_SUITE_THROUGH=xla
nothing is replaced.

Before the file is loaded, `jax.jit` is replaced for callers outside of JAX. A call with arrays is
compiled by lowtide, and by XLA from the same lowered module; the results are compared, and those of
lowtide are handed on. What lowtide has no parameter for, such as shardings, stays with JAX.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import signal
import sys
import time
import traceback
import unittest
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

TEST_SECONDS: Final = 100
"""How long one test may take."""

PARAMETERS: Final = frozenset(
    {"donate_argnums", "donate_argnames", "static_argnums", "static_argnames", "keep_unused"}
)
"""The parameters of `jax.jit` that are lowtide's, too; unused arguments make no difference."""

INSIDE: Final = ("jax.", "jaxlib.", "lowtide.")
JUDGED: Final = "jax._src.test_util"
"""Of JAX's own modules the one whose functions are to be compiled by lowtide."""

RELATIVE: Final = {"f2": 2e-2, "f4": 2e-4, "f8": 1e-9, "c8": 2e-4, "c16": 1e-9}
"""How far results may be from those of XLA, relative to the largest, by type; others: 0.1."""


class Log:
    """What happened, as lines of JSON."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a")
        self.test = ""

    def write(self, event: str, **known: Any) -> None:
        """Append an event of the test that runs."""
        self._file.write(json.dumps({"event": event, "test": self.test, **known}) + "\n")
        self._file.flush()


class Deadline(BaseException):
    """A test took too long."""


# -- comparing -------------------------------------------------------------------------------------


def difference(ours: Any, theirs: Any) -> str | None:
    """Return how a result differs from XLA's, None where it does not."""
    import jax
    import numpy as np

    if ours.dtype != theirs.dtype or ours.shape != theirs.shape:
        return f"{ours.dtype}{list(ours.shape)} instead of {theirs.dtype}{list(theirs.shape)}"
    if jax.numpy.issubdtype(ours.dtype, jax.dtypes.prng_key):
        ours, theirs = jax.random.key_data(ours), jax.random.key_data(theirs)
    if ours.dtype == jax.dtypes.float0:
        return None
    a, b = np.asarray(ours), np.asarray(theirs)
    if a.dtype.kind in "biu":
        if np.array_equal(a, b):
            return None
        return f"{int((a != b).sum())} of {a.size} elements of {a.dtype} differ"
    tolerance = RELATIVE.get(f"{a.dtype.kind}{a.dtype.itemsize}", 0.1)
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"):
        a, b = a.astype(wide), b.astype(wide)
        regular = np.isfinite(b)
        if not np.array_equal(regular, np.isfinite(a)):
            return f"finite in other places, {ours.dtype}{list(a.shape)}"
        if not np.array_equal(a[~regular], b[~regular], equal_nan=True):
            return "other infinities or NaNs"
        scale = np.abs(b[regular]).max(initial=0)
        error = np.abs(a[regular] - b[regular]).max(initial=0)
    if error <= tolerance * max(scale, 1e-30):
        return None
    return f"off by {error:.3g} of {scale:.3g}, {ours.dtype}{list(ours.shape)}"


# -- jit -------------------------------------------------------------------------------------------


class Judged:
    """A compiled function that runs by lowtide and by XLA, and returns lowtide's results."""

    def __init__(self, program: Any, lowered: Any, donated: Sequence[int], log: Log) -> None:
        from lowtide.client.jit.program import JaxFallback

        self._program = program
        self._judge = JaxFallback(lowered, "jax")
        self._donated = donated
        self._log = log

    def caller(self, leaves: Sequence[Any]) -> Callable[[Sequence[Any]], Any]:
        """Return what takes leaves to the tree of results."""
        run = self._program.caller(leaves)
        return functools.partial(self._call, run)

    def _call(self, run: Callable[[Sequence[Any]], Any], leaves: Sequence[Any]) -> Any:
        import jax

        given = [
            jax.numpy.array(x, copy=True) if i in self._donated and hasattr(x, "dtype") else x
            for i, x in enumerate(leaves)
        ]
        wanted = self._judge.caller(given)(given)
        found = run(leaves)
        self._log.write("call")
        pairs = zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True)
        differences = [difference(a, b) for a, b in pairs if hasattr(b, "dtype")]
        wrong = [x for x in differences if x is not None]
        if wrong:
            self._log.write("wrong", what=wrong[0], module=self._program_text())
        return found

    def _program_text(self) -> str:
        return str(self._program._program.module)[:20000]


class Through:
    """What stands in for `jax.jit(function)`."""

    def __init__(self, function: Callable[..., Any], original: Any, ours: Any, log: Log) -> None:
        functools.update_wrapper(self, function)
        self._original, self._ours, self._log = original, ours, log

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Return lowtide's results; JAX's where it traces itself or lowtide has no way."""
        import jax

        from lowtide.ir import UnsupportedOpError

        leaves = jax.tree.leaves((arguments, keywords))
        if any(isinstance(x, jax.core.Tracer) for x in leaves) or not _is_eager():
            return self._original(*arguments, **keywords)
        try:
            return self._ours(*arguments, **keywords)
        except UnsupportedOpError as error:
            self._log.write("unsupported", what=str(error))
        except Exception as error:
            return self._foreign(error, arguments, keywords)
        return self._original(*arguments, **keywords)

    def _foreign(self, error: Exception, arguments: Any, keywords: Any) -> Any:
        """Return what JAX returns, and note that lowtide raised; raise what JAX raises."""
        result = self._original(*arguments, **keywords)
        lines = traceback.format_exception(error)
        self._log.write("foreign", what=f"{type(error).__name__}: {error}"[:400], trace=lines[-4:])
        return result


def _is_eager() -> bool:
    import jax

    state = getattr(jax.core, "trace_state_clean", None)
    return True if state is None else bool(state())


def replace_jit(log: Log) -> None:
    """Have callers outside of JAX, and those of its tests' helpers, compile by lowtide."""
    import jax
    from jax._src import api

    import lowtide
    from lowtide.client.jit import jitted

    original = jax.jit
    lowered_of: dict[int, Any] = {}
    kept = []
    program_of, make = jitted.program_of, jitted.JitProgram

    def remembered(traced: Any, lowered: Any) -> Any:
        program = program_of(traced, lowered)
        kept.append(program)
        lowered_of[id(program)] = lowered
        return program

    def judged(program: Any, executable: Any, output: str) -> Any:
        made = make(program, executable, output)
        return Judged(made, lowered_of[id(program)], program.donated, log)

    def through(function: Any = None, /, **parameters: Any) -> Any:
        caller = sys._getframe(1).f_globals.get("__name__", "")
        if caller.startswith(INSIDE) and caller != JUDGED:
            return original(function, **parameters) if function else original(**parameters)
        if function is None:
            return functools.partial(through_of, parameters)
        return through_of(parameters, function)

    def through_of(parameters: dict[str, Any], function: Any) -> Any:
        plain = original(function, **parameters)
        others = sorted({name for name, x in parameters.items() if x is not None} - PARAMETERS)
        if others:
            log.write("parameters", what=", ".join(others))
            return plain
        known = {x: y for x, y in parameters.items() if x != "keep_unused"}
        return Through(function, plain, lowtide.jit(function, output="jax", **known), log)

    replaced: dict[str, Any] = {"program_of": remembered, "JitProgram": judged}
    for name, value in replaced.items():
        setattr(jitted, name, value)
    for module in (jax, api):
        setattr(module, "jit", through)  # noqa: B010 - mypy knows the type of what is replaced


# -- tests -----------------------------------------------------------------------------------------


def loaded(path: Path) -> Any:
    """Return the module of a test file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def tests_of(suite: Any) -> Iterator[unittest.TestCase]:
    """Return the tests of a suite, in order."""
    for x in suite:
        if isinstance(x, unittest.TestCase):
            yield x
        else:
            yield from tests_of(x)


def run_test(test: unittest.TestCase, log: Log) -> None:
    """Run a test; write how it began and ended."""
    log.test = test.id()
    log.write("begin")
    begun = time.perf_counter()
    result = unittest.TestResult()
    signal.alarm(TEST_SECONDS)
    try:
        test.run(result)
    except Deadline:
        log.write("late")
        return
    finally:
        signal.alarm(0)
    problems = [text for _, text in [*result.failures, *result.errors]]
    verdict = "failed" if problems else "skipped" if result.skipped else "passed"
    problems += [text for _, text in result.skipped]
    seconds = round(time.perf_counter() - begun, 3)
    log.write(verdict, what=problems[0][-1500:] if problems else "", seconds=seconds)


def _end(*_: Any) -> None:
    raise Deadline


def main() -> None:
    """Run or list the tests that the command line names."""
    path, results, *names = sys.argv[1:]
    log = Log(Path(results))
    # Tests that are for processors run on lowtide's platform, too.
    sys.argv = [sys.argv[0], "--jax_test_dut=cpu"]
    from absl import flags
    from jax._src import test_util

    if names and os.environ.get("JAX_SUITE_THROUGH") != "xla":
        replace_jit(log)
    module = loaded(Path(path))
    flags.FLAGS(sys.argv, known_only=True)
    found = {x.id(): x for x in tests_of(test_util.JaxTestLoader().loadTestsFromModule(module))}
    if not names:
        log.write("tests", names=list(found))
        return
    signal.signal(signal.SIGALRM, _end)
    for name in names:
        if name in found:
            run_test(found[name], log)
    log.test = ""
    log.write("end")


if __name__ == "__main__":
    main()
