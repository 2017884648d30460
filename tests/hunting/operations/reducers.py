"""Computations that reductions, scatters and sorts call.

All reducers are associative but for roundings, so that every order of applying them is right.
"""

from __future__ import annotations

from typing import Final

from tests.hunting.arrays import COMPLEX, F8, FLOATS, INTEGERS, is_float, one, zero
from tests.hunting.scope import Scope

_BITS: Final = ("and", "or", "xor")


def reducers_of(type_: str) -> tuple[str, ...]:
    """Return the operations that reduce arrays of an element type."""
    if type_ == "pred":
        return ("and", "or")
    if type_ in COMPLEX:
        return ("add",)
    if type_ in INTEGERS:
        return ("add", "multiply", "maximum", "minimum", *_BITS)
    return ("add", "maximum", "minimum")


def initial(opcode: str, type_: str) -> str:
    """Return the literal from which a reduction starts without a change of its result."""
    if opcode == "multiply":
        return one(type_)
    if opcode == "and":
        return "true" if type_ == "pred" else ("-1" if type_[0] == "s" else _most(type_))
    if opcode in ("maximum", "minimum"):
        return _end(opcode, type_)
    return zero(type_)


def _most(type_: str) -> str:
    bits = int(type_[1:])
    return str((1 << bits - (type_[0] == "s")) - 1)


def _end(opcode: str, type_: str) -> str:
    if type_ in FLOATS:
        return "-inf" if opcode == "maximum" else "inf"
    if is_float(type_):
        return zero(type_)
    if opcode == "minimum":
        return _most(type_)
    return str(-(1 << int(type_[1:]) - 1)) if type_[0] == "s" else "0"


def reducer(scope: Scope, opcode: str, type_: str) -> tuple[str, int]:
    """Return the name of a computation of two scalars, and how much it rounds.

    Some are written in more steps than one, as programs write them.
    """
    lines = [f"a = {type_}[] parameter(0)", f"b = {type_}[] parameter(1)"]
    if scope.chance(4) and opcode in ("maximum", "minimum") and type_ in INTEGERS:
        direction = "GE" if opcode == "maximum" else "LE"
        lines.append(f"c = pred[] compare(a, b), direction={direction}")
        lines.append(f"ROOT d = {type_}[] select(c, a, b)")
    elif scope.chance(4) and opcode == "add" and type_ in INTEGERS:
        lines.append(f"c = {type_}[] negate(b)")
        lines.append(f"ROOT d = {type_}[] subtract(a, c)")
    else:
        lines.append(f"ROOT c = {type_}[] {opcode}(a, b)")
    rounds = opcode in ("add", "multiply") and (is_float(type_) or type_ in COMPLEX)
    return scope.draft.computation("reducer", lines), int(rounds)


def combiner(scope: Scope, type_: str) -> tuple[str, int]:
    """Return a computation that a scatter applies, one update after the other."""
    if scope.chance(3):
        lines = [f"a = {type_}[] parameter(0)", f"b = {type_}[] parameter(1)"]
        lines.append(f"ROOT c = {type_}[] copy(b)")
        return scope.draft.computation("assigner", lines), 0
    return reducer(scope, scope.random.choice(reducers_of(type_)), type_)


def pair_combiner(scope: Scope, type_: str) -> tuple[str, int, tuple[str, str]]:
    """Return a computation of two pairs of scalars, its rounding, and its two operations."""
    lines = [f"{name} = {type_}[] parameter({i})" for i, name in enumerate("abcd")]
    first, second = (scope.random.choice(reducers_of(type_)) for _ in range(2))
    lines += [f"e = {type_}[] {first}(a, c)", f"f = {type_}[] {second}(b, d)"]
    lines.append(f"ROOT g = ({type_}[], {type_}[]) tuple(e, f)")
    rounds = {first, second} & {"add"} and (is_float(type_) or type_ in COMPLEX)
    return scope.draft.computation("combiner", lines), int(bool(rounds)), (first, second)


def arg_reducer(scope: Scope, type_: str, direction: str) -> str:
    """Return a computation that keeps the greater or lesser of two pairs, the first of equals."""
    strict = {"GE": "GT", "LE": "LT"}[direction]
    lines = [
        f"a = {type_}[] parameter(0)",
        "i = s32[] parameter(1)",
        f"b = {type_}[] parameter(2)",
        "j = s32[] parameter(3)",
        f"better = pred[] compare(a, b), direction={strict}",
        "equal = pred[] compare(a, b), direction=EQ",
        "first = pred[] compare(i, j), direction=LE",
        "both = pred[] and(equal, first)",
        "keep = pred[] or(better, both)",
        f"c = {type_}[] select(keep, a, b)",
        "k = s32[] select(keep, i, j)",
        f"ROOT r = ({type_}[], s32[]) tuple(c, k)",
    ]
    return scope.draft.computation("best", lines)


def _by_two(types: list[str], direction: str) -> list[str]:
    """The lines of an order by two keys, the second where the first are equal."""
    return [
        "equal = pred[] compare(a0, b0), direction=EQ",
        f"first = pred[] compare(a0, b0), direction={direction}",
        f"second = pred[] compare(a1, b1), direction={direction}",
        "ROOT r = pred[] select(equal, second, first)",
    ]


def _as_jax(type_: str, direction: str) -> list[str]:
    """The lines of the total order of floats in which zeros are equal, and all NaN."""
    lines = [f"zero = {type_}[] constant(0)", f"none = {type_}[] constant(nan)"]
    for x in "ab":
        lines += [
            f"{x}z = pred[] compare({x}0, zero), direction=EQ",
            f"{x}1z = {type_}[] select({x}z, zero, {x}0)",
            f"{x}n = pred[] compare({x}0, {x}0), direction=NE",
            f"{x}1n = {type_}[] select({x}n, none, {x}1z)",
        ]
    return [*lines, f"ROOT r = pred[] compare(a1n, b1n), direction={direction}, type=TOTALORDER"]


def comparator(scope: Scope, types: list[str], direction: str) -> str:
    """Return a computation that orders scalars of some types by the first."""
    names = []
    for number, type_ in enumerate(types):
        names += [f"a{number} = {type_}[] parameter({2 * number})"]
        names += [f"b{number} = {type_}[] parameter({2 * number + 1})"]
    if len(types) > 1 and types[1] not in (*COMPLEX, *F8) and scope.chance(3):
        return scope.draft.computation("order", [*names, *_by_two(types, direction)])
    if types[0] in FLOATS and scope.chance(3):
        return scope.draft.computation("order", [*names, *_as_jax(types[0], direction)])
    order = ", type=TOTALORDER" if types[0] in FLOATS and scope.chance(2) else ""
    lines = [*names, f"ROOT r = pred[] compare(a0, b0), direction={direction}{order}"]
    if scope.chance(4) and types[0] != "pred" and types[0][0] != "u":
        lines[-1:] = [
            f"an = {types[0]}[] negate(a0)",
            f"bn = {types[0]}[] negate(b0)",
            f"ROOT r = pred[] compare(an, bn), direction={direction}{order}",
        ]
    return scope.draft.computation("order", lines)
