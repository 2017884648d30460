"""Counters of innermost loops with calls, which LLVM's loop strength reduction looks at no further.

Such a loop goes from tile to tile of a product: its counter gives the addresses that the calls are
given. Strength reduction tries forms of all of them together, for some instructions less beside a
call that takes hundreds. LLVM has no attribute that leaves it out for a function; but of a counter
that passes through an empty piece of assembly it does not know that it counts, and leaves the loop
as written. That is no instruction for the processor.
"""

from __future__ import annotations

import re
from typing import Final

_LATCH: Final = re.compile(
    r"\n  (?P<next>%v\.\d+) = (?P<sum>add nsw i64 %i\.\d+, [^\n]+)"
    r"(?P<rest>(?:\n  (?P<again>%v\.\d+) = icmp slt i64 (?P=next), [^\n]+"
    r"\n  br i1 (?P=again), label|\n  br label) %(?P<head>head\.\d+)[,\n])"
)
"""The end of an iteration of a loop with a counter, as `Function.loop` writes it."""

_CALL: Final = re.compile(r"\n  call void @(?!llvm\.)")
"""A call of another function."""


def with_open_counters(text: str) -> str:
    """Return a module in which the counters of innermost loops that call functions are open.

    An outer loop stays as it is, since strength reduction leaves such loops alone.
    """
    parts, done = list[str](), 0
    for latch in _LATCH.finditer(text):
        end = latch.start()
        start = text.rfind("\nhead.", done, end)
        is_innermost = text.startswith(f"\n{latch['head']}:", start)
        if not is_innermost or not _CALL.search(text, start, end):
            continue
        counter = latch["next"]
        opened = f'  {counter} = call i64 asm "", "=r,0"(i64 {counter}.closed)'
        parts.append(f"{text[done:end]}\n  {counter}.closed = {latch['sum']}\n{opened}")
        done = latch.start("rest")
    return "".join([*parts, text[done:]]) if parts else text
