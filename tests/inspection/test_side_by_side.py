"""Results beside XLA's: what is further apart than sums in another order, and what explains it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import pytest

from lowtide.frontend.hlo_text import parse_hlo
from lowtide.inspection.side_by_side import agreed
from lowtide.inspection.xla_program import XlaProgram
from lowtide.ir.literal import Array

MODULE = parse_hlo("HloModule m\nENTRY e {\n  ROOT p = f32[3] parameter(0)\n}\n")
START = np.array([0.3, 0.5, 0.7], np.float32)


class Played:
    """Stands for a program of XLA: a function of what it has taken."""

    def __init__(self, function: Callable[[Array], Array]) -> None:
        self.function, self.given = function, START
        self.taken = 0

    def take(self, arguments: Sequence[Array]) -> None:
        self.given, self.taken = arguments[0], self.taken + 1

    def results(self) -> list[Any]:
        return [self.function(self.given)]


def chaos(x: Array, rounds: int = 100) -> Array:
    """The logistic map: each round doubles a difference."""
    for _ in range(rounds):
        x = np.float32(3.99) * x * (1 - x)
    return x


def test_a_recurrence_that_doubles_differences_is_called_sensitive():
    theirs = Played(chaos)
    ours = [chaos(np.nextafter(START, np.float32(1)))]
    found = agreed(MODULE, ours, cast("XlaProgram", theirs), [START])
    assert found.difference > 0.1
    assert (found.wrong, found.sensitive) == ("", True)
    assert theirs.given is START, "calls that are timed take the arguments again"


@pytest.mark.parametrize("factor", [1.5, np.nan])
def test_another_number_is_wrong(factor: float):
    theirs = Played(lambda x: x * 2)
    found = agreed(MODULE, [START * 2 * np.float32(factor)], cast("XlaProgram", theirs), [START])
    assert "result 0, f32[3]: 3 elements differ" in found.wrong and not found.sensitive


def test_equal_results_need_no_more_runs():
    theirs = Played(lambda x: x * 2)
    found = agreed(MODULE, [START * 2], cast("XlaProgram", theirs), [START])
    assert (found.difference, found.wrong, found.sensitive, theirs.taken) == (0.0, "", False, 0)
