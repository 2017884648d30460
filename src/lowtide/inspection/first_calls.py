"""Calls beside the evaluator: each step, the whole, and what an ordinary call returns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lowtide.checking.tolerances import worst_difference
from lowtide.client.errors import SanitizerError
from lowtide.client.executable.anew import compile_anew, executable_of
from lowtide.client.executable.checked import CheckSubject
from lowtide.evaluator import value_leaves
from lowtide.inspection.expected_results import WHOLE_FACTOR, undetermined, whole_difference
from lowtide.inspection.failure_file import failure
from lowtide.inspection.sanitizer import check_program
from lowtide.ir import Module, UnsupportedOpError
from lowtide.ir.literal import Array
from lowtide.options import Options
from lowtide.records import dataclass
from lowtide.runtime.cpu.arguments import as_array


@dataclass(frozen=True, eq=False, slots=True)
class ComparedRun:
    """A run step by step beside the evaluator: its arguments, its results, what was left out."""

    subject: CheckSubject
    arguments: tuple[Array, ...]
    results: tuple[Array, ...]
    not_compared: tuple[str, ...]

    def check(self, found: Any) -> None:
        """Raise WrongResultError, with a file that repeats it, for other results."""
        try:
            self.compare(found)
        except SanitizerError as error:
            raise failure(self.subject, self.arguments, error) from None

    def compare(self, found: Any) -> None:
        """Raise SanitizerError where what an ordinary call returned is not what this one did."""
        if self.not_compared:
            return
        shapes = [x.shape for x in self.subject.program.interface.results]
        for number, (ours, shape, got) in enumerate(
            zip(self.results, shapes, _arrays(found), strict=True)
        ):
            wrong = worst_difference(got, ours, shape.element_type, factor=WHOLE_FACTOR)
            if wrong is not None:
                raise SanitizerError(
                    f"{self.subject.program.name}: each step is right by itself, but a call "
                    f"returns something else: result {number}, {shape.text(layout=False)}: {wrong}"
                )


def checked_run(subject: CheckSubject, arguments: Sequence[Any]) -> ComparedRun:
    """Return a run of a program beside the evaluator.

    Raises WrongResultError, with a file that repeats it, where it differs.
    """
    wanted = subject.program.interface.arguments
    arrays = tuple([as_array(x, given) for x, given in zip(wanted, arguments, strict=True)])
    try:
        return compared_run(subject, arrays)
    except SanitizerError as error:
        raise failure(subject, arrays, error) from None


def compared_run(subject: CheckSubject, arguments: Sequence[Array]) -> ComparedRun:
    """Return a run of a program beside the evaluator; raises SanitizerError where it differs.

    Compared are each step with what the evaluator makes of its operands, and the results with what
    it makes of the scheduled module and of the one that was given.
    """
    found = check_program(subject.program, subject.scheduled, arguments)
    results = _arrays(found.result)
    left_out = [f"%{x}" for x in found.not_compared]
    if not left_out and subject.given is not None:
        left_out += _against_given(subject.given, arguments, results)
    return ComparedRun(subject, tuple(arguments), results, tuple(left_out))


def _against_given(
    given: Module, arguments: Sequence[Array], results: Sequence[Array]
) -> list[str]:
    """Compare with the module before all passes; return what could not be."""
    odd = undetermined(given)
    if odd:
        return [f"%{x}" for x in odd]
    try:
        wrong = whole_difference(given, arguments, results)
    except UnsupportedOpError as error:
        return [str(error)]
    if wrong:
        raise SanitizerError(
            f"{given.name}: each step is right, but the results are not what the evaluator makes "
            f"of the module as it was given: {wrong}; a pass changed what it computes"
        )
    return []


def _arrays(value: Any) -> tuple[Array, ...]:
    return tuple([np.asarray(x) for x in value_leaves(value) if x is not None])


def repeated(module: Module, arguments: Sequence[Array], options: Options) -> str:
    """Return what is wrong with a call of a module, compiled anew; "" for nothing."""
    made = compile_anew(module, options)
    subject = CheckSubject(made.program, made.plan.module, module, options)
    try:
        run = compared_run(subject, arguments)
        run.compare(executable_of(made, options)(*arguments))
    except SanitizerError as error:
        return str(error)
    return ""
