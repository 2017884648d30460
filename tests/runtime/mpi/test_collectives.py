"""Each collective operation on four ranks gives the bits that the evaluator gives."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.runtime.devices.judging import arguments_of, same
from tests.runtime.mpi.cases import cases
from tests.runtime.mpi.launching import needs_mpi, started

import lowtide
from lowtide.evaluator.on_devices import evaluate_on_devices
from lowtide.evaluator.values import value_leaves

pytestmark = needs_mpi

RANKS = 4


def results(folder: Path, *options: str) -> list[dict[str, list[np.ndarray]]]:
    """Return the results of each rank by case."""
    ended = started(RANKS, "tests/runtime/mpi/run_cases.py", str(folder), *options)
    assert ended.status == 0, ended.stderr
    found = []
    for rank in range(RANKS):
        arrays = np.load(folder / f"{rank}.npz")
        counts = json.loads((folder / f"{rank}.json").read_text())
        found.append({x: [arrays[f"{x}/{i}"] for i in range(n)] for x, n in counts.items()})
    return found


@pytest.fixture(scope="module")
def in_one_piece(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, list[np.ndarray]]]:
    return results(tmp_path_factory.mktemp("whole"))


@pytest.fixture(scope="module")
def in_pieces(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, list[np.ndarray]]]:
    return results(tmp_path_factory.mktemp("pieces"), "1000")


@pytest.mark.parametrize("name", cases())
@pytest.mark.parametrize("how", ["in_one_piece", "in_pieces"])
def test_ranks_compute_what_the_evaluator_does(
    name: str, how: str, request: pytest.FixtureRequest
) -> None:
    """Also where messages are cut in many pieces, as those of more than a GB are."""
    module = lowtide.parse_hlo(cases()[name])
    wanted = evaluate_on_devices(module, arguments_of(module))
    for found, expected in zip(request.getfixturevalue(how), wanted, strict=True):
        leaves = [np.asarray(x) for x in value_leaves(expected)]
        own = [x.view(y.dtype) for x, y in zip(found[name], leaves, strict=True)]
        same(tuple(own), tuple(leaves))
