"""Addresses of buffers: loaded from a table where a function begins, or taken one by one.

A table costs a store where it is filled and a load where it is read, for each call. LLVM removes
both where the call is inlined, which takes it as long as much of what the kernel does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from lowtide.records.late import late_pattern

_FUNCTION: Final = late_pattern(
    r"^(?P<head>define (?:internal)? void @(?P<name>[\w.]+)\()ptr %buffers, (?P<rest>.*\{)\n"
    r"(?P<body>(?:.*\n)*?)\}$",
    re.MULTILINE,
)

_READ: Final = late_pattern(
    r"  (?P<first>%[\w.]+) = load ptr, ptr %buffers, align 8\n"
    r"|  (?P<place>%[\w.]+) = getelementptr inbounds ptr, ptr %buffers, i64 (?P<number>\d+)\n"
    r"  (?P<later>%[\w.]+) = load ptr, ptr (?P=place), align 8\n"
)

_VALUE: Final = late_pattern(r"%[\w.]+")

_BUFFER: Final = late_pattern(r"%buffer\.\d+")


def buffer_pointer(number: int) -> str:
    """Return the name of the address of a buffer, the same in each function."""
    return f"%buffer.{number}"


def buffer_loads(pointers: Mapping[int, str], lines: Sequence[str]) -> list[str]:
    """Return the lines that load those addresses that other lines use, by number of the buffer.

    Functions that do the same with one buffer are equal, however many others there are.
    """
    if not pointers:
        return []
    used = set(_BUFFER.findall("\n".join(lines)))
    found = []
    for number, pointer in sorted(pointers.items()):
        if pointer in used:
            place = "%buffers"
            if number:
                place = f"%place.{number}"
                found.append(f"  {place} = getelementptr inbounds ptr, ptr %buffers, i64 {number}")
            found.append(f"  {pointer} = load ptr, ptr {place}, align 8")
    return found


def with_direct_addresses(text: str) -> tuple[str, dict[str, int]]:
    """Return a module whose functions take addresses directly, and how many each of these takes.

    A function stays as it is where it does more with its table, `%buffers`, than to load each
    address once, at a fixed place, and where another one of the module calls it.
    """
    counts: dict[str, int] = {}

    def rewritten(function: re.Match[str]) -> str:
        name, body = function["name"], function["body"]
        reads = list(_READ.finditer(body))
        found = {int(x["number"] or 0): x["first"] or x["later"] for x in reads}
        rest = _READ.sub("", body)
        gone = {"%buffers", *[x["place"] for x in reads]}
        is_plain = len(found) == len(reads) and gone.isdisjoint(_VALUE.findall(rest))
        if not is_plain or text.count(f"@{name}(") > 1:
            return function[0]
        count = counts[name] = max(found, default=-1) + 1
        taken = [f"ptr {found.get(x, f'%buffers.{x}')}, " for x in range(count)]
        return f"{function['head']}{''.join(taken)}{function['rest']}\n{rest}}}"

    return _FUNCTION.sub(rewritten, text), counts
