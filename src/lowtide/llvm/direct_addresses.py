"""Functions that take the addresses of their buffers one by one, in place of a table of them.

A table costs a store where it is filled and a load where it is read, for each call. LLVM removes
both where the call is inlined, which takes it as long as much of what the kernel does.
"""

from __future__ import annotations

import re
from typing import Final

_FUNCTION: Final = re.compile(
    r"^(?P<head>define (?:internal)? void @(?P<name>[\w.]+)\()ptr %buffers, (?P<rest>.*\{)\n"
    r"(?P<body>(?:.*\n)*?)\}$",
    re.MULTILINE,
)

_READ: Final = re.compile(
    r"  (?P<first>%[\w.]+) = load ptr, ptr %buffers, align 8\n"
    r"|  (?P<place>%[\w.]+) = getelementptr inbounds ptr, ptr %buffers, i64 (?P<number>\d+)\n"
    r"  (?P<later>%[\w.]+) = load ptr, ptr (?P=place), align 8\n"
)

_VALUE: Final = re.compile(r"%[\w.]+")


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
