"""A plugin for pytest: tests that say how much memory a function may take.

>>> @pytest.mark.memory("512MiB")
... def test_step_fits(memory_of):
...     memory_of(train_step, state, batch)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from lowtide.autopsy.report import PlanReport
    from lowtide.report.memory import MemoryReport


def pytest_configure(config: pytest.Config) -> None:
    """Make the mark known."""
    config.addinivalue_line(
        "markers",
        "memory(size): most bytes, such as '512MiB', that one call of what `memory_of` is given "
        "may take in all: arguments, outputs, constants and temporaries",
    )


@pytest.fixture
def memory_of(request: pytest.FixtureRequest) -> Iterator[Callable[..., MemoryReport | PlanReport]]:
    """Return what returns the report of `lowtide.explain`, and fails above the test's mark.

    It takes what `explain` takes: a function for JAX with its arguments or specs, a Module, a path.
    Nothing is run. A test with the mark fails too where it never asks for a peak.
    """
    limit = _limit(request.node)
    asked = []

    def report_within(source: Any, *specs: Any, **keywords: Any) -> MemoryReport | PlanReport:
        from lowtide.autopsy.report import PlanReport
        from lowtide.comparison.gate import explained
        from lowtide.report.units import unit_for

        asked.append(source)
        report = explained(source, *specs, **keywords)
        memory = report.memory if isinstance(report, PlanReport) else report
        if limit is not None and memory.total_bytes > limit:
            unit = unit_for(limit)
            pytest.fail(
                f"{memory.module} takes {unit.text(memory.total_bytes)}, more than the "
                f"{unit.text(limit)} of its mark\n\n{report}",
                pytrace=False,
            )
        return report

    yield report_within
    if limit is not None and not asked:
        pytest.fail("the test has a mark `memory`, but never called memory_of", pytrace=False)


def _limit(node: pytest.Item) -> int | None:
    """The bytes of the mark of a test, None without one; raises UsageError for what is no size."""
    mark = node.get_closest_marker("memory")
    if mark is None:
        return None
    from lowtide.ir.sizes import bytes_of

    try:
        (size,) = mark.args
        return bytes_of(size)
    except (TypeError, ValueError) as error:
        raise pytest.UsageError(f"{node.nodeid}: mark memory takes one size: {error}") from None
