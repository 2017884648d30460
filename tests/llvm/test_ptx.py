"""Modules for graphics processors: what LLVM is given, and what it is never given."""

from __future__ import annotations

import subprocess
import sys

import pytest

from lowtide.ir.gpu_names import GPU_ARCHITECTURES, is_gpu_target
from lowtide.llvm.named_targets import gpu_target
from lowtide.llvm.ptx import NotForGpuError, check_for_gpu, joined, ptx_of, without_prefetches

FLOATS = {"f32": "float", "f64": "double", "v4f32": "<4 x float>", "v2f64": "<2 x double>"}
INTEGERS = {"i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64", "v4i32": "<4 x i32>"}
UNARY = ("sqrt", "fabs", "floor", "ceil", "trunc", "roundeven", "round")
BINARY = ("copysign", "minimum", "maximum", "minnum", "maxnum")
OF_INTEGERS = {"smin": 2, "smax": 2, "umin": 2, "umax": 2, "ctpop": 1, "fshl": 3, "fshr": 3}


def calls() -> list[tuple[str, str, int]]:
    """Return the name of each intrinsic with one type, that type, and the number of operands."""
    found = [(f"llvm.fma.{x}", type_, 3) for x, type_ in FLOATS.items()]
    found += [(f"llvm.{y}.{x}", type_, 1) for y in UNARY for x, type_ in FLOATS.items()]
    found += [(f"llvm.{y}.{x}", type_, 2) for y in BINARY for x, type_ in FLOATS.items()]
    found.append(("llvm.nvvm.ex2.approx.f", "float", 1))
    for name, count in OF_INTEGERS.items():
        found += [(f"llvm.{name}.{x}", type_, count) for x, type_ in INTEGERS.items()]
    return found


def kernel(number: int, name: str, type_: str, count: int) -> str:
    operands = ", ".join([f"{type_} %x"] * count)
    return (
        f"declare {type_} @{name}({', '.join([type_] * count)})\n"
        f"define ptx_kernel void @k{number}(ptr %a) {{\n"
        f"  %x = load {type_}, ptr %a\n  %y = call {type_} @{name}({operands})\n"
        f"  store {type_} %y, ptr %a\n  ret void\n}}\n"
    )


def masked(number: int, type_: str, short: str) -> str:
    """A load and a store under a mask, next to each other and anywhere."""
    vector, tests, pointers = f"<4 x {type_}>", "<4 x i1>", "<4 x ptr>"
    near, far = f"v4{short}.p0", f"v4{short}.v4p0"
    return (
        f"declare {vector} @llvm.masked.load.{near}(ptr, i32, {tests}, {vector})\n"
        f"declare void @llvm.masked.store.{near}({vector}, ptr, i32, {tests})\n"
        f"declare {vector} @llvm.masked.gather.{far}({pointers}, i32, {tests}, {vector})\n"
        f"declare void @llvm.masked.scatter.{far}({vector}, {pointers}, i32, {tests})\n"
        f"define ptx_kernel void @m{number}(ptr %a, ptr %b) {{\n"
        f"  %t = load {tests}, ptr %b\n  %p = load {pointers}, ptr %b\n"
        f"  %x = call {vector} @llvm.masked.load.{near}(ptr %a, i32 1, {tests} %t, "
        f"{vector} zeroinitializer)\n"
        f"  %y = call {vector} @llvm.masked.gather.{far}({pointers} %p, i32 1, {tests} %t, "
        f"{vector} %x)\n"
        f"  call void @llvm.masked.store.{near}({vector} %y, ptr %a, i32 1, {tests} %t)\n"
        f"  call void @llvm.masked.scatter.{far}({vector} %x, {pointers} %p, i32 1, {tests} %t)\n"
        "  ret void\n}\n"
    )


BFLOATS = """declare <2 x bfloat> @llvm.nvvm.ff2bf16x2.rn(float, float)
define ptx_kernel void @b(ptr %a) {
  %x = load float, ptr %a
  %y = call <2 x bfloat> @llvm.nvvm.ff2bf16x2.rn(float %x, float %x)
  store <2 x bfloat> %y, ptr %a
  ret void
}
"""


def test_llvm_has_each_allowed_intrinsic() -> None:
    """In a process of its own, which LLVM would end otherwise."""
    texts = [BFLOATS, *[kernel(number, *call) for number, call in enumerate(calls())]]
    types = {"i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64", "half": "f16", "float": "f32"}
    texts += [masked(number, *x) for number, x in enumerate(types.items())]
    program = (
        "import sys\nfrom lowtide.llvm.named_targets import gpu_target\n"
        "from lowtide.llvm.ptx import ptx_of\n"
        "for text in sys.stdin.read().split('=====')[:-1]:\n"
        "    for name in ('cuda:sm_80', 'cuda:sm_100'):\n"
        "        assert '.entry' in ptx_of(text, gpu_target(name))\nprint('all')\n"
    )
    given = "".join([f"{x}=====" for x in texts])
    done = subprocess.run(
        [sys.executable, "-c", program], input=given, capture_output=True, text=True, check=False
    )
    assert done.stdout == "all\n", done.stderr[-2000:]


def test_llvm_ends_the_process_for_what_is_refused() -> None:
    """What the check is for: no Python exception comes of it."""
    text = kernel(0, "llvm.log.f32", "float", 1)
    program = (
        "import sys\nfrom lowtide.llvm.named_targets import gpu_target\n"
        "from lowtide.llvm.machine import KernelCompiler\n"
        "try:\n    KernelCompiler(gpu_target('cuda')).assembly(sys.stdin.read())\n"
        "except BaseException:\n    pass\nprint('alive')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], input=text, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "alive" not in done.stdout


@pytest.mark.parametrize("name", ["exp", "exp2", "log", "pow", "sin", "cos", "tanh", "rint"])
def test_other_intrinsics_are_refused(name: str) -> None:
    with pytest.raises(NotForGpuError, match=f"llvm.{name}.f32"):
        ptx_of(kernel(0, f"llvm.{name}.f32", "float", 1), gpu_target("cuda"))


def test_a_remainder_is_refused() -> None:
    with pytest.raises(NotForGpuError, match="frem"):
        check_for_gpu("define void @f(float %x) {\n  %y = frem float %x, 2.0\n  ret void\n}\n")


def test_a_name_is_no_instruction() -> None:
    check_for_gpu("define void @f(float %frem) {\n  %y = fadd float %frem, 2.0\n  ret void\n}\n")


def test_prefetches_are_left_out() -> None:
    text = (
        "declare void @llvm.prefetch.p0(ptr, i32 immarg, i32 immarg, i32 immarg)\n"
        "define ptx_kernel void @k(ptr %a) {\n"
        "  call void @llvm.prefetch.p0(ptr %a, i32 0, i32 3, i32 1)\n  ret void\n}\n"
    )
    assert "prefetch" not in without_prefetches(text)
    assert ".entry k" in ptx_of(text, gpu_target("cuda"))


def test_modules_are_joined_with_each_line_once() -> None:
    first = "declare i32 @f()\n@a = internal constant i32 1\ndefine void @g() {\n  ret void\n}\n"
    second = "declare i32 @f()\ndefine void @h() {\n  ret void\n}\n"
    text = joined([first, second, first])
    assert text.count("declare") == 1
    assert text.count("define") == 2


@pytest.mark.parametrize("architecture", GPU_ARCHITECTURES)
def test_targets_have_names(architecture: str) -> None:
    target = gpu_target(f"cuda:{architecture}")
    assert target.cpu == architecture
    assert f".target {architecture}" in ptx_of(
        "define ptx_kernel void @k() {\n  ret void\n}\n", target
    )


def test_an_unknown_target_is_refused() -> None:
    assert is_gpu_target("cuda:sm_1")
    assert not is_gpu_target("native")
    with pytest.raises(ValueError, match=r"no target 'cuda:sm_1'; there are: cuda, cuda:emulated"):
        gpu_target("cuda:sm_1")
    with pytest.raises(ValueError, match="no target 'avx2'"):
        gpu_target("avx2")
