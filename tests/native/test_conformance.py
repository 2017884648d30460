"""Native code against the recorded results of XLA:CPU."""

from __future__ import annotations

import pytest
from tests.evaluator.test_conformance import recorded
from tests.support import needs_shared
from tests.ways_to_run import run_native

from lowtide.ir.errors import UnsupportedOpError

SAMPLE = 80
PASSING = 0.97
"""The part of all recorded programs that has to run and to agree."""


def failures(start: int, stop: int | None, *, loops: bool) -> tuple[int, list[str]]:
    """Return how many programs were run, those with loops only on request, and why some fail."""
    execute, items, text, outputs = recorded()
    found = []
    chosen = [x for x in items[start:stop] if loops or "while(" not in text[x["id"]]]
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
    _, found = failures(0, SAMPLE, loops=True)
    assert len(found) <= 1, found


@pytest.mark.slow
@needs_shared
def test_all_recorded_programs() -> None:
    """Some loops among them never end, where XLA's passes remove the loop."""
    count, found = failures(SAMPLE, None, loops=False)
    assert count - len(found) >= PASSING * count, found
