"""Programs through the driver layer, in streams and by graphs: those of JAX, and recorded ones."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from benchmarks.gpu_differences import apart
from tests.evaluator.test_conformance import recorded
from tests.native.test_programs import PROGRAMS
from tests.support import needs_shared
from tests.ways_to_run import run, run_emulated

from lowtide.ir.errors import UnsupportedOpError
from lowtide.ir.printer import to_text

FEW = ("cond_switch", "dtype_mix", "mlp_train_step", "scatter_gather_batched")
"""Programs of JAX that take little time."""

EVERY = 90
"""The distance of the recorded programs that are run each time."""

OTHERS_CHOICE = (
    "hlo_traversal_test",
    "hlo_fusion_analysis_test",
    "unstable_reduction_detector_test",
    "priority_fusion_test.cc/31",
)
"""Recorded programs whose results are XLA's choice, not HLO's rule: docs/validation.md says why."""


@cache
def programs() -> dict[str, Any]:
    pytest.importorskip("jax")
    from benchmarks.jax_programs import jax_programs

    return {x.name: x for x in jax_programs(PROGRAMS, "small")}


def check(name: str) -> None:
    program = programs()[name]
    text, arguments = to_text(program.module()), program.arguments()
    found, wanted = run_emulated(text, arguments), run(text, arguments)
    allowed = max(program.tolerance, 2e-5)
    assert all(apart(x, y) <= allowed for x, y in zip(found, wanted, strict=True))


@needs_shared
@pytest.mark.parametrize("name", FEW)
def test_small_programs_of_jax(name: str) -> None:
    check(name)


@pytest.mark.slow
@needs_shared
def test_all_small_programs_of_jax() -> None:
    """Convolutions take minutes each."""
    for name in programs():
        check(name)


def failures(start: int, step: int) -> tuple[int, list[str]]:
    """Return how many recorded programs were run, those with loops left out, and why some fail."""
    execute, items, text, outputs = recorded()
    found = []
    chosen = [x for x in items[start::step] if "while(" not in text[x["id"]]]
    chosen = [x for x in chosen if not any(y in x["id"] for y in OTHERS_CHOICE)]
    for item in chosen:
        inputs = execute.inputs(item["inputs"], item["seed"], item["low"])
        try:
            got = run_emulated(text[item["id"]], inputs)
        except UnsupportedOpError as error:
            found.append(f"{item['id']}: {error}")
            continue
        if reason := execute.mismatch(got, outputs(item), item["outputs"]):
            found.append(f"{item['id']}: {reason}")
    return len(chosen), found


@needs_shared
def test_a_sample_of_recorded_programs() -> None:
    count, found = failures(0, EVERY)
    assert count > 20
    assert not found


@pytest.mark.slow
@needs_shared
@pytest.mark.parametrize("start", range(4))
def test_recorded_programs(start: int) -> None:
    """Of 670 each, one has no kernel: rows of results of several dimensions."""
    count, found = failures(start, 4)
    assert count > 500
    assert len(found) <= 1, found
