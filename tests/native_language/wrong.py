"""Native functions that are wrong, one mistake in each."""

from __future__ import annotations

from typing import Any

from tests.native_language.samples import Link

from lowtide.native import ACQUIRE, native

FACTOR = "one"


@native
def a_field(link: Link) -> int:
    """A field that is not there."""
    return link.signd  # type: ignore[attr-defined, no-any-return]


@native
def a_type(link: Link) -> int:
    """A record in place of a number."""
    return link  # type: ignore[return-value]


@native
def an_order(link: Link) -> int:
    """An atomic without an order."""
    return link.count.load()  # type: ignore[call-arg]


@native
def a_plain_atomic(link: Link) -> None:
    """An atomic that is set like a field."""
    link.count = 3  # type: ignore[assignment]


@native
def an_operator(number: int) -> int:
    """An operator that is not there."""
    return int(number**2)


@native
def a_constant(number: int) -> int:
    """A constant that is no number."""
    return number + FACTOR  # type: ignore[operator, no-any-return]


@native
def a_path(number: int) -> int:  # type: ignore[return]
    """A path without a result."""
    if number:
        return 1


@native
def an_annotation(number: Any) -> int:
    """A parameter of no kind."""
    return 1


@native
def a_statement(number: int) -> int:
    """A statement that is not there."""
    with open("x") as x:
        return x.fileno()


@native
def a_count(link: Link) -> int:
    """An argument too many."""
    return link.count.load(1, ACQUIRE)  # type: ignore[call-arg, arg-type]


@native
def a_name(number: int) -> int:
    """A name that is read too early."""
    while number:
        number = later  # type: ignore[name-defined]  # noqa: F821
    return number


@native
def a_fraction(number: int) -> int:
    """A float in place of a number."""
    return number + 1.5  # type: ignore[return-value]


@native
def a_float_operator(number: float) -> float:
    """An operator that floats have not."""
    return number % 2.0


@native
def a_choice(number: int, other: int) -> int:
    """A choice of two numbers, which would be a bool."""
    return number or other


@native
def a_condition(number: float) -> int:
    """A float as a condition."""
    return 1 if number else 2
