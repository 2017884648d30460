"""The table of divisions on narrow screens."""

import pytest

from lowtide.report.shardings import ShardingChoice, _splits

NAMES = {f"momentum['layers'][{i}]['projection']": (("x",), ("y",)) for i in range(3)}
CHOICE = ShardingChoice({"x": 4, "y": 2}, NAMES, (), 1, 1, 1.0, True)


@pytest.mark.parametrize("width", [48, 60, 76])
def test_names_lose_their_beginnings_where_they_are_too_long(width: int) -> None:
    text = _splits(CHOICE, width)
    assert len(text) <= width
    for axis, dimension in (("x", 0), ("y", 1)):
        assert f"]:{dimension} and 2 more" in text
        assert f"{axis}: …" in text


def test_names_that_fit_are_whole() -> None:
    name = list(NAMES)[-1]
    expected = f"x: {name}:0 and 2 more; y: {name}:1 and 2 more"
    assert _splits(CHOICE, len(expected)) == expected
