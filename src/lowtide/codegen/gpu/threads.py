"""Threads of a graphics processor: their numbers, barriers, and what they keep in common."""

from __future__ import annotations

from typing import Final

from lowtide.llvm.callee import external
from lowtide.llvm.function import Function, Integer

WARP: Final = 32
"""Threads that run in step."""

_REGISTERS: Final = "llvm.nvvm.read.ptx.sreg"
_BARRIER: Final = external("llvm.nvvm.barrier.cta.sync.aligned.all", "void", "i32")
_SHUFFLE: Final = external("llvm.nvvm.shfl.sync.bfly.i32", "i32", "i32", "i32", "i32", "i32")
_WARP_BARRIER: Final = external("llvm.nvvm.bar.warp.sync", "void", "i32")
_ALL: Final = -1
_MANY: Final = 1 << 31
_LAST_LANE: Final = 31


def thread_in_block(fn: Function) -> str:
    """Return the number of the thread in its block, an i64."""
    return _register(fn, "tid.x")


def block_number(fn: Function) -> str:
    """Return the number of the block, an i64."""
    return _register(fn, "ctaid.x")


def thread_number(fn: Function, threads: int, count: int = _MANY) -> Integer:
    """Return the number of the thread among all, for blocks of so many threads.

    Where about `count` are launched, and these are not too many, it is known to have 32 bits, and
    what it is divided into is cheaper.
    """
    if count + threads < _MANY:
        block = fn.call(external(f"{_REGISTERS}.ctaid.x", "i32"), [])
        thread = fn.call(external(f"{_REGISTERS}.tid.x", "i32"), [])
        first = fn.op(f"mul nuw nsw i32 {block}, {threads}")
        return fn.op(f"zext i32 {fn.op(f'add nuw nsw i32 {first}, {thread}')} to i64")
    return fn.add(fn.mul(block_number(fn), threads), thread_in_block(fn))


def _register(fn: Function, name: str) -> str:
    found = fn.call(external(f"{_REGISTERS}.{name}", "i32"), [])
    return fn.op(f"zext i32 {found} to i64")


def barrier(fn: Function) -> None:
    """Wait for all threads of the block; what they stored before is seen after."""
    fn.call(_BARRIER, [0])


def warp_barrier(fn: Function) -> None:
    """Wait for all threads of the warp; what they loaded before is not changed by what follows."""
    fn.call(_WARP_BARRIER, [_ALL])


def exchanged(fn: Function, type_: str, name: str, distance: int) -> str:
    """Return the value that a thread has whose number in the warp differs by the bit `distance`.

    `type_` is an integer type, float or double. All threads of the warp take part.
    """
    bits = _bits(type_)
    raw = name if type_ == f"i{bits}" else fn.op(f"bitcast {type_} {name} to i{bits}")
    if bits < 32:
        wide = _moved(fn, fn.op(f"zext i{bits} {raw} to i32"), distance)
        found = fn.op(f"trunc i32 {wide} to i{bits}")
    elif bits == 32:
        found = _moved(fn, raw, distance)
    else:
        low = _moved(fn, fn.op(f"trunc i64 {raw} to i32"), distance)
        high = fn.op(f"trunc i64 {fn.op(f'lshr i64 {raw}, 32')} to i32")
        high = _moved(fn, high, distance)
        wide = fn.op(f"shl i64 {fn.op(f'zext i32 {high} to i64')}, 32")
        found = fn.op(f"or i64 {wide}, {fn.op(f'zext i32 {low} to i64')}")
    return found if type_ == f"i{bits}" else fn.op(f"bitcast i{bits} {found} to {type_}")


def _moved(fn: Function, name: str, distance: int) -> str:
    return fn.call(_SHUFFLE, [_ALL, name, distance, _LAST_LANE])


def _bits(type_: str) -> int:
    return {"float": 32, "double": 64}.get(type_) or int(type_[1:])


class SharedArray:
    """An array of `count` elements of an LLVM type that the threads of a block have in common."""

    def __init__(self, name: str, type_: str, count: int) -> None:
        self.name = name
        self.type = type_
        self.count = count

    @property
    def definition(self) -> str:
        """The line that the module needs."""
        array = f"[{self.count} x {self.type}]"
        return f"@{self.name} = internal addrspace(3) global {array} poison, align 16"

    @property
    def pointer(self) -> str:
        """The address of the array with its type."""
        return f"ptr addrspace(3) @{self.name}"

    def address(self, fn: Function, place: Integer) -> str:
        """Return the address of an element, a pointer to shared memory."""
        return fn.op(f"getelementptr inbounds {self.type}, {self.pointer}, i64 {place}")

    def load(self, fn: Function, place: Integer, type_: str = "", align: int = 0) -> str:
        """Load an element, or a value of another type that begins there."""
        whole = type_ or self.type
        align = align or element_align(self.type)
        return fn.op(f"load {whole}, ptr addrspace(3) {self.address(fn, place)}, align {align}")

    def store(self, fn: Function, place: Integer, value: str, count: int = 1) -> None:
        """Store an element, or a vector of `count`, whose address is a multiple of its bytes."""
        align = element_align(self.type) * count
        type_ = self.type if count == 1 else f"<{count} x {self.type}>"
        to = f"ptr addrspace(3) {self.address(fn, place)}"
        fn.do(f"store {type_} {value}, {to}, align {align}")

    @property
    def zero(self) -> str:
        """An element that is 0."""
        return "0.0" if self.type in ("half", "float", "double") else "0"


class LaunchedArray(SharedArray):
    """An array whose bytes a launch asks for, from a multiple of 1,024 on; a kernel has one."""

    @property
    def definition(self) -> str:
        """The line that the module needs."""
        return f"@{self.name} = external addrspace(3) global [0 x {self.type}], align 1024"


def element_align(type_: str) -> int:
    """Return the bytes of an element of an LLVM type, which its address is a multiple of."""
    return max(_bits("i16" if type_ == "half" else type_) // 8, 1)
