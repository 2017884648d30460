"""Records as rows of plain values, such as JSON has, and back: by the annotations of their fields.

A record is a list of its fields in order, an enum its value, a tuple a list. A record that is one
of several has a word in front that says which.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Mapping
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Final, NamedTuple, TypeAlias, get_args, get_origin

Change: TypeAlias = Callable[[Any], Any]


class RowForm(NamedTuple):
    """How values of a type become plain ones, and are made of these again.

    `read` raises ValueError or TypeError for what `write` never makes.
    """

    write: Change
    read: Change


class RowForms:
    """Forms of types: of numbers, texts, enums, tuples, records, and of unions of records.

    `special` has the forms of other types, and of aliases that stand for themselves in a text.
    `words` are those in front of records that are one of several.
    """

    def __init__(
        self, special: Mapping[Any, RowForm], words: Mapping[type, str] | None = None
    ) -> None:
        self._forms: dict[Any, RowForm] = {**_PLAIN, **special}
        self._words = dict(words or {})

    def of(self, kind: Any) -> RowForm:
        """Return the form of a type; raises TypeError for one that has none."""
        found = self._forms.get(kind)
        if found is None:
            found = self._forms[kind] = self._made(kind)
        return found

    def _made(self, kind: Any) -> RowForm:
        if get_origin(kind) is tuple:
            return self._tuple(get_args(kind))
        if isinstance(kind, UnionType):
            return self._union(get_args(kind))
        if isinstance(kind, type) and issubclass(kind, Enum):
            return RowForm(lambda x: x.value, kind)
        if dataclasses.is_dataclass(kind):
            return self._record(kind)
        raise TypeError(f"no row is known for {kind}")

    def _tuple(self, kinds: tuple[Any, ...]) -> RowForm:
        if len(kinds) == 2 and kinds[1] is ...:
            one = self.of(kinds[0])
            return RowForm(
                lambda found: [one.write(x) for x in found],
                lambda row: tuple([one.read(x) for x in _list(row)]),
            )
        forms = [self.of(x) for x in kinds]
        return RowForm(
            lambda found: [form.write(x) for form, x in zip(forms, found, strict=True)],
            lambda row: tuple([form.read(x) for form, x in zip(forms, _list(row), strict=True)]),
        )

    def _union(self, kinds: tuple[Any, ...]) -> RowForm:
        """The form of one type or None, or of several records."""
        others = [x for x in kinds if x is not NoneType]
        if len(others) == 1:
            one = self.of(others[0])
            return RowForm(
                lambda x: None if x is None else one.write(x),
                lambda row: None if row is None else one.read(row),
            )
        if not all(kind in self._words for kind in kinds):
            raise TypeError(f"no row is known for {kinds}")
        words = {kind: self._words[kind] for kind in kinds}
        kind_of = {word: kind for kind, word in words.items()}

        def write(x: Any) -> Any:
            return [words[type(x)], *self.of(type(x)).write(x)]

        def read(row: Any) -> Any:
            word, *rest = _list(row)
            if word not in kind_of:
                raise ValueError(f"there is no record {word!r}")
            return self.of(kind_of[word]).read(rest)

        return RowForm(write, read)

    def _record(self, kind: Any) -> RowForm:
        """The form of a record; what its fields are is looked at late, as it may hold its like."""
        names = [x.name for x in dataclasses.fields(kind)]
        forms: list[RowForm] = []

        def known() -> list[RowForm]:
            if not forms:
                home = vars(sys.modules[kind.__module__])
                # An alias that names itself stays a text here, and has a form by it.
                types = [x.type for x in dataclasses.fields(kind)]
                # Another thread may be here: what both find is the same, and put there at once.
                forms[:] = [self.of(eval(x, home) if isinstance(x, str) else x) for x in types]
            return forms

        def write(x: Any) -> list[Any]:
            return [form.write(getattr(x, name)) for form, name in zip(known(), names, strict=True)]

        def read(row: Any) -> Any:
            values = zip(known(), _list(row), strict=True)
            return kind(*[form.read(x) for form, x in values])

        return RowForm(write, read)


def _list(row: Any) -> list[Any]:
    if not isinstance(row, list):
        raise TypeError(f"a row is no list but {type(row).__name__}")
    return row


def _plain(kind: type) -> RowForm:
    """The form of values that stay as they are; a truth value is no number."""

    def read(x: Any) -> Any:
        if type(x) is not kind:
            raise TypeError(f"expected {kind.__name__}, found {type(x).__name__}")
        return x

    return RowForm(lambda x: x, read)


def _read_float(x: Any) -> float:
    if type(x) not in (int, float):
        raise TypeError(f"expected float, found {type(x).__name__}")
    return float(x)


_PLAIN: Final[Mapping[Any, RowForm]] = {
    **{kind: _plain(kind) for kind in (bool, int, str)},
    float: RowForm(float, _read_float),
}
