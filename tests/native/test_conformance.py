"""Native code against the recorded results of XLA:CPU."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.evaluator.test_conformance import recorded
from tests.support import needs_shared

from lowtide.ir.errors import UnsupportedOpError
from lowtide.testing.native import run_native

SAMPLE = 80
PASSING = 0.97
"""The part of the recorded programs that has to run and to agree."""


def failures(start: int, stop: int | None) -> tuple[int, Sequence[str]]:
    """Return how many programs there are, and why some of them fail.

    Programs with loops are left out: some of them never end, where XLA's passes remove the loop.
    """
    execute, items, text, outputs = recorded()
    found = []
    chosen = [x for x in items[start:stop] if "while(" not in text[x["id"]]]
    for item in chosen:
        inputs = execute.inputs(item["inputs"], item["seed"], item["low"])
        try:
            got = run_native(text[item["id"]], inputs)
        except UnsupportedOpError as error:
            found.append(f"{item['id']}: {error}")
            continue
        reason = execute.mismatch(got, outputs(item), item["outputs"])
        if reason:
            found.append(f"{item['id']}: {reason}")
    return len(chosen), found


@needs_shared
def test_a_sample_of_recorded_programs() -> None:
    count, found = failures(0, SAMPLE)
    assert count - len(found) >= PASSING * count, found


@pytest.mark.slow
@needs_shared
def test_all_recorded_programs() -> None:
    count, found = failures(SAMPLE, None)
    assert count - len(found) >= PASSING * count, found
