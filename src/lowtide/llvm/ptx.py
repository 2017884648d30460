"""From modules of kernels to PTX, the text that ptxas assembles.

LLVM ends the process where it has no instruction for what a module says: no Python exception comes
of it. So the text is held against lists of what is known to pass before LLVM sees it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Final

from lowtide.llvm.machine import CodeError, KernelCompiler
from lowtide.llvm.merging import take_parts
from lowtide.llvm.target import Target
from lowtide.llvm.warpgroup import with_assembly

_FLOAT: Final = r"(?:v\d+)?f(?:32|64)"
_INTEGER: Final = r"(?:v\d+)?i(?:8|16|32|64)"
_PREDICATE: Final = r"(?:v\d+)?i(?:1|8|16|32|64)"

ALLOWED_INTRINSICS: Final = tuple(
    [
        re.compile(x)
        for x in (
            rf"llvm\.(?:fma|sqrt|fabs|copysign|floor|ceil|trunc|roundeven|round)\.{_FLOAT}",
            rf"llvm\.(?:minimum|maximum|minnum|maxnum)\.{_FLOAT}",
            rf"llvm\.(?:smin|smax|umin|umax|ctpop|fshl|fshr|bswap|bitreverse)\.{_INTEGER}",
            rf"llvm\.(?:abs|ctlz|cttz)\.{_INTEGER}",
            r"llvm\.ctlz\.i128",
            rf"llvm\.fpto[su]i\.sat\.{_INTEGER}\.{_FLOAT}",
            rf"llvm\.vector\.reduce\.(?:add|and|or|xor|smin|smax|umin|umax)\.{_PREDICATE}",
            r"llvm\.masked\.(?:load|store|gather|scatter)\.v\d+(?:i8|i16|i32|i64|f16|f32|f64)"
            r"\.(?:p0|v\d+p0)",
            r"llvm\.(?:memcpy|memmove)\.p0\.p0\.i64",
            r"llvm\.memset\.p0\.i64",
            r"llvm\.nvvm\.read\.ptx\.sreg\.(?:tid|ctaid)\.x",
            r"llvm\.nvvm\.barrier\.cta\.sync\.aligned\.all",
            r"llvm\.nvvm\.(?:ex2\.approx\.f|ff2bf16x2\.rn)",
            r"llvm\.nvvm\.shfl\.sync\.bfly\.i32",
            r"llvm\.nvvm\.bar\.warp\.sync",
            r"llvm\.nvvm\.ldmatrix\.sync\.aligned\.m8n8\.x4(?:\.trans)?\.b16\.p3",
            r"llvm\.nvvm\.cp\.async\.cg\.shared\.global\.16(?:\.s)?",
            r"llvm\.nvvm\.cp\.async\.(?:commit|wait)\.group",
            r"llvm\.nvvm\.mma\.m16n8k16\.row\.col\.(?:bf16|f32\.f32)",
            r"llvm\.nvvm\.mma\.(?:m8n8k4|m16n8k(?:4|8|16))\.row\.col\.f64",
            r"llvm\.nvvm\.mma\.m16n8k32\.row\.col\.[su]8",
        )
    ]
)
"""The intrinsics that LLVM has instructions for, each tried in a process of its own by a test."""

REFUSED_INSTRUCTIONS: Final = ("frem",)
"""Instructions that pass, but round otherwise than their meaning."""

_USED: Final = re.compile(r"@(llvm\.[\w.]+)")
_INSTRUCTION: Final = re.compile(r"^  (?:%[\w.]+ = )?(\w+)", re.MULTILINE)
_PREFETCH: Final = re.compile(r"^(?:  call|declare) void @llvm\.prefetch\.p0\(.*\n", re.MULTILINE)
_LEVEL: Final = 2


class NotForGpuError(CodeError):
    """A module uses what LLVM cannot translate, which is a fault of lowtide."""


def check_for_gpu(text: str) -> None:
    """Raise NotForGpuError for a module on which LLVM would end the process, or compute wrongly."""
    for name in dict.fromkeys(_USED.findall(text)):
        if not any(x.fullmatch(name) for x in ALLOWED_INTRINSICS):
            raise NotForGpuError(f"@{name} is not among the intrinsics that NVPTX is known to have")
    found = set(_INSTRUCTION.findall(text))
    for name in REFUSED_INSTRUCTIONS:
        if name in found:
            raise NotForGpuError(f"NVPTX rounds {name} otherwise than it is meant")


def without_prefetches(text: str) -> str:
    """Return a module without requests to load lines into caches, which NVPTX has none for."""
    return _PREFETCH.sub("", f"{text}\n")


def joined(texts: Sequence[str]) -> str:
    """Return one module with all that is defined in some, whose names are unique."""
    heads: dict[str, None] = {}
    functions: dict[str, None] = {}
    for text in dict.fromkeys(texts):
        take_parts(text, heads, functions)
    return "\n".join([*heads, *functions, ""])


def ptx_of(text: str, target: Target) -> str:
    """Return the PTX of a module; raises CodeError where LLVM refuses it."""
    cleaned = with_assembly(without_prefetches(text))
    check_for_gpu(cleaned)
    return _compiler(target).whole_assembly(cleaned, _LEVEL)


@cache
def _compiler(target: Target) -> KernelCompiler:
    return KernelCompiler(target)
