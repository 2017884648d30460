"""Changes of a module's text that keep it a module, mostly."""

from __future__ import annotations

import re
from random import Random
from typing import Final

from tests.hunting.arrays import PLAIN, TYPES

_LAYOUT = re.compile(r"(?<=\])\{(\d+(?:,\d+)+)\}")
_KINDS: Final = ("kLoop", "kInput", "kOutput", "kCustom")


def mutated(text: str, random: Random) -> str:
    """Return the text with one or two changes; it may be no valid module."""
    for _ in range(random.randint(1, 2)):
        text = random.choice(_CHANGES)(text, random)
    return text


def _relaid(text: str, random: Random) -> str:
    """Some shapes with another order of dimensions in memory; a bitcast may then mean no more."""
    if " bitcast(" in text:
        return text

    def drawn(match: re.Match[str]) -> str:
        if random.randrange(6):
            return match.group(0)
        order = match.group(1).split(",")
        random.shuffle(order)
        return f"{{{','.join(order)}}}"

    return _LAYOUT.sub(drawn, text)


def _retyped(text: str, random: Random) -> str:
    present = [t for t in TYPES if re.search(rf"\b{t}\[", text)]
    if not present:
        return text
    old, new = random.choice(present), random.choice(PLAIN)
    return re.sub(rf"\b{old}\[", f"{new}[", text)


def _rescheduled(text: str, random: Random) -> str:
    if ", is_scheduled=true" in text:
        return text.replace(", is_scheduled=true", "", 1)
    head, line, rest = text.partition("\n")
    return f"{head}, is_scheduled=true{line}{rest}"


def _other_kinds(text: str, random: Random) -> str:
    return re.sub(r"\bk(Loop|Input|Output|Custom)\b", lambda _: random.choice(_KINDS), text)


def _without_copies(text: str, random: Random) -> str:
    return text.replace(" copy(", " negate(") if random.randrange(2) else text


_CHANGES: Final = (_relaid, _relaid, _retyped, _rescheduled, _other_kinds, _without_copies)
