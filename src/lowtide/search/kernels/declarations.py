"""Declarations of an LLVM module of kernels: functions, and structures of records."""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir

from lowtide.search.kernels.kernel import Kernel
from lowtide.search.kernels.records import Kind, Record, kinds_of

INT: Final = ir.IntType(64)
BOOL: Final = ir.IntType(1)
FLOAT: Final = ir.DoubleType()
TYPES: Final[dict[str, ir.Type]] = {
    "int": INT,
    "float": FLOAT,
    "Array": INT.as_pointer(),
    "FloatArray": FLOAT.as_pointer(),
}


class TranslationUnit:
    """A module, with the functions and the structures of records that are declared in it."""

    def __init__(self, kernel: Kernel[..., Any]) -> None:
        self.kernel = kernel
        self.module = ir.Module(name=kernel.name, context=ir.Context())
        self.functions: dict[str, tuple[Kernel[..., Any], ir.Function]] = {}
        self.records: dict[str, type[Record]] = {}
        self.waiting: list[Kernel[..., Any]] = []
        self.function(kernel)

    def function(self, callee: Kernel[..., Any]) -> ir.Function:
        """Return the function of a kernel, declared when it is first asked for."""
        if callee.name in self.functions:
            known, function = self.functions[callee.name]
            if known is not callee:
                raise self.kernel.error(callee.tree, f"two kernels have the name {callee.name}")
            return function
        signature = callee.signature
        parameters = [self.parameter(kind) for _, kind in signature.parameters]
        shape = ir.FunctionType(TYPES[signature.result], parameters)
        function = ir.Function(self.module, shape, callee.name)
        if callee is not self.kernel:
            function.linkage = "internal"
        self.waiting.append(callee)
        self.functions[callee.name] = callee, function
        return function

    def parameter(self, kind: Kind) -> ir.Type:
        """Return the type of an argument: of a record, the address of its words."""
        return TYPES[kind] if isinstance(kind, str) else self.structure(kind).as_pointer()

    def structure(self, record: type[Record]) -> ir.Type:
        """Return the type of a record's words, with those of records within it in their place."""
        name = f"{record.__module__}.{record.__qualname__}"
        found = self.module.context.get_identified_type(name)
        if name not in self.records:
            self.records[name] = record
            kinds = kinds_of(record).values()
            found.set_body(*[TYPES[x] if isinstance(x, str) else self.structure(x) for x in kinds])
        return found

    def record_at(self, pointer: ir.Type) -> type[Record] | None:
        """Return the record class whose words a pointer is to, None for any other type."""
        pointee = getattr(pointer, "pointee", None)
        return self.records[pointee.name] if isinstance(pointee, ir.IdentifiedStructType) else None
