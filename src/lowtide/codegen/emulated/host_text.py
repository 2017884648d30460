"""Kernels of a graphics processor as functions of the host.

Their text stays as it is but for address spaces, and for the intrinsics of the device, which become
functions: native ones of the emulator, and those that hand many values over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from lowtide.codegen.emulated.calls import Wait
from lowtide.codegen.emulated.products import PRODUCTS
from lowtide.codegen.emulated.warpgroups import with_warpgroups
from lowtide.codegen.emulated.watching import watched
from lowtide.ir.thunk import LaunchedKernel
from lowtide.llvm.ptx import joined, without_prefetches

ASKED_BYTES: Final = 1 << 18
"""Bytes that are there for launches that ask for shared memory, more than any may."""

WAITING: Final = (
    "llvm.nvvm.barrier.cta.sync.aligned.all",
    "llvm.nvvm.shfl.sync.bfly.i32",
    "llvm.nvvm.bar.warp.sync",
    *[x.intrinsic for x in PRODUCTS],
    "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.b16.p3",
    "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.trans.b16.p3",
    "wgmma.fence",
)
"""Functions in which threads wait for each other; the last one stands ahead of all like it."""

_OUTSIDE: Final = """declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare float @exp2f(float)
"""

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
    "llvm.nvvm.ex2.approx.f": "exp2f",
    "llvm.nvvm.ff2bf16x2.rn": "gpu_bfloats",
    "llvm.nvvm.read.ptx.sreg.tid.x": "gpu_thread",
    "llvm.nvvm.read.ptx.sreg.ctaid.x": "gpu_block",
    "llvm.nvvm.barrier.cta.sync.aligned.all": "gpu_barrier",
    "llvm.nvvm.shfl.sync.bfly.i32": "gpu_exchange",
    "llvm.nvvm.bar.warp.sync": "gpu_warp_barrier",
    **{x.intrinsic: x.function for x in PRODUCTS},
    "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.b16.p3": "gpu_matrices",
    "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.trans.b16.p3": "gpu_turned_matrices",
    "llvm.nvvm.cp.async.cg.shared.global.16": "gpu_copy",
    "llvm.nvvm.cp.async.cg.shared.global.16.s": "gpu_copy_part",
    "llvm.nvvm.cp.async.commit.group": "gpu_copies_commit",
    "llvm.nvvm.cp.async.wait.group": "gpu_copies_wait",
}
"""What stands for each intrinsic of the device."""

_LOADS: Final = (("gpu_matrices", Wait.MATRICES), ("gpu_turned_matrices", Wait.TURNED_MATRICES))
"""The functions that stand for loads of matrices, and the wait."""

_DECLARED: Final = re.compile(
    r"^declare .*@llvm\.(?:nvvm\..*|memset\.p0\.i64\(.*|memcpy\.p0\.p0\.i64\(.*)\n", re.MULTILINE
)
"""Declarations of what functions stand for, and of what is declared once for all."""

_CONSTANT: Final = re.compile(
    r"^@(?P<name>[\w.]+) = (?:\w+ )*(?:constant|global) (?P<type>\[[^]]+\]|<[^>]+>|\w+) ",
    re.MULTILINE,
)
_INTRINSIC: Final = re.compile(r"@(llvm\.nvvm\.[\w.]+)")
_SHARED: Final = re.compile(
    r"^  (?:(?P<result>%\S+) = load (?P<loaded>[^,]+)|store (?P<stored><[^>]+>|\w+) [^,]+), "
    r"ptr addrspace\(3\) (?P<pointer>[^ ,]+), align (?P<align>\d+)",
    re.MULTILINE,
)
_ASKED: Final = re.compile(r"^@([\w.]+) = external addrspace\(3\) global .*\n", re.MULTILINE)
_DEFINED: Final = re.compile(
    r"^@([\w.]+) = internal addrspace\(3\) global \[(\d+) x ([^\]]+)\]", re.MULTILINE
)
_BODY: Final = re.compile(r"^define ptx_kernel .*?@([\w.]+)\(.*?^\}", re.MULTILINE | re.DOTALL)
_NAMED: Final = re.compile(r"@([\w.]+)")
_CAST: Final = re.compile(r"= addrspacecast (ptr %[\w.]+) to ptr addrspace\(\d\)")
_SPACE: Final = re.compile(r" addrspace\(\d\)")
_TYPE: Final = re.compile(r"(?:<(\d+) x )?(?:i(\d+)|(half)|(float)|(double))>?")


def host_text(texts: Sequence[str], kernels: Sequence[LaunchedKernel], natives: str) -> str:
    """Return a module for the host with all kernels, what they call, and `enter_...` for each.

    `natives` are the native functions that stand for intrinsics; they declare what copies bytes.
    `void enter_KERNEL()` calls a kernel with the addresses at `EmulatedState.arguments`.
    """
    text = without_prefetches(joined(texts))
    text = watched(_SHARED.sub(_noted, text), type_bytes)
    constants = _constants(text)
    text, warpgroups = with_warpgroups(_with_asked_memory(_DECLARED.sub("", f"{text}\n")))
    text = _INTRINSIC.sub(lambda x: f"@{_FUNCTIONS[x[1]]}", text)
    text = _CAST.sub(r"= bitcast \1 to ptr", text)
    text = _SPACE.sub("", text).replace("define ptx_kernel ", "define ")
    products = "".join([x.text() for x in PRODUCTS if f"@{x.function}(" in text])
    loads = [_MATRICES.format(name=x, kind=int(kind)) for x, kind in _LOADS if f"@{x}(" in text]
    entries = [
        _entry(launch.function, kernel.buffers + 1)
        for kernel in kernels
        for launch in kernel.launches
    ]
    more = [natives, _OUTSIDE, warpgroups]
    return "\n".join([text, *more, constants, products, *loads, *dict.fromkeys(entries)])


def _constants(text: str) -> str:
    """Where the constants and variables of a module lie, as `state.ConstantRange` has them."""
    found = [x for x in _CONSTANT.finditer(text) if "addrspace(3)" not in x[0]]
    rows = [
        f"[2 x ptr] [ptr @{x['name']}, ptr getelementptr ({x['type']}, ptr @{x['name']}, i64 1)]"
        for x in found
    ]
    whole = f"[{len(rows) + 1} x [2 x ptr]]"
    table = ", ".join([*rows, "[2 x ptr] zeroinitializer"])
    return f"""@gpu_constants = internal constant {whole} [{table}]
define ptr @gpu_constants_address() {{
  ret ptr @gpu_constants
}}
"""


def _with_asked_memory(text: str) -> str:
    """The shared memory that launches ask for is one array, whatever kernels call it."""
    names = _ASKED.findall(text)
    for name in names:
        text = text.replace(f"@{name} ", "@gpu_shared ").replace(f"@{name},", "@gpu_shared,")
    nbytes = ASKED_BYTES if names else 16
    array = f"""@gpu_shared = internal global [{nbytes} x i8] zeroinitializer, align 1024
define ptr @gpu_shared_address() {{
  ret ptr @gpu_shared
}}
"""
    return f"{_ASKED.sub('', text)}\n{array}"


def _noted(access: re.Match[str]) -> str:
    """An access to shared memory after a note of it."""
    type_ = access["loaded"] or access["stored"]
    note = f"  call void @gpu_note(ptr {access['pointer']}, i64 {type_bytes(type_)}, i64"
    what = int(access["stored"] is not None)
    anywhere = f"{access[0].removesuffix(access['align'])}1"
    return f"{note} {what}, i64 {access['align']})\n{anywhere}"


def shared_bytes(text: str) -> Iterator[tuple[str, int]]:
    """Yield each kernel of a module in LLVM's IR, with the bytes of the shared arrays it names."""
    arrays = {name: int(count) * type_bytes(type_) for name, count, type_ in _DEFINED.findall(text)}
    for kernel in _BODY.finditer(text):
        named = set(_NAMED.findall(kernel[0]))
        yield kernel[1], sum([nbytes for name, nbytes in arrays.items() if name in named])


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
    """The function that calls a kernel with its arguments, which `gpu_arguments` finds."""
    lines = ["  %all = call ptr @gpu_arguments()"]
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
