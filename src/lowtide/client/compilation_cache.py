"""Programs of a client, compiled once for each key: kept in memory, for this process only.

A key says all that a program is compiled for, as in TensorFlow's XlaCompilationCache.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Event, Lock, get_ident
from time import perf_counter
from typing import Final, Generic, TypeVar, final

from lowtide.ir.errors import LowtideError
from lowtide.records import dataclass

V = TypeVar("V")

DEFAULT_CAPACITY: Final = 1024
"""How many programs a cache keeps where nothing else is said."""


@dataclass(frozen=True, slots=True)
class CacheStatistics:
    """What a cache did so far.

    A request that waited for another thread's compilation is a hit where that succeeded, and
    nothing where it failed. `seconds` is the time spent in compilations, failed ones included.
    """

    hits: int = 0
    misses: int = 0
    failures: int = 0
    evictions: int = 0
    seconds: float = 0.0


_lock: Final = Lock()
"""Held for moments by any cache; a forked process finds it free."""

os.register_at_fork(
    before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
)


class _Entry(Generic[V]):
    """One key. `done` is set once there is a value, an error, or neither: it was given up.

    One of another process than this, which was forked, will never be done.
    """

    __slots__ = ("done", "error", "is_complete", "owner", "process", "value")

    def __init__(self) -> None:
        self.owner = get_ident()
        self.process = os.getpid()
        self.done = Event()
        self.is_complete = False
        self.value: V
        self.error: Exception | None = None


@final
class CompilationCache(Generic[V]):
    """At most `capacity` compiled programs by key; the one not used for longest goes first.

    Threads that want one key wait for the first of them, and those of different keys compile at
    the same time. An error is raised in every thread that waited for it, and forgotten then: the
    next request compiles again.
    """

    def __init__(self, capacity: int = DEFAULT_CAPACITY) -> None:
        if capacity < 1:
            raise ValueError(f"the capacity of a cache is at least 1, not {capacity}")
        self.capacity = capacity
        self._complete: OrderedDict[Hashable, V] = OrderedDict()
        self._started: dict[Hashable, _Entry[V]] = {}
        self._hits = 0
        self._misses = 0
        self._failures = 0
        self._evictions = 0
        self._seconds = 0.0

    def get_or_compile(self, key: Hashable, compile_: Callable[[], V]) -> V:
        """Return the program of a key, compiled by `compile_` where there is none.

        Raises what `compile_` raises, and LowtideError where it asks for its own key. Where the
        compiling thread is interrupted (KeyboardInterrupt, SystemExit), one that waits goes on.
        """
        while True:
            with _lock:
                if key in self._complete:
                    self._complete.move_to_end(key)
                    self._hits += 1
                    return self._complete[key]
                entry = self._started.get(key)
                if entry is None or entry.process != os.getpid():
                    entry = self._started[key] = _Entry()
                    self._misses += 1
                    break
            if self._waited(entry):
                return entry.value
        return self._compiled(key, entry, compile_)

    def _waited(self, entry: _Entry[V]) -> bool:
        """Wait for the compilation of another thread; return whether it gave a value."""
        if entry.owner == get_ident():
            raise LowtideError("the compilation of a program asks for the same program")
        entry.done.wait()
        if entry.error is not None:
            raise entry.error
        if entry.is_complete:
            with _lock:
                self._hits += 1
        return entry.is_complete

    def _compiled(self, key: Hashable, entry: _Entry[V], compile_: Callable[[], V]) -> V:
        start = perf_counter()
        try:
            entry.value = compile_()
            entry.is_complete = True
        except Exception as error:
            entry.error = error
            raise
        finally:
            with _lock:
                self._finish(key, entry, perf_counter() - start)
            entry.done.set()
        return entry.value

    def _finish(self, key: Hashable, entry: _Entry[V], seconds: float) -> None:
        self._seconds += seconds
        if self._started.get(key) is entry:
            del self._started[key]
            if entry.is_complete:
                self._complete[key] = entry.value
        if not entry.is_complete:
            self._failures += 1
        while len(self._complete) > self.capacity:
            self._complete.popitem(last=False)
            self._evictions += 1

    def clear(self) -> None:
        """Forget all programs; one that is being compiled goes to those who wait, and is not kept.

        The statistics stay.
        """
        with _lock:
            self._complete.clear()
            self._started.clear()

    @property
    def statistics(self) -> CacheStatistics:
        """What the cache did so far."""
        with _lock:
            return CacheStatistics(
                self._hits, self._misses, self._failures, self._evictions, self._seconds
            )

    def __len__(self) -> int:
        return len(self._complete)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._complete
