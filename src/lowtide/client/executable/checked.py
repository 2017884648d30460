"""Calls that are compared with the evaluator: the first one of a program, or each."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from threading import Lock
from typing import Any, Final, Protocol, cast, final

import numpy as np

from lowtide.ir import Module
from lowtide.options import Options
from lowtide.records import dataclass
from lowtide.runtime.cpu.program import NativeProgram


@dataclass(frozen=True, eq=False, slots=True)
class CheckSubject:
    """A program to be checked: the module that runs, and the one it was made of, if known."""

    program: NativeProgram
    scheduled: Module
    given: Module | None
    options: Options


class CheckedRun(Protocol):
    """A run step by step beside the evaluator that found no fault."""

    @property
    def not_compared(self) -> tuple[str, ...]:
        """What the evaluator does not say, in words or names of instructions."""

    def check(self, found: Any) -> None:
        """Raise WrongResultError where what an ordinary call returned is not what this one did."""


_HOME: Final = ("lowtide.inspection.first_calls", "checked_run")


def checked_run(subject: CheckSubject, arguments: Sequence[Any]) -> CheckedRun:
    """Run a program step by step beside the evaluator, by tools that are imported on use."""
    module, name = _HOME
    run = cast(
        "Callable[[CheckSubject, Sequence[Any]], CheckedRun]", getattr(import_module(module), name)
    )
    return run(subject, arguments)


@final
class CheckedCalls:
    """Calls a program, and compares the first call or each with the evaluator.

    Other threads wait for the first call. One that fails is not the last one that is compared.
    Once nothing is to be compared any more, `finished` is called.
    """

    def __init__(
        self,
        callee: Callable[..., Any],
        subject: Callable[[], CheckSubject],
        finished: Callable[[], None],
        *,
        always: bool,
    ) -> None:
        self._callee = callee
        self._subject = subject
        self._finished = finished
        self._always = always
        self._is_done = False
        self._has_warned = False
        self._lock = Lock()

    def __call__(self, *arrays: Any, consume: bool = False) -> Any:
        """Return the results of a call; raises WrongResultError where they are not right.

        Arguments that were consumed for nothing get their values back. A call that has a side
        effect is not compared, since the effect would be there twice.
        """
        with self._lock:
            if not self._is_done:
                return self._compared(arrays, consume=consume)
        return self._callee(*arrays, consume=consume)

    def _compared(self, arrays: tuple[Any, ...], *, consume: bool) -> Any:
        subject = self._subject()
        effect = subject.program.side_effect
        if effect:
            self._warn(subject, [f"%{effect} has a side effect, which must not be there twice"])
            self._is_done = True
            self._finished()
            return self._callee(*arrays, consume=consume)
        copies = [np.array(x) if isinstance(x, np.ndarray) else x for x in arrays]
        run = checked_run(subject, copies)
        found = self._callee(*arrays, consume=consume)
        try:
            run.check(found)
        except Exception:
            if consume:
                _restore(arrays, copies)
            raise
        self._warn(subject, run.not_compared)
        if not self._always:
            self._is_done = True
            self._finished()
        return found

    def _warn(self, subject: CheckSubject, not_compared: Sequence[str]) -> None:
        if not_compared and not self._has_warned:
            self._has_warned = True
            warnings.warn(
                f"{subject.program.name} was not compared with the evaluator in all: "
                + ", ".join(not_compared),
                RuntimeWarning,
                stacklevel=5,
            )


def _restore(arrays: Sequence[Any], copies: Sequence[Any]) -> None:
    for array, copy in zip(arrays, copies, strict=True):
        if isinstance(array, np.ndarray) and array.flags.writeable:
            array[...] = copy
