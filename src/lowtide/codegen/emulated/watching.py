"""Accesses of kernels for the host, each changed to go through the watch on global memory."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import count
from typing import Final

_PLAIN: Final = re.compile(
    r"^  (?P<head>(?:%\S+ = load |store )(?P<what>.+), ptr )(?P<pointer>%[\w.]+)"
    r"(?P<tail>, align (?P<align>\d+).*)$",
    re.MULTILINE,
)
_MASK: Final = (
    r", i32 (?P<align>\d+), (?P<mask><(?P<lanes>\d+) x i1> (?:%[\w.]+|<[^>]*>|splat \([^)]*\)))"
)
_MASKED: Final = re.compile(
    r"^  (?P<head>(?:%\S+ = )?call (?P<loaded>.+) @llvm\.masked\.(?:load|store)\.\S+\("
    r"(?:(?P<stored><[^>]+>) .+, )?ptr )(?P<pointer>%[\w.]+)(?P<tail>" + _MASK + ".*)$",
    re.MULTILINE,
)
_SPREAD: Final = re.compile(
    r"^  (?:%\S+ = )?call (?P<loaded>.+) @llvm\.masked\.(?:gather|scatter)\.\S+\("
    r"(?:(?P<stored><[^>]+>) .+, )?(?P<pointers><\d+ x ptr> %[\w.]+)" + _MASK + ".*$",
    re.MULTILINE,
)
_CHOSEN: Final = re.compile(
    r"^  (?P<pointer>%\S+) = select i1 (?P<mask>%[\w.]+), ptr %(?!a\d+,)[\w.]+, ptr %a\d+$",
    re.MULTILINE,
)
"""The address of an element under a mask, else that of the first one of an array."""

_FILLED: Final = re.compile(
    r"^  call void @llvm\.memset\.\S+\(ptr (?P<pointer>%[\w.]+), i8 \S+, i64 (?P<count>\S+), .*$",
    re.MULTILINE,
)


def watched(text: str, type_bytes: Callable[[str], int]) -> str:
    """Return a module in which each access to memory that is not shared goes through the watch.

    Where a load outside of its mask reads the first element of an array, and nobody uses it, that
    is none.
    """
    numbers = count()

    def plain(found: re.Match[str]) -> str:
        type_, writes = _type_of(found["what"]), int(found["head"].startswith("store"))
        name = f"%watch.{next(numbers)}"
        if not writes and (mask := masks.get(found["pointer"])):
            bit = f"%watch.{next(numbers)}"
            size = f"i64 {type_bytes(type_)}, i64 1, i64 {bit}, i64 {found['align']}, i64 0"
            note = f"  {name} = call ptr @gpu_lanes(ptr {found['pointer']}, {size})"
            lines = f"  {bit} = zext i1 {mask} to i64\n{note}"
            return f"{lines}\n  {found['head']}{name}{found['tail']}"
        size = f"i64 {type_bytes(type_)}, i64 {found['align']}, i64 {writes}"
        note = f"  {name} = call ptr @gpu_global(ptr {found['pointer']}, {size})"
        return f"{note}\n  {found['head']}{name}{found['tail']}"

    def masked(found: re.Match[str]) -> str:
        lines, bits = mask_bits(found)
        name = f"%watch.{next(numbers)}"
        size = f"i64 {_element_bytes(found, type_bytes)}, i64 {found['lanes']}, i64 {bits}"
        how = f"i64 {found['align']}, i64 {int(found['stored'] is not None)}"
        note = f"  {name} = call ptr @gpu_lanes(ptr {found['pointer']}, {size}, {how})"
        return f"{lines}{note}\n  {found['head']}{name}{found['tail']}"

    def spread(found: re.Match[str]) -> str:
        lines, bits = mask_bits(found)
        size = _element_bytes(found, type_bytes)
        how = f"i64 {found['align']}, i64 {int(found['stored'] is not None)}"
        for lane in range(int(found["lanes"])):
            at, bit, done = [f"%watch.{next(numbers)}" for _ in range(3)]
            lines += f"  {at} = extractelement {found['pointers']}, i64 {lane}\n"
            lines += f"  {bit} = lshr i64 {bits}, {lane}\n"
            call = f"call ptr @gpu_lanes(ptr {at}, i64 {size}, i64 1, i64 {bit}, {how})"
            lines += f"  {done} = {call}\n"
        return f"{lines}{found[0]}"

    def mask_bits(found: re.Match[str]) -> tuple[str, str]:
        """The lines that make a number of a mask, and its name."""
        narrow, wide = [f"%watch.{next(numbers)}" for _ in range(2)]
        type_ = f"i{found['lanes']}"
        lines = f"  {narrow} = bitcast {found['mask']} to {type_}\n"
        return f"{lines}  {wide} = zext {type_} {narrow} to i64\n", wide

    def filled(found: re.Match[str]) -> str:
        name = f"%watch.{next(numbers)}"
        size = f"i64 {found['count']}, i64 1, i64 1"
        return f"  {name} = call ptr @gpu_global(ptr {found['pointer']}, {size})\n{found[0]}"

    text = _FILLED.sub(filled, _SPREAD.sub(spread, _MASKED.sub(masked, text)))
    done = []
    for function in re.split(r"^(?=define )", text, flags=re.MULTILINE):
        masks = {x["pointer"]: x["mask"] for x in _CHOSEN.finditer(function)}
        done.append(_PLAIN.sub(plain, function))
    return "".join(done)


def _type_of(what: str) -> str:
    """The type that a line begins with, of a value or by itself."""
    return what[: what.index(">") + 1] if what.startswith("<") else what.split(" ")[0]


def _element_bytes(found: re.Match[str], type_bytes: Callable[[str], int]) -> int:
    return type_bytes(_type_of(found["stored"] or found["loaded"])) // int(found["lanes"])
