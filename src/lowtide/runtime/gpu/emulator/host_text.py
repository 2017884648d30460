"""Kernels of a graphics processor as functions of the host.

Their text stays as it is but for address spaces, and for the intrinsics of the device, which become
functions. These read which thread runs from `@gpu_state`, and hand over to the scheduler
(`blocks.py`) where a thread has to wait for others.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from lowtide.ir.thunk import LaunchedKernel
from lowtide.llvm.ptx import joined, without_prefetches
from lowtide.runtime.gpu.emulator.number_text import NUMBERS
from lowtide.runtime.gpu.emulator.shadow_text import WatchedFault, watch_support
from lowtide.runtime.gpu.emulator.state import SLOTS, StateField, Wait, field
from lowtide.runtime.gpu.emulator.watching import watched

WAITING: Final = (
    "llvm.nvvm.barrier.cta.sync.aligned.all",
    "llvm.nvvm.shfl.sync.bfly.i32",
    "llvm.nvvm.bar.warp.sync",
    "llvm.nvvm.mma.m16n8k16.row.col.bf16",
    "llvm.nvvm.mma.m16n8k16.row.col.f32.f32",
    "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.b16.p3",
    "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.trans.b16.p3",
)
"""Intrinsics in which threads wait for each other."""

_FLOATS: Final = "{ float, float, float, float }"


_SUPPORT: Final = f"""
@gpu_state = internal global [{len(StateField)} x i64] zeroinitializer
declare i32 @swapcontext(ptr, ptr)
define ptr @gpu_state_address() {{
  ret ptr @gpu_state
}}
define internal i32 @gpu_thread() {{
  %t = load i32, ptr {field(StateField.THREAD)}
  ret i32 %t
}}
define internal i32 @gpu_block() {{
  %t = load i32, ptr {field(StateField.BLOCK)}
  ret i32 %t
}}
define internal void @gpu_wait(i64 %kind) noinline {{
  store i64 %kind, ptr {field(StateField.WAITS_FOR)}
  %fiber = load ptr, ptr {field(StateField.FIBER)}
  %scheduler = load ptr, ptr {field(StateField.SCHEDULER)}
  %ok = call i32 @swapcontext(ptr %fiber, ptr %scheduler)
  ret void
}}
define internal void @gpu_barrier(i32 %number) noinline {{
  call void @gpu_wait(i64 {int(Wait.BARRIER)})
  ret void
}}
define internal ptr @gpu_lane() {{
  %t = load i64, ptr {field(StateField.THREAD)}
  %lanes = load ptr, ptr {field(StateField.LANES)}
  %place = mul i64 %t, {SLOTS}
  %lane = getelementptr i32, ptr %lanes, i64 %place
  ret ptr %lane
}}
define internal i32 @gpu_exchange(i32 %all, i32 %value, i32 %distance, i32 %last) noinline {{
  %lane = call ptr @gpu_lane()
  %second = getelementptr i32, ptr %lane, i64 1
  store i32 %value, ptr %lane
  store i32 %distance, ptr %second
  call void @gpu_wait(i64 {int(Wait.EXCHANGE)})
  %found = load i32, ptr %lane
  ret i32 %found
}}
define internal void @gpu_warp_barrier(i32 %all) noinline {{
  %same = call i32 @gpu_exchange(i32 %all, i32 0, i32 0, i32 31)
  ret void
}}
define internal void @gpu_note(ptr %at, i64 %nbytes, i64 %is_write, i64 %align) {{
  %address = ptrtoint ptr %at to i64
  %low = sub i64 %align, 1
  %rest = and i64 %address, %low
  %crooked = icmp ne i64 %rest, 0
  br i1 %crooked, label %fault, label %log
fault:
  call void @gpu_fault(i64 {int(WatchedFault.MISALIGNED)}, i64 %address, i64 %align)
  br label %log
log:
  %count = load i64, ptr {field(StateField.LOGGED)}
  %next = add i64 %count, 1
  store i64 %next, ptr {field(StateField.LOGGED)}
  %most = load i64, ptr {field(StateField.CAPACITY)}
  %fits = icmp ult i64 %count, %most
  br i1 %fits, label %note, label %done
note:
  %log.at = load ptr, ptr {field(StateField.LOG)}
  %entry = getelementptr [2 x i64], ptr %log.at, i64 %count
  %second = getelementptr i64, ptr %entry, i64 1
  %t = load i64, ptr {field(StateField.THREAD)}
  %thread = shl i64 %t, 16
  %bytes = shl i64 %nbytes, 1
  %with = or i64 %thread, %bytes
  %what = or i64 %with, %is_write
  store ptr %at, ptr %entry
  store i64 %what, ptr %second
  br label %done
done:
  ret void
}}
define void @gpu_run(ptr %entry, i64 %blocks, i64 %threads) {{
start:
  br label %block
block:
  %b = phi i64 [ 0, %start ], [ %b.next, %after ]
  store i64 %b, ptr {field(StateField.BLOCK)}
  br label %thread
thread:
  %t = phi i64 [ 0, %block ], [ %t.next, %thread ]
  store i64 %t, ptr {field(StateField.THREAD)}
  call void %entry()
  %t.next = add i64 %t, 1
  %t.more = icmp ult i64 %t.next, %threads
  br i1 %t.more, label %thread, label %after
after:
  %b.next = add i64 %b, 1
  %b.more = icmp ult i64 %b.next, %blocks
  br i1 %b.more, label %block, label %end
end:
  ret void
}}
"""

_PRODUCT: Final = """
define internal {floats} @{name}({parameters}) noinline {{
  %lane = call ptr @gpu_lane()
{stores}
  call void @gpu_wait(i64 {kind})
{loads}
  ret {floats} %s3
}}
"""


def _product(name: str, word: str, kind: Wait) -> str:
    """The product of a warp: six operands and four sums of each lane, of which the sums return."""
    types = [word] * 6 + ["float"] * 4
    places = [f"  %p{i} = getelementptr i32, ptr %lane, i64 {i}" for i in range(SLOTS)]
    stores = [f"  store {type_} %x{i}, ptr %p{i}" for i, type_ in enumerate(types)]
    loads = []
    for i in range(4):
        before = f"%s{i - 1}" if i else "poison"
        loads.append(f"  %r{i} = load float, ptr %p{6 + i}")
        loads.append(f"  %s{i} = insertvalue {_FLOATS} {before}, float %r{i}, {i}")
    return _PRODUCT.format(
        floats=_FLOATS,
        name=name,
        parameters=", ".join([f"{type_} %x{i}" for i, type_ in enumerate(types)]),
        stores="\n".join([*places, *stores]),
        loads="\n".join(loads),
        kind=int(kind),
    )


_MATRICES: Final = """
define internal {{ i32, i32, i32, i32 }} @{name}(ptr %at) noinline {{
  call void @gpu_note(ptr %at, i64 16, i64 0, i64 16)
  %lane = call ptr @gpu_lane()
  %row = load <4 x i32>, ptr %at, align 1
  store <4 x i32> %row, ptr %lane, align 4
  call void @gpu_wait(i64 {kind})
  %words = load {{ i32, i32, i32, i32 }}, ptr %lane, align 4
  ret {{ i32, i32, i32, i32 }} %words
}}
"""
"""A load of four matrices by a warp: each lane takes a row of one, and is given words of each."""

_FUNCTIONS: Final = {
    "llvm.nvvm.ex2.approx.f": "gpu_power_of_two",
    "llvm.nvvm.ff2bf16x2.rn": "gpu_bfloats",
    "llvm.nvvm.read.ptx.sreg.tid.x": "gpu_thread",
    "llvm.nvvm.read.ptx.sreg.ctaid.x": "gpu_block",
    "llvm.nvvm.barrier.cta.sync.aligned.all": "gpu_barrier",
    "llvm.nvvm.shfl.sync.bfly.i32": "gpu_exchange",
    "llvm.nvvm.bar.warp.sync": "gpu_warp_barrier",
    "llvm.nvvm.mma.m16n8k16.row.col.bf16": "gpu_product_bf16",
    "llvm.nvvm.mma.m16n8k16.row.col.f32.f32": "gpu_product_f16",
    "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.b16.p3": "gpu_matrices",
    "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.trans.b16.p3": "gpu_turned_matrices",
}
"""What stands for each intrinsic of the device."""

_PRODUCTS: Final = (
    ("gpu_product_bf16", "i32", Wait.BFLOAT_PRODUCT),
    ("gpu_product_f16", "<2 x half>", Wait.HALF_PRODUCT),
)
"""The functions that stand for products, a pair of numbers of their operands, and the wait."""

_LOADS: Final = (
    ("gpu_matrices", Wait.MATRICES),
    ("gpu_turned_matrices", Wait.TURNED_MATRICES),
)

"""The functions that stand for loads of matrices, and the wait."""

_DECLARED: Final = re.compile(r"^declare .*@llvm\.nvvm\..*\n", re.MULTILINE)
_INTRINSIC: Final = re.compile(r"@(llvm\.nvvm\.[\w.]+)")
_SHARED: Final = re.compile(
    r"^  (?:(?P<result>%\S+) = load (?P<loaded>[^,]+)|store (?P<stored><[^>]+>|\w+) [^,]+), "
    r"ptr addrspace\(3\) (?P<pointer>[^ ,]+), align (?P<align>\d+)",
    re.MULTILINE,
)
_SPACE: Final = re.compile(r" addrspace\(\d\)")
_TYPE: Final = re.compile(r"(?:<(\d+) x )?(?:i(\d+)|(half)|(float)|(double))>?")


def host_text(texts: Sequence[str], kernels: Sequence[LaunchedKernel]) -> str:
    """Return a module for the host with all kernels, what they call, and `enter_...` for each.

    `void enter_KERNEL()` calls a kernel with the addresses at `StateField.ARGUMENTS`.
    """
    text = without_prefetches(joined(texts))
    text = watched(_SHARED.sub(_noted, text), type_bytes)
    support = watch_support(text)
    text = _DECLARED.sub("", f"{text}\n")
    text = _INTRINSIC.sub(lambda x: f"@{_FUNCTIONS[x[1]]}", text)
    text = _SPACE.sub("", text).replace("define ptx_kernel ", "define ")
    products = "".join(
        [_product(name, word, kind) for name, word, kind in _PRODUCTS if f"@{name}(" in text]
    )
    loads = [_MATRICES.format(name=x, kind=int(kind)) for x, kind in _LOADS if f"@{x}(" in text]
    entries = [
        _entry(launch.function, kernel.buffers + 1)
        for kernel in kernels
        for launch in kernel.launches
    ]
    return "\n".join([text, _SUPPORT, support, NUMBERS, products, *loads, *dict.fromkeys(entries)])


def _noted(access: re.Match[str]) -> str:
    """An access to shared memory after a note of it."""
    type_ = access["loaded"] or access["stored"]
    note = f"  call void @gpu_note(ptr {access['pointer']}, i64 {type_bytes(type_)}, i64"
    what = int(access["stored"] is not None)
    anywhere = f"{access[0].removesuffix(access['align'])}1"
    return f"{note} {what}, i64 {access['align']})\n{anywhere}"


def type_bytes(type_: str) -> int:
    """Return the bytes of a number or of a vector of numbers in LLVM's IR."""
    if type_ == "ptr":
        return 8
    found = _TYPE.fullmatch(type_)
    assert found is not None, type_
    lanes, bits, is_half, is_float, is_double = found.groups()
    size = int(bits) // 8 if bits else 2 * bool(is_half) + 4 * bool(is_float) + 8 * bool(is_double)
    return int(lanes or 1) * max(size, 1)


def _entry(kernel: str, count: int) -> str:
    """The function that calls a kernel with what lies at `StateField.ARGUMENTS`."""
    lines = [f"  %all = load ptr, ptr {field(StateField.ARGUMENTS)}"]
    for number in range(count):
        lines.append(f"  %p{number} = getelementptr ptr, ptr %all, i64 {number}")
        lines.append(f"  %a{number} = load ptr, ptr %p{number}")
    values = ", ".join([f"ptr %a{number}" for number in range(count)])
    body = "\n".join([*lines, f"  call void @{kernel}({values})", "  ret void"])
    return f"define void @enter_{kernel}() {{\n{body}\n}}\n"


def waiting_kernels(text: str) -> frozenset[str]:
    """Return the functions of a module in whose lines threads wait for each other."""
    found = set()
    name = ""
    for line in text.splitlines():
        if line.startswith("define "):
            name = line.partition("@")[2].partition("(")[0]
        elif any(f"@{x}(" in line for x in WAITING) and not line.startswith("declare "):
            found.add(name)
    return frozenset(found)
