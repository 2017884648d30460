"""Programs that answer by the evaluator until their native code, compiled meanwhile, is there."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock, Thread
from typing import Any, final

from lowtide.client.executable.executable import Executable
from lowtide.evaluator import evaluate
from lowtide.ir import Module
from lowtide.ir.errors import LowtideError


@final
class BehindProgram:
    """A module that is computed by the evaluator, and by native code once that is compiled.

    The compilation begins with call number `begin_at`, counted from 1, in a thread of its own.
    Several threads may call it at once. An error of the compilation is raised by the calls that
    follow it.
    """

    def __init__(
        self, module: Module, compile_: Callable[[Module], Executable], begin_at: int
    ) -> None:
        self._module: Module | None = module
        self._compile = compile_
        self._begin_at = begin_at
        self._calls = 0
        self._lock = Lock()
        self._thread: Thread | None = None
        self._error: LowtideError | None = None
        self.native: Executable | None = None
        """The native code, once it is there."""

    def __call__(self, *arrays: Any) -> Any:
        """Return the results for the parameters; raises LowtideError where compiling failed."""
        module = self._module  # It goes when the native code is there.
        if self._error is not None:
            raise self._error
        if self.native is not None:
            return self.native(*arrays)
        assert module is not None
        self._count()
        return evaluate(module, arrays)

    def _count(self) -> None:
        with self._lock:
            self._calls += 1
            if self._calls >= self._begin_at and self._thread is None:
                self._thread = Thread(target=self._compiled, daemon=True)
                self._thread.start()

    def _compiled(self) -> None:
        assert self._module is not None
        try:
            self.native = self._compile(self._module)
            self._module = None
        except LowtideError as error:
            self._error = error

    def wait(self) -> None:
        """Return once a compilation that has begun is done."""
        if self._thread is not None:
            self._thread.join()
