"""Counters of innermost loops that LLVM's loop strength reduction looks at no further.

Kernels compute addresses from the counter of their loops as processors take them: a base, a
multiple of the counter, a fixed part. Strength reduction tries other forms of all of them together,
which takes a fifth of LLVM's time and makes long loops no faster. LLVM has no attribute that leaves
it out for a function; but of a counter that passes through an empty piece of assembly it does not
know that it counts, and leaves its loop as written. That is no instruction for the processor.
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

_SUM: Final = re.compile(r"\n  (%v\.\d+) = add nsw i64 (%[\w.]+), (\d+)(?=\n)")
"""A number beside a value, by a number that is known."""

_MULTIPLE: Final = re.compile(r"\n  (%v\.\d+) = mul nsw i64 (%[\w.]+), (\d+)(?=\n)")


def with_open_counters(text: str, least_lines: int) -> str:
    """Return a module in which the counters of innermost loops of so many lines are open.

    An outer loop stays as it is, since strength reduction leaves such loops alone.
    """
    parts, done = list[str](), 0
    for latch in _LATCH.finditer(text):
        end = latch.start()
        start = text.rfind("\nhead.", done, end)
        is_innermost = text.startswith(f"\n{latch['head']}:", start)
        if not is_innermost or text.count("\n", start, end) < least_lines:
            continue
        counter = latch["next"]
        opened = f'  {counter} = call i64 asm "", "=r,0"(i64 {counter}.closed)'
        parts += [text[done:start], _with_fixed_parts(text[start:end])]
        parts.append(f"\n  {counter}.closed = {latch['sum']}\n{opened}")
        done = latch.start("rest")
    return "".join([*parts, text[done:]]) if parts else text


def _with_fixed_parts(loop: str) -> str:
    """A loop in which multiples of sums are sums of multiples, one part of which is a number.

    That becomes the fixed part of an address, and the multiple is the same for all of them.
    """
    sums = {name: (value, int(number)) for name, value, number in _SUM.findall(loop)}

    def spread(multiple: re.Match[str]) -> str:
        name, of, factor = multiple.groups()
        if of not in sums:
            return multiple[0]
        value, number = sums[of]
        first = f"\n  {name}.part = mul i64 {value}, {factor}"
        return f"{first}\n  {name} = add i64 {name}.part, {number * int(factor)}"

    return _MULTIPLE.sub(spread, loop) if sums else loop
