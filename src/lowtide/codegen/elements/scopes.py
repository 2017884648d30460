"""Scopes of values: each is written once, ahead of loops as far out as it can be."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from typing import Any, TypeVar

from lowtide.llvm.function import Function
from lowtide.llvm.loops import Integer, Loop
from lowtide.records import dataclass

T = TypeVar("T")


@dataclass(eq=False, slots=True)
class _Scope:
    """What is known within a loop, or under a condition, where `loop` is None."""

    loop: Loop | None
    known: dict[int, Any] = field(default_factory=dict)


class Scopes:
    """The loops and conditions around a place in a function, and what is known in each."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self._scopes = [_Scope(None)]
        self._numbers: dict[Any, int] = {}
        """Numbers of keys: these are nested, so that to hash one takes longer than all the rest."""

    @property
    def level(self) -> int:
        """The depth of loops and conditions at this place."""
        return len(self._scopes) - 1

    @contextmanager
    def loop(
        self,
        start: Integer,
        stop: Integer,
        step: Integer = 1,
        carry: Sequence[tuple[str, str]] = (),
    ) -> Iterator[Loop]:
        """Write a loop as `Function.loop` does; values in it go ahead of it where they can."""
        with self.function.loop(start, stop, step, carry) as loop:
            self._scopes.append(_Scope(loop))
            yield loop
            self._scopes.pop()

    @contextmanager
    def repeat(self, carry: Sequence[tuple[str, str]] = ()) -> Iterator[Loop]:
        """Write a loop as `Function.repeat` does; values in it go ahead of it where they can."""
        with self.function.repeat(carry) as loop:
            self._scopes.append(_Scope(loop))
            yield loop
            self._scopes.pop()

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """Write what runs only where an i1 holds; nothing in it goes ahead of it."""
        with self.function.when(condition):
            self._scopes.append(_Scope(None))
            yield
            self._scopes.pop()

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Write what is branched to by other means than `when`; nothing in it goes ahead of it."""
        self._scopes.append(_Scope(None))
        yield
        self._scopes.pop()

    @contextmanager
    def at_level(self, level: int) -> Iterator[None]:
        """Write ahead of the loops deeper than `level`, but not ahead of a condition."""
        place = self.placed(level)
        if place == self.level:
            yield
            return
        scopes = self._scopes
        loop = scopes[place + 1].loop
        assert loop is not None
        self._scopes = scopes[: place + 1]
        with self.function.before(loop):
            yield
        self._scopes = scopes

    def placed(self, level: int) -> int:
        """Return the depth at which what needs `level` is written: not ahead of conditions."""
        scopes = self._scopes
        place = len(scopes) - 1
        while place > level and scopes[place].loop is not None:
            place -= 1
        return place

    # -- what is known -------------------------------------------------------------------------

    def known(self, key: Any) -> Any:
        """Return what is known of a key at this place, None where nothing is."""
        number = self._numbers.get(key)
        return None if number is None else self._of(number)

    def _of(self, number: int) -> Any:
        """What is known of the key of a number."""
        for scope in reversed(self._scopes):
            found = scope.known.get(number)
            if found is not None:
                return found
        return None

    def _number(self, key: Any) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    def remember(self, key: Any, level: int, value: Any) -> None:
        """Know a value of a key from here on, wherever what needs `level` is written."""
        self._scopes[self.placed(level)].known[self._number(key)] = value

    def forget(self) -> None:
        """Forget values that are known at this place, since memory that they came from changed."""
        for scope in self._scopes:
            scope.known.clear()

    def once(self, key: Any, level: int, write: Callable[[], Any]) -> Any:
        """Return what `write` returns, called once per place and key, at a level."""
        number = self._number(key)
        found = self._of(number)
        if found is None:
            place = self.placed(level)
            found = self.written_at(place, write)
            self._scopes[place].known[number] = found
        return found

    def written_at(self, place: int, write: Callable[[], T]) -> T:
        """Return what `write` returns, called at a depth that `placed` says: mostly here."""
        if place == len(self._scopes) - 1:
            return write()
        with self.at_level(place):
            return write()
