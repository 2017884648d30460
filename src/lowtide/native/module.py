"""The text of a unit of native code: its functions, what they declare and what they share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from lowtide.native.functions import External, NativeFunction, SharedRecord
from lowtide.native.kinds import fields_of, llvm_type, memory_type, record_size
from lowtide.native.lowering import function_text
from lowtide.native.records import NativeError, NativeRecord
from lowtide.native.scope import FunctionSource


def module_text(
    exported: Sequence[NativeFunction[..., Any]], triple: str, linkage: str = ""
) -> str:
    """Return a module with some functions and all that they call; raises NativeError.

    `linkage` is said of those that are exported, in LLVM's words.
    """
    module = _Module(triple)
    for function in exported:
        module.function(function)
    names = {x.name for x in exported}
    texts = []
    while module.waiting:
        scope = module.waiting.pop(0)
        texts.append(function_text(scope, module, linkage if scope.name in names else "internal "))
    return "\n".join([*module.declared, *module.constants.values(), *module.records(), *texts])


class _Module:
    def __init__(self, triple: str) -> None:
        self.architecture = triple.partition("-")[0]
        self.waiting: list[FunctionSource] = []
        self.declared: dict[str, None] = {}
        self.constants: dict[bytes, str] = {}
        self._functions: dict[str, tuple[Any, FunctionSource]] = {}
        self._shared: dict[str, SharedRecord[Any]] = {}

    def function(self, callee: NativeFunction[..., Any] | External[..., Any]) -> FunctionSource:
        known = self._functions.get(callee.name)
        if known is not None:
            if known[0] is not callee:
                raise NativeError(f"two native functions have the name {callee.name}")
            return known[1]
        scope = FunctionSource(callee)
        self._functions[callee.name] = callee, scope
        if isinstance(callee, NativeFunction):
            self.waiting.append(scope)
        else:
            kinds = [llvm_type(kind) for _, kind in scope.signature.parameters]
            given = [*kinds[: callee.fixed], *([] if callee.fixed is None else ["..."])]
            result = llvm_type(scope.signature.result)
            self.declare(f"declare {result} @{callee.name}({', '.join(given)})")
        return scope

    def shared(self, one: SharedRecord[Any]) -> str:
        name = f"the_{one.record.__name__}"
        if self._shared.setdefault(name, one) is not one:
            raise NativeError(f"two shared records are of the class {one.record.__name__}")
        for value in one.values.values():
            if isinstance(value, NativeFunction):
                self.function(value)
        return f"@{name}"

    def text(self, data: bytes) -> str:
        symbol = f"@text{len(self.constants)}"
        if data not in self.constants:
            spelled = "".join([f"\\{x:02x}" for x in data])
            self.constants[data] = f'{symbol} = internal constant [{len(data)} x i8] c"{spelled}"'
        return self.constants[data].partition(" ")[0]

    def declare(self, line: str) -> None:
        self.declared[line] = None

    def records(self) -> list[str]:
        """The definitions of shared records."""
        return [self._record(name, one) for name, one in self._shared.items()]

    def _record(self, name: str, one: SharedRecord[Any]) -> str:
        record: type[NativeRecord] = one.record
        if not one.values:
            nbytes = record_size(record)
            return f"@{name} = internal global [{nbytes} x i8] zeroinitializer, align 8"
        types, values = [], []
        for field, found in fields_of(record).items():
            value = one.values.get(field, 0)
            types.append(memory_type(found.kind))
            if isinstance(value, NativeFunction):
                values.append(f"ptr @{value.name}")
            else:
                values.append(f"{types[-1]} {_ZEROS.get(types[-1], value)}")
        made = f"{{ {', '.join(types)} }} {{ {', '.join(values)} }}"
        return f"@{name} = internal global {made}, align 8"


_ZEROS: Final = {"ptr": "null", "double": "0.0"}
"""What pointers and floats begin with, in LLVM's words."""
