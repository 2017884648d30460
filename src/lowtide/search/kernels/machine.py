"""From kernels to machine code: one LLVM module for a kernel and all that it calls."""

from __future__ import annotations

import hashlib
import os
from functools import cache, partial
from threading import Lock
from typing import Any, Final

import llvmlite
import llvmlite.binding as llvm

from lowtide.native.shipped import family_of, shipped_code
from lowtide.native.unit import NativeUnit
from lowtide.search.kernels.kernel import Kernel
from lowtide.search.kernels.objects import kept_object

_LOCK: Final = Lock()
os.register_at_fork(  # A forked process finds it free.
    before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release
)
_ENGINES: Final[list[Any]] = []
"""Engines own the code that they made, and live as long as the process."""

FAMILY: Final = "x86_64-linux"
"""The processors, by architecture and system, that machine code comes with the package for."""

_SHIPPED_TRIPLE: Final = "x86_64-unknown-linux-gnu"

_PACKAGE: Final = f"{__name__.partition('.')[0]}."

_PASSES: Final = ("sroa", "simplify_cfg", "instruction_combine")
"""LLVM's passes that run on kernels. Those of its level 2 take five times as long, for a tenth."""

_CODE_LEVEL: Final = 2
"""How hard LLVM's code generator tries, 0 to 3."""


def compiled(kernel: Kernel[..., Any]) -> int:
    """Return the address of the native code of a kernel."""
    with _LOCK:
        machine = _target_machine()
        made = _shipped(kernel)
        if made is None:
            made = kept_object(_key(kernel), partial(_compiled, kernel, machine))
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
        engine.add_object_file(llvm.ObjectFileRef.from_data(made))
        engine.finalize_object()
        _ENGINES.append(engine)
        address: int = engine.get_function_address(kernel.name)
    return address


def text_of(kernel: Kernel[..., Any], triple: str = "") -> str:
    """Return the LLVM module of a kernel and of all that it calls, by default for this process."""
    from lowtide.native.module import module_text  # What is kept needs no compiler.

    return module_text([kernel], triple or llvm.get_process_triple())


def shipped_object(kernel: Kernel[..., Any]) -> bytes:
    """Return the machine code of a kernel as it comes with the package, made anew."""
    _initialize()
    target = llvm.Target.from_triple(_SHIPPED_TRIPLE)
    machine = target.create_target_machine(cpu="x86-64", opt=_CODE_LEVEL, jit=True)
    return _compiled_object(text_of(kernel, _SHIPPED_TRIPLE), machine)


def sources_of(kernel: Kernel[..., Any]) -> str:
    """Return a digest of what decides about the text of a kernel."""
    return NativeUnit(kernel.name, [kernel]).sources


def _shipped(kernel: Kernel[..., Any]) -> bytes | None:
    """The machine code of a kernel that comes with the package, if that is for this processor."""
    if family_of(llvm.get_process_triple()) != FAMILY or not _is_ours(kernel):
        return None
    return shipped_code(__name__, kernel.name, FAMILY, sources_of(kernel))


def _is_ours(kernel: Kernel[..., Any]) -> bool:
    return kernel.__module__.startswith(_PACKAGE)


def _key(kernel: Kernel[..., Any]) -> str:
    """What machine code is kept by: sources of this package, so that no text has to be written.

    Kernels that are defined elsewhere, in a notebook perhaps, may have none: there it is the text.
    """
    told = sources_of(kernel) if _is_ours(kernel) else text_of(kernel)
    parts = (told, llvm.get_host_cpu_name(), _features(), llvmlite.__version__)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _compiled(kernel: Kernel[..., Any], machine: Any) -> bytes:
    return _compiled_object(text_of(kernel), machine)


def _compiled_object(text: str, machine: Any) -> bytes:
    module = llvm.parse_assembly(text)
    module.verify()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options())
    passes = llvm.create_new_module_pass_manager()
    for name in _PASSES:
        getattr(passes, f"add_{name}_pass")()
    passes.run(module, builder)
    made: bytes = machine.emit_object(module)
    return made


@cache
def _features() -> str:
    found: str = llvm.get_host_cpu_features().flatten()
    return found


def _target_machine() -> Any:
    _initialize()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=_features(), opt=_CODE_LEVEL, jit=True
    )


@cache
def _initialize() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
