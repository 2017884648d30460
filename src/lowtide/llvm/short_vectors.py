"""Accesses under constant masks, as those of the lanes that the masks leave.

LLVM keeps no value in a register that is stored under a mask, and processors do not hand one on
from a masked store to a load. So short arrays are accessed by vectors of their own length.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Final

from lowtide.records.late import late_pattern

_MASK: Final = r"<\d+ x i1> <(?P<mask>i1 (?:true|1)(?:, i1 (?:true|false|1|0))*)>"
_LOAD: Final = late_pattern(
    r"^  (?P<name>\S+) = call <(?P<lanes>\d+) x (?P<type>\w+)> @llvm\.masked\.load\.\S+\("
    rf"ptr (?P<pointer>[^ ,]+), i32 (?P<align>\d+), {_MASK}, <[^>]*> zeroinitializer\)$",
    re.MULTILINE,
)
_STORE: Final = late_pattern(
    r"^  call void @llvm\.masked\.store\.\S+\(<(?P<lanes>\d+) x (?P<type>\w+)> "
    rf"(?P<value>[^ ,]+), ptr (?P<pointer>[^ ,]+), i32 (?P<align>\d+), {_MASK}\)$",
    re.MULTILINE,
)
_GATHER: Final = late_pattern(
    r"^  (?P<name>\S+) = call <(?P<lanes>\d+) x (?P<type>\w+)> @llvm\.masked\.gather\.\S+\("
    rf"<[^>]*> (?P<pointer>[^ ,]+), i32 (?P<align>\d+), {_MASK}, <[^>]*> zeroinitializer\)$",
    re.MULTILINE,
)

_MOST_GATHERED: Final = 8
"""The most lanes of a gather that single loads replace."""


def with_short_vectors(text: str) -> str:
    """Return a module whose accesses under masks of constant first lanes are short vectors."""
    for form, write in _FORMS:
        text = form.sub(partial(_written, write), text)
    return text


def _written(write: Callable[[re.Match[str], int], str], access: re.Match[str]) -> str:
    """The lines instead of an access, itself where the mask is not one of some first lanes."""
    lanes = [x in ("i1 true", "i1 1") for x in access["mask"].split(", ")]
    count = sum(lanes)
    if not all(lanes[:count]):
        return access[0]
    return write(access, count) or access[0]


def _load(access: re.Match[str], count: int) -> str:
    name, type_, lanes = access["name"], access["type"], int(access["lanes"])
    if count == 1:  # LLVM 22 stops the process on some vectors of one lane.
        return (
            f"  {name}.short = load {type_}, ptr {access['pointer']}, align {access['align']}\n"
            f"  {name} = insertelement <{lanes} x {type_}> zeroinitializer, "
            f"{type_} {name}.short, i64 0"
        )
    short = f"<{count} x {type_}>"
    order = ", ".join([f"i32 {min(x, count)}" for x in range(lanes)])
    return (
        f"  {name}.short = load {short}, ptr {access['pointer']}, align {access['align']}\n"
        f"  {name} = shufflevector {short} {name}.short, {short} zeroinitializer, "
        f"<{lanes} x i32> <{order}>"
    )


def _store(access: re.Match[str], count: int) -> str:
    value, whole = access["value"], f"<{access['lanes']} x {access['type']}>"
    short = f"<{count} x {access['type']}>"
    order = ", ".join([f"i32 {x}" for x in range(count)])
    name = f"%short.{access.start()}"
    return (
        f"  {name} = shufflevector {whole} {value}, {whole} poison, <{count} x i32> <{order}>\n"
        f"  store {short} {name}, ptr {access['pointer']}, align {access['align']}"
    )


def _gather(access: re.Match[str], count: int) -> str:
    """Single loads, where there are few; else nothing."""
    if count > _MOST_GATHERED:
        return ""
    name, type_, lanes = access["name"], access["type"], access["lanes"]
    lines, before = [], "zeroinitializer"
    for lane in range(count):
        now = name if lane == count - 1 else f"{name}.with{lane}"
        lines += [
            f"  {name}.at{lane} = extractelement <{lanes} x ptr> {access['pointer']}, i64 {lane}",
            f"  {name}.of{lane} = load {type_}, ptr {name}.at{lane}, align {access['align']}",
            f"  {now} = insertelement <{lanes} x {type_}> {before}, {type_} {name}.of{lane}, "
            f"i64 {lane}",
        ]
        before = now
    return "\n".join(lines)


_FORMS: Final = ((_LOAD, _load), (_STORE, _store), (_GATHER, _gather))
