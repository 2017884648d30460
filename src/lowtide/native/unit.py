"""Units of native code: the functions that other code calls, and all that these call.

What a unit is kept by needs no compiler: the text of the modules that it comes from, and the values
of the numbers that they see.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator, Sequence
from enum import EnumMeta
from types import ModuleType
from typing import Any, Final

from lowtide.native.frozen import Record
from lowtide.native.functions import External, NativeFunction, SharedRecord, source_of
from lowtide.native.records import NativeRecord

_COMPILER: Final = (
    *("records", "frozen", "functions", "kinds", "scope", "writer"),
    *("values", "arithmetic", "calls", "primitives", "lowering", "module"),
)
"""The files of this room that decide about machine code."""


class NativeUnit:
    """Functions that are compiled together; only those that are `exported` are seen outside.

    `linkage` is how, in LLVM's words: "weak hidden ", or "ptx_kernel " for a kernel of a device.
    """

    def __init__(
        self, name: str, exported: Sequence[NativeFunction[..., Any]], linkage: str = ""
    ) -> None:
        self.name = name
        self.exported = tuple(exported)
        self.linkage = linkage

    @property
    def names(self) -> list[str]:
        """The symbols of what is exported."""
        return [x.name for x in self.exported]

    @property
    def sources(self) -> str:
        """A digest of what decides about the text: of each module its source, and its numbers."""
        parts = [",".join(self.names).encode()]
        parts += [source_of(__name__, f"{name}.py") for name in _COMPILER]
        for module in self._modules():
            parts.append(source_of(module.__name__))
            parts.append(repr(sorted(_numbers(module))).encode())
        return hashlib.sha256(b"\0".join(parts)).hexdigest()

    def _modules(self) -> list[ModuleType]:
        """The modules in which its functions and records are defined."""
        found = dict.fromkeys([x.__module__ for x in self.exported])
        waiting = list(found)
        while waiting:
            module = sys.modules[waiting.pop()]
            for value in vars(module).values():
                if _is_native(value) and value.__module__ not in found:
                    found[value.__module__] = None
                    waiting.append(value.__module__)
        return [sys.modules[x] for x in sorted(found)]

    def text(self, triple: str) -> str:
        """Return the module in LLVM's textual IR; raises NativeError."""
        from lowtide.native.module import module_text  # What a cache has needs no compiler.

        return module_text(self.exported, triple, self.linkage)


def _is_native(value: object) -> bool:
    if isinstance(value, type):
        return issubclass(value, NativeRecord | Record) and value not in (NativeRecord, Record)
    return isinstance(value, NativeFunction | External | SharedRecord)


def _numbers(module: ModuleType) -> Iterator[tuple[str, Any]]:
    for name, value in vars(module).items():
        if isinstance(value, int | float | bytes):
            yield name, value
        elif isinstance(value, EnumMeta):
            members: dict[str, Any] = dict(value.__members__)
            yield name, [(x, y.value) for x, y in members.items()]
