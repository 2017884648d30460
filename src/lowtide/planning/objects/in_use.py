"""Objects in use, by the task at which they become free."""

from __future__ import annotations

from heapq import heappop, heappush


class ObjectsInUse:
    """Objects with a tensor in them, to be given back as time goes on."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int]] = []

    def occupy(self, number: int, last_task: int) -> None:
        """Note that the object is in use up to `last_task`, included."""
        heappush(self._heap, (last_task, number))

    def released(self, task: int) -> list[int]:
        """Return the objects that are free from `task` on, by last task, then number."""
        freed: list[int] = []
        while self._heap and self._heap[0][0] < task:
            freed.append(heappop(self._heap)[1])
        return freed
