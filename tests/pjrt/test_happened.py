"""The event that has happened, which arrays from the host share, asked for by threads at once."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from lowtide.pjrt import buffers


def test_the_event_that_is_returned_is_the_one_that_is_retained(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Threads that ask for the first time may be given different events by the cache."""
    retained: list[int] = []
    monkeypatch.setattr(buffers, "_happened", iter([1, 2]).__next__)
    monkeypatch.setattr(buffers, "native_code", lambda: SimpleNamespace(retain=retained.append))
    assert [buffers.happened()] == retained
