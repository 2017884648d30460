"""The kernels run as Python, where an index out of bounds is an error."""

from random import Random
from typing import Any

import numpy as np
import pytest
from tests.remat.replay import replay
from tests.remat.small_graphs import random_graph

from lowtide.remat import levels, neighbourhood
from lowtide.remat.bound import topological_order
from lowtide.remat.frontier import frontier
from lowtide.remat.tables import tables_of
from lowtide.search.effort import Effort
from lowtide.search.kernels import Kernel, Record


class Checked:
    """An array that takes indices from 0 to its end only."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array

    def __getitem__(self, index: int) -> Any:
        assert 0 <= index < len(self.array)
        return self.array[index].item()

    def __setitem__(self, index: int, value: float) -> None:
        assert 0 <= index < len(self.array)
        self.array[index] = value


def checked(value: Any) -> Any:
    """Return an array, or a record with all arrays in it, that takes such indices only."""
    if isinstance(value, Record):
        return type(value)(*[checked(part) for part in value.values()])
    return Checked(value) if isinstance(value, np.ndarray) else value


def run_as_python(self: Kernel[..., Any], *args: Any) -> Any:
    return self.python(*[checked(x) for x in args])


@pytest.mark.parametrize("seed", [*range(8), 330])
def test_no_kernel_leaves_its_arrays(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    small = levels._Settings(levels=6, work=40, improved=2)
    monkeypatch.setitem(levels._SETTINGS, Effort.DEFAULT, small)
    monkeypatch.setattr(neighbourhood, "_SAMPLE", 4)
    monkeypatch.setattr(Kernel, "__call__", run_as_python)
    graph = random_graph(Random(seed), 9)
    order = topological_order(tables_of(graph))
    for point in frontier(graph, [order], Effort.DEFAULT).points:
        assert replay(graph, point.sequence).peak_bytes == point.peak_bytes
