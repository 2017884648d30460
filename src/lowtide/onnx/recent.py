"""Values by key, of which those used last are kept: several threads may share them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar, final

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")


@final
class Recent(Generic[KeyT, ValueT]):
    """Values by key. To find one is to use it; adding lets go of those unused for longest."""

    def __init__(self) -> None:
        self._values: OrderedDict[KeyT, ValueT] = OrderedDict()
        self._lock = Lock()

    def find(self, key: KeyT) -> ValueT | None:
        """Return the value of a key, None where there is none."""
        with self._lock:
            if key not in self._values:
                return None
            self._values.move_to_end(key)
            return self._values[key]

    def found(self, key: KeyT, make: Callable[[], ValueT], most: int) -> ValueT:
        """Return the value of a key, made where there is none; `most` of all values stay.

        Threads that ask for the same key meanwhile make it, too.
        """
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
        return self.add(key, make(), most)

    def add(self, key: KeyT, value: ValueT, most: int) -> ValueT:
        """Keep a value as the one used last, and return it; `most` of all values stay."""
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            while len(self._values) > most:
                self._values.popitem(last=False)
        return value

    def use(self, is_wanted: Callable[[ValueT], bool]) -> None:
        """Count the first value that is wanted, if there is one, as the one used last."""
        with self._lock:
            key = next((x for x, y in self._values.items() if is_wanted(y)), None)
            if key is not None:
                self._values.move_to_end(key)

    def values(self) -> list[ValueT]:
        """Return the values, the one used last at the end."""
        with self._lock:
            return [*self._values.values()]

    def clear(self) -> None:
        """Let go of all of them."""
        with self._lock:
            self._values.clear()
