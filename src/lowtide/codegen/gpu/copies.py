"""Copies of 16 bytes from an array to shared memory that go on while a thread does other things."""

from __future__ import annotations

from typing import Final

from lowtide.codegen.arrays import Array
from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elements.values import Mask
from lowtide.codegen.gpu.vectors import ThreadMemory
from lowtide.codegen.indexing import Affine
from lowtide.codegen.value import Value
from lowtide.llvm.callee import external
from lowtide.llvm.function import Function

BYTES: Final = 16
"""How many bytes one copies, from a multiple of them to another one."""

_SHARED, _GLOBAL = "ptr addrspace(3)", "ptr addrspace(1)"
_NAME: Final = "llvm.nvvm.cp.async.cg.shared.global.16"
_COPY: Final = external(_NAME, "void", _SHARED, _GLOBAL)
_COPY_PART: Final = external(f"{_NAME}.s", "void", _SHARED, _GLOBAL, "i32")
"""The second copies as many bytes as it is told, and fills the rest with zeros."""

_COMMIT: Final = external("llvm.nvvm.cp.async.commit.group", "void")
_WAIT: Final = external("llvm.nvvm.cp.async.wait.group", "void", "i32 immarg")


def commit_copies(fn: Function) -> None:
    """Make a group of the copies that the thread began since the last one."""
    fn.call(_COMMIT, [])


def wait_for_copies(fn: Function, pending: int) -> None:
    """Wait until at most `pending` groups of the thread's copies go on, the last ones."""
    fn.call(_WAIT, [pending])


class CopyingMemory(ThreadMemory):
    """Loads of lanes that are copies to an address in shared memory; zeros go there for a mask."""

    def __init__(self, to: str) -> None:
        super().__init__()
        self.to = to

    def load(self, elements: Elements, array: Array, place: Affine, mask: Mask | None) -> Value:
        """Write the copy of what the lanes would load; its value is none."""
        fn = elements.function
        assert place.varies and (mask is None or not mask.lanes)
        pointer = elements.address(array, place)
        size = ""
        if mask is not None:
            pointer = fn.select(mask.name, "ptr", pointer, array.pointer)
            size = fn.select(mask.name, "i32", BYTES, 0)
        source = fn.op(f"addrspacecast ptr {pointer} to {_GLOBAL}")
        fn.call(_COPY_PART, [self.to, source, size]) if size else fn.call(_COPY, [self.to, source])
        return Value(("poison",), array.shape.element_type, elements.lanes)
