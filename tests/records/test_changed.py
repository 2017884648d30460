"""Records with other values, held against what the standard library makes of them."""

from __future__ import annotations

from dataclasses import field, replace

import pytest

from lowtide.records import dataclass
from lowtide.records.changed import changed


@dataclass(frozen=True, slots=True)
class Size:
    """A record of slots."""

    rows: int
    columns: int = 1
    names: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class Deep(Size):
    """Slots of its own and of a base."""

    planes: int = 1


@dataclass(frozen=True, slots=True)
class Checked:
    """A record that looks at its values."""

    rows: int

    def __post_init__(self) -> None:
        """Refuse less than nothing."""
        if self.rows < 0:
            raise ValueError


@dataclass(frozen=True)
class Open:
    """A record without slots."""

    rows: int


@pytest.mark.parametrize("record", [Size(2, 3, ("a",)), Deep(2, 3, ("b",), 4)], ids=str)
@pytest.mark.parametrize("values", [{}, {"rows": 7}, {"names": ("c",), "columns": 0}], ids=str)
def test_is_what_the_standard_library_makes(record: Size, values: dict[str, object]) -> None:
    found, expected = changed(record, **values), replace(record, **values)  # type: ignore[arg-type]
    assert type(found) is type(record)
    assert repr(found) == repr(expected)
    assert found == expected
    assert hash(found) == hash(expected)
    assert repr(record) in {repr(Size(2, 3, ("a",))), repr(Deep(2, 3, ("b",), 4))}


def test_what_is_no_field_is_refused() -> None:
    with pytest.raises(TypeError, match="Size has no field depth"):
        changed(Size(1), depth=2)  # type: ignore[call-arg]


@pytest.mark.parametrize("record", [Checked(1), Open(1)], ids=str)
def test_classes_that_it_does_not_know_how_to_fill_are_refused(record: object) -> None:
    with pytest.raises(TypeError, match="is no record whose fields are slots"):
        changed(record, rows=2)  # type: ignore[type-var]
