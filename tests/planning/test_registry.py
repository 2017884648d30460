"""Strategies of other packages: found by entry points, and no harm where one is broken."""

from importlib.metadata import EntryPoint

import pytest

from lowtide.planning import assign_objects, assign_offsets, object_strategies, offset_strategies

RECORDS = [(5, 0, 1), (7, 1, 2)]
FIRST_FIT = "lowtide.planning.offsets.greedy_by_size:STRATEGIES"


@pytest.fixture
def entry_points(monkeypatch):
    """Let these entry points be those of other packages."""
    added = []
    monkeypatch.setattr(
        "importlib.metadata.entry_points", lambda group: [x for x in added if x.group == group]
    )
    for strategies in (offset_strategies, object_strategies):
        strategies.cache_clear()
    yield lambda *points: added.extend(EntryPoint(*point) for point in points)
    for strategies in (offset_strategies, object_strategies):
        strategies.cache_clear()


def test_a_strategy_is_known_by_the_name_of_its_entry_point(entry_points, monkeypatch):
    ours = offset_strategies()["first_fit"]
    offset_strategies.cache_clear()
    monkeypatch.setattr("lowtide.planning.relax.OURS", ours, raising=False)
    entry_points(("theirs", "lowtide.planning.relax:OURS", "lowtide.offsets"))
    assert offset_strategies()["theirs"].name == "theirs"
    found = assign_offsets(RECORDS, "theirs")
    assert found.offsets == assign_offsets(RECORDS, "first_fit").offsets


def test_broken_ones_say_so_once_they_are_used(entry_points):
    entry_points(
        ("gone", "lowtide.planning:NOTHING", "lowtide.offsets"),
        ("exact", FIRST_FIT, "lowtide.offsets"),
        ("tuple", FIRST_FIT, "lowtide.offsets"),
        ("lost", "no_such_package:STRATEGY", "lowtide.objects"),
    )
    assert assign_offsets(RECORDS, "exact").optimal
    for name, reason in (
        ("gone", "has no attribute 'NOTHING'"),
        ("tuple", "is no OffsetStrategy"),
        (f"exact of {FIRST_FIT}", "there is a strategy exact already"),
    ):
        with pytest.raises(ValueError, match=rf"entry point \w+ of .* cannot be used: .*{reason}"):
            assign_offsets(RECORDS, name)
    with pytest.raises(ValueError, match=r"entry point lost [^:]*: ModuleNotFoundError"):
        assign_objects([((2, 2), 1, 1), ((2, 2), 0, 0)], "lost")
