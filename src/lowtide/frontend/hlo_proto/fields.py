"""Faults in a message with the path to the bad field, and checks of single fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

T = TypeVar("T")


class FieldError(Exception):
    """A field of a message is bad. `path` leads to it from where the error is caught."""

    def __init__(self, message: str, path: str = "") -> None:
        self.message = message
        self.path = path
        super().__init__(message)

    def under(self, prefix: str) -> FieldError:
        """Return the same fault, seen from one message further out."""
        joint = "." if self.path and not self.path.startswith("[") else ""
        return FieldError(self.message, f"{prefix}{joint}{self.path}")


def natural(value: int, path: str, limit: int = 2**63) -> int:
    """Return `value`, which must be at least 0 and below `limit`; else raise FieldError."""
    if not 0 <= value < limit:
        bound = "" if limit == 2**63 else f" and below {limit}"
        raise FieldError(f"expected a number from 0{bound}, found {value}", path)
    return value


def naturals(values: Iterable[int], path: str, limit: int = 2**63) -> tuple[int, ...]:
    """Return `values`, all of which must be at least 0 and below `limit`."""
    checked = tuple(values)
    if checked and not (min(checked) >= 0 and max(checked) < limit):
        index = next(i for i, x in enumerate(checked) if not 0 <= x < limit)
        natural(checked[index], f"{path}[{index}]", limit)
    return checked


def only(values: Iterable[int], path: str) -> int:
    """Return the one number, at least 0, that a list must hold."""
    checked = naturals(values, path)
    if len(checked) != 1:
        raise FieldError(f"expected one number, found {len(checked)}", path)
    return checked[0]


def lookup(table: Mapping[int, T], value: int, path: str) -> T:
    """Return what an enum value stands for; raises FieldError for an unknown one."""
    if value not in table:
        known = ", ".join(map(str, table))
        raise FieldError(f"unknown value {value}, expected one of {known}", path)
    return table[value]


def word(value: str, known: Iterable[str], what: str, path: str) -> str:
    """Return `value`, which must be one of the known words; else raise FieldError."""
    if value not in known:
        raise FieldError(f"unknown {what} {value[:20]!r}", path)
    return value


def permutation(values: Iterable[int], rank: int, path: str) -> tuple[int, ...]:
    """Return `values`, which must be a permutation of 0 to `rank` - 1."""
    found = tuple(values)
    if len(found) != rank or sorted(found) != list(range(rank)):
        shown = ", ".join(map(str, found[:16]))
        raise FieldError(f"expected a permutation of {rank} dimensions, found [{shown}]", path)
    return found
