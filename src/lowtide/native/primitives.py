"""From the syntax of a native function to LLVM's textual IR: atomics, and what Python lacks."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, Final

from lowtide.native import functions
from lowtide.native.calls import CallLowering
from lowtide.native.functions import NativeFunction
from lowtide.native.kinds import (
    INT,
    NOTHING,
    AtomicKind,
    Int,
    ItemsKind,
    Kind,
    Reference,
    kind_of_type,
    memory_type,
    record_size,
    value_type,
)
from lowtide.native.records import NativeRecord, Order
from lowtide.native.values import described
from lowtide.native.writer import NONE, NativeValue

FUTEX: Final = {"x86_64": 202, "aarch64": 98}
"""The numbers of the system call."""

FUTEX_WAIT: Final = 128
FUTEX_WAKE: Final = 129
"""Linux's operations on a futex that one process uses."""

_PAUSES: Final = {
    "x86_64": ("@llvm.x86.sse2.pause()", "declare void @llvm.x86.sse2.pause()"),
    "aarch64": ("@llvm.aarch64.isb(i32 15)", "declare void @llvm.aarch64.isb(i32)"),
}

_MXCSR: Final = 0x9FC0, 0x1F80
"""To nearest, without traps: with 0 for denormals, and with denormals."""

_FPCR: Final = 1 << 24, 0
"""The same of AArch64."""

_FAILURES: Final = {
    Order.RELAXED: Order.RELAXED,
    Order.RELEASE: Order.RELAXED,
    Order.ACQUIRE: Order.ACQUIRE,
    Order.ACQ_REL: Order.ACQUIRE,
    Order.SEQ_CST: Order.SEQ_CST,
}
"""The order of a comparison that fails."""

_CHANGES: Final = {"add": "add", "raise_to": "max"}


class Primitives(CallLowering):
    """Atomics and primitives in the body of a function."""

    # -- atomics -------------------------------------------------------------------------------

    def atomic(self, node: ast.Call, method: str, place: NativeValue) -> NativeValue:
        """Write an operation of an atomic; its order is the last argument."""
        assert isinstance(place.kind, AtomicKind)
        kind = place.kind.of
        order = self.static(node.args[-1]) if node.args else None
        if not isinstance(order, Order):
            raise self.error(node, f"expected an order as the last argument of {method}")
        given = [self.cast(self.value(x), kind, x).text for x in node.args[:-1]]
        takes = {"load": 0, "compare_exchange": 2}.get(method, 1)
        if len(given) != takes:
            raise self.error(node, f"{method} takes {takes} arguments and an order")
        if method == "load":
            return self.writer.load(kind, place.text, order.value)
        if method == "store":
            self.writer.store(kind, given[0], place.text, order.value)
            return NONE
        if method == "compare_exchange":
            return self._compare_exchange(kind, place.text, given, order)
        name = _CHANGES.get(method, "xchg" if method == "exchange" else "")
        if not name or (name != "xchg" and not isinstance(kind, Int)):
            raise self.error(node, f"{described(place.kind)} has no {method}")
        what = self.writer.in_memory(kind, given[0])
        found = self.writer.op(f"atomicrmw {name} ptr {place.text}, {what} {order.value}")
        return self.writer.widened(kind, found)

    def _compare_exchange(
        self, kind: Kind, place: str, given: list[str], order: Order
    ) -> NativeValue:
        expected, value = (self.writer.in_memory(kind, x) for x in given)
        orders = f"{order.value} {_FAILURES[order].value}"
        pair = self.writer.op(f"cmpxchg ptr {place}, {expected}, {value} {orders}")
        found = self.writer.op(f"extractvalue {{ {memory_type(kind)}, i1 }} {pair}, 0")
        return self.writer.widened(kind, found)

    # -- primitives ----------------------------------------------------------------------------

    def primitive(self, node: ast.Call, callee: Any) -> NativeValue:
        """Write what a primitive does, or a function of Python's."""
        write = _PRIMITIVES.get(callee)
        if write is None:
            raise self.error(node, f"{ast.unparse(node.func)} is no function of native code")
        return write(self, node)

    def _record(self, node: ast.expr) -> type[NativeRecord]:
        found = self.static(node)
        if not (isinstance(found, type) and issubclass(found, NativeRecord)):
            raise self.error(node, f"{ast.unparse(node)} is no class of records")
        return found

    def _number(self, node: ast.expr) -> str:
        return self.cast(self.value(node), INT, node).text

    def _pointer(self, node: ast.expr) -> str:
        """The address that an expression is, or that it is a pointer to."""
        static = self.static(node)
        if isinstance(static, bytes):
            return self.unit.text(static)
        if isinstance(static, NativeFunction):
            return f"@{self.unit.function(static).name}"
        found = self.value(node)
        if isinstance(found.kind, Int):
            return (
                "null" if found.text == "0" else self.writer.op(f"inttoptr i64 {found.text} to ptr")
            )
        if found != NONE and value_type(found.kind) != "ptr":
            raise self.error(node, "expected an address")
        return found.text

    def _the(self, node: ast.Call) -> NativeValue:
        one = self.static(node.args[0])
        if not isinstance(one, functions.SharedRecord):
            raise self.error(node, "expected a record that `shared` made")
        return NativeValue(Reference(one.record), self.unit.shared(one))

    def _new(self, node: ast.Call) -> NativeValue:
        record = self._record(node.args[0])
        nbytes = str(record_size(record))
        if len(node.args) > 1:
            nbytes = self.writer.op(f"add i64 {self._number(node.args[1])}, {nbytes}")
        self.unit.declare("declare ptr @malloc(i64)")
        return NativeValue(Reference(record), self.writer.op(f"call ptr @malloc(i64 {nbytes})"))

    def _allocate(self, node: ast.Call) -> NativeValue:
        self.unit.declare("declare ptr @malloc(i64)")
        found = self.writer.op(f"call ptr @malloc(i64 {self._number(node.args[0])})")
        return NativeValue(INT, self.writer.op(f"ptrtoint ptr {found} to i64"))

    def _free(self, node: ast.Call) -> NativeValue:
        self.unit.declare("declare void @free(ptr)")
        self.writer.do(f"call void @free(ptr {self._pointer(node.args[0])})")
        return NONE

    def _on_stack(self, node: ast.Call) -> NativeValue:
        record = self._record(node.args[0])
        return NativeValue(Reference(record), self.writer.alloca("i8", record_size(record)))

    def _at(self, node: ast.Call) -> NativeValue:
        return NativeValue(Reference(self._record(node.args[0])), self._pointer(node.args[1]))

    def _array_at(self, node: ast.Call) -> NativeValue:
        kind = kind_of_type(self.static(node.args[0]))
        return NativeValue(ItemsKind(kind), self._pointer(node.args[1]))

    def _behind(self, node: ast.Call) -> NativeValue:
        found = self.value(node.args[0])
        if not isinstance(found.kind, Reference):
            raise self.error(node, "expected a record")
        place = self.writer.move(found.text, record_size(found.kind.record))
        return NativeValue(INT, self.writer.op(f"ptrtoint ptr {place} to i64"))

    def _address_of(self, node: ast.Call) -> NativeValue:
        place = self._pointer(node.args[0])
        return NativeValue(INT, self.writer.op(f"ptrtoint ptr {place} to i64"))

    def _size_of(self, node: ast.Call) -> NativeValue:
        return NativeValue(INT, str(record_size(self._record(node.args[0]))))

    def _copy_bytes(self, node: ast.Call) -> NativeValue:
        self.unit.declare("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
        target, source = (self._pointer(x) for x in node.args[:2])
        count = self._number(node.args[2])
        given = f"ptr {target}, ptr {source}, i64 {count}, i1 false"
        self.writer.do(f"call void @llvm.memcpy.p0.p0.i64({given})")
        return NONE

    def _futex_wait(self, node: ast.Call) -> NativeValue:
        low = self.writer.op(f"and i64 {self._number(node.args[1])}, 4294967295")
        time = self._pointer(node.args[2]) if len(node.args) > 2 else "null"
        return self._futex(node, FUTEX_WAIT, low, time)

    def _futex_wake(self, node: ast.Call) -> NativeValue:
        return self._futex(node, FUTEX_WAKE, self._number(node.args[1]), "null")

    def _futex(self, node: ast.Call, operation: int, number: str, time: str) -> NativeValue:
        word = self.value(node.args[0])
        if not isinstance(word.kind, AtomicKind):
            raise self.error(node, "expected an atomic")
        self.unit.declare("declare i64 @syscall(i64, ...)")
        call = FUTEX[self.unit.architecture]
        given = f"i64 {call}, ptr {word.text}, i64 {operation}, i64 {number}, ptr {time}"
        self.writer.op(f"call i64 (i64, ...) @syscall({given})")
        return NONE

    def _relax(self, node: ast.Call) -> NativeValue:
        call, declaration = _PAUSES[self.unit.architecture]
        self.unit.declare(declaration)
        self.writer.do(f"call void {call}")
        return NONE

    def _round_to_nearest(self, node: ast.Call) -> NativeValue:
        without = self.writer.op(f"icmp ne i64 {self._number(node.args[0])}, 0")
        if self.unit.architecture == "x86_64":
            place = self._mxcsr("st")
            before = self.writer.load(Int(32, signed=False), place).text
            zero, kept = _MXCSR
        else:
            self.unit.declare("declare i64 @llvm.aarch64.get.fpcr()")
            before = self.writer.op("call i64 @llvm.aarch64.get.fpcr()")
            zero, kept = _FPCR
        self._round(self.writer.op(f"select i1 {without}, i64 {zero}, i64 {kept}"))
        return NativeValue(INT, before)

    def _round_as_before(self, node: ast.Call) -> NativeValue:
        self._round(self._number(node.args[0]))
        return NONE

    def _round(self, how: str) -> None:
        """Set the register that says how the thread computes floating point."""
        if self.unit.architecture == "x86_64":
            place = self.writer.alloca("i32")
            self.writer.store(Int(32), how, place)
            self._mxcsr("ld", place)
        else:
            self.unit.declare("declare void @llvm.aarch64.set.fpcr(i64)")
            self.writer.do(f"call void @llvm.aarch64.set.fpcr(i64 {how})")

    def _mxcsr(self, how: str, place: str = "") -> str:
        """Store the register of x86-64 in memory, or load it from there."""
        name = f"@llvm.x86.sse.{how}mxcsr"
        place = place or self.writer.alloca("i32")
        self.unit.declare(f"declare void {name}(ptr)")
        self.writer.do(f"call void {name}(ptr {place})")
        return place

    def _trailing_zeros(self, node: ast.Call) -> NativeValue:
        return self._bits("cttz", self._number(node.args[0]))

    def _leading_zeros(self, node: ast.Call) -> NativeValue:
        return self._bits("ctlz", self._number(node.args[0]))

    def _bits(self, name: str, number: str) -> NativeValue:
        self.unit.declare(f"declare i64 @llvm.{name}.i64(i64, i1)")
        return NativeValue(
            INT, self.writer.op(f"call i64 @llvm.{name}.i64(i64 {number}, i1 false)")
        )

    def _len(self, node: ast.Call) -> NativeValue:
        static = self.static(node.args[0])
        if not isinstance(static, bytes):
            raise self.error(node, "only constant bytes have a length")
        return NativeValue(INT, str(len(static)))


_PRIMITIVES: Final[dict[Any, Callable[[Primitives, ast.Call], NativeValue]]] = {
    **{x: getattr(Primitives, f"_{x.__name__}") for x in functions.PRIMITIVES},
    **{x: getattr(Primitives, f"_{x.__name__}") for x in (min, max, int, float, abs, len)},
}

assert NONE.kind == NOTHING
