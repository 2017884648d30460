"""PTX assembled by ptxas: what kernels take, limits, and what is said where there is no ptxas."""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.codegen.gpu.programs import program_of

from lowtide.files.object_cache import ObjectCache
from lowtide.ir.gpu_names import SHARED_BYTES
from lowtide.ir.thunk import GridLaunch
from lowtide.runtime.gpu import assembling
from lowtide.runtime.gpu.assembling import AssemblerError, Cubin, KernelResources, assembled


def has_assembler() -> bool:
    try:
        assembling.assembler()
    except AssemblerError:
        return False
    return True


needs_assembler = pytest.mark.skipif(
    not has_assembler(), reason="there is no ptxas: `pip install lowtide[gpu]`"
)

DOT = """
  x = f32[133,70] parameter(0)
  y = f32[70,120] parameter(1)
  ROOT z = f32[133,120] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
"""


@needs_assembler
def test_a_product_is_within_its_limits_and_spills_nothing(tmp_path: Path) -> None:
    program = program_of(DOT)
    cubin = program.assembled(ObjectCache(tmp_path))
    ((function, found),) = cubin.resources.items()
    assert function == program.kernels[0].launches[0].function
    assert cubin.image.startswith(b"\x7fELF")
    assert 16 < found.registers <= 255
    assert found.shared == 2 * (64 + 4) * 16 * 4 * 2, "two operands, each with the next tile"
    assert (found.stack, found.spilled) == (0, 0)


@needs_assembler
def test_machine_code_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program, cached = program_of(DOT), ObjectCache(tmp_path)
    first = program.assembled(cached)

    def never(ptx: str, architecture: str) -> Cubin:
        raise AssertionError("assembled again")

    monkeypatch.setattr(assembling, "_run", never)
    assert program.assembled(cached) == first


@needs_assembler
def test_what_ptxas_refuses_is_an_error() -> None:
    with pytest.raises(AssemblerError, match=r"ptxas refuses a module:\n.*kernels.ptx, line 1"):
        assembled("nonsense", "sm_90", ObjectCache(None))


def test_no_ptxas_says_which_package_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembling, "find_spec", lambda name: None)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(AssemblerError, match=r"pip install lowtide\[gpu\]"):
        assembling.assembler.__wrapped__()
    assert find_spec("lowtide") is not None


@pytest.mark.parametrize(
    ("found", "threads", "asked", "said"),
    [
        (KernelResources(32, 49153, 0, 0), 32, 0, "49153 bytes of shared memory, of 49152"),
        (KernelResources(32, 1, 0, 0), 32, 227 << 10, "232449 bytes of shared memory, of 232448"),
        (KernelResources(255, 0, 0, 0), 512, 0, "255 registers in each of 512 threads"),
    ],
)
def test_a_kernel_above_its_limits_is_an_error(
    found: KernelResources, threads: int, asked: int, said: str
) -> None:
    with pytest.raises(AssemblerError, match=f"k takes {said}"):
        Cubin(b"", {"k": found}).check(GridLaunch("k", 1, threads, asked), "sm_90")


def test_a_kernel_at_its_limits_is_none() -> None:
    cubin = Cubin(b"", {"k": KernelResources(128, 49152, 0, 0)})
    cubin.check(GridLaunch("k", 1, 512, SHARED_BYTES["sm_90"] - 49152), "sm_90")


def test_the_log_of_ptxas_is_read() -> None:
    log = (
        "ptxas info    : Compiling entry function 'k_1' for 'sm_90'\n"
        "ptxas info    : Function properties for k_1\n"
        "    16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads\n"
        "ptxas info    : Used 40 registers, used 1 barriers, 16 bytes cumulative stack size, "
        "8704 bytes smem\n"
    )
    assert dict(assembling._resources(log)) == {"k_1": KernelResources(40, 8704, 16, 20)}
