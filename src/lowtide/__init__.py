"""lowtide: a tensor compiler whose centre is memory.

    module = lowtide.read("step.hlo")          # HLO text, protobuf, an XLA dump directory
    print(lowtide.explain(module))             # what its peak is made of, what bounds it
    run = lowtide.compile(module, memory="1GiB")
    results = run(*arguments)                  # native code, in one planned arena
    lowtide.run_on_devices(run, arguments_of_each)  # the program of several devices, on threads
    lowtide.compile_for_ranks(module)          # the same over MPI: each rank runs one device
    fast = lowtide.jit(function)               # the same for what JAX traces
    lowtide.evaluate(module, arguments)        # the reference interpreter

What the names below need is imported when they are first used.
"""

from __future__ import annotations

import gc
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Final

from lowtide.files.module_files import find_quickly, read_together

if TYPE_CHECKING:
    from lowtide.api import compile as compile
    from lowtide.api import explain as explain
    from lowtide.api import fit as fit
    from lowtide.client.errors import OverMemoryError as OverMemoryError
    from lowtide.client.executable import Executable as Executable
    from lowtide.client.executable import deserialize_executable as deserialize
    from lowtide.client.executable.on_devices import run_on_devices as run_on_devices
    from lowtide.client.executable.on_ranks import compile_for_ranks as compile_for_ranks
    from lowtide.client.jit import jit as jit
    from lowtide.client.library import ClientLibrary as ClientLibrary
    from lowtide.comparison.gate import check as check
    from lowtide.comparison.sides import diff as diff
    from lowtide.evaluator.evaluate import evaluate as evaluate
    from lowtide.frontend.files import read as read
    from lowtide.frontend.hlo_text import parse_hlo as parse_hlo
    from lowtide.ir import HloProtoError as HloProtoError
    from lowtide.ir import HloTextError as HloTextError
    from lowtide.ir import InputError as InputError
    from lowtide.ir import InvalidModuleError as InvalidModuleError
    from lowtide.ir import LowtideError as LowtideError
    from lowtide.ir import Module as Module
    from lowtide.ir import UnsupportedOpError as UnsupportedOpError
    from lowtide.options import Options as Options
    from lowtide.report.memory import MemoryReport as MemoryReport
    from lowtide.verifier import verify as verify

__all__ = [
    "ClientLibrary",
    "Executable",
    "HloProtoError",
    "HloTextError",
    "InputError",
    "InvalidModuleError",
    "LowtideError",
    "MemoryReport",
    "Module",
    "Options",
    "OverMemoryError",
    "UnsupportedOpError",
    "__version__",
    "check",
    "compile",
    "compile_for_ranks",
    "deserialize",
    "diff",
    "evaluate",
    "explain",
    "fit",
    "jit",
    "parse_hlo",
    "read",
    "run_on_devices",
    "verify",
]

__version__ = "0.1.0"

_HOME: Final = {
    "ClientLibrary": "lowtide.client.library",
    "Executable": "lowtide.client.executable",
    "HloProtoError": "lowtide.ir.errors",
    "HloTextError": "lowtide.ir.errors",
    "InputError": "lowtide.ir.errors",
    "InvalidModuleError": "lowtide.ir.errors",
    "LowtideError": "lowtide.ir.errors",
    "MemoryReport": "lowtide.report.memory",
    "Module": "lowtide.ir.module",
    "Options": "lowtide.options",
    "OverMemoryError": "lowtide.client.errors",
    "UnsupportedOpError": "lowtide.ir.errors",
    "check": "lowtide.comparison.gate",
    "compile": "lowtide.api",
    "compile_for_ranks": "lowtide.client.executable.on_ranks",
    "deserialize": "lowtide.client.executable",
    "diff": "lowtide.comparison.sides",
    "evaluate": "lowtide.evaluator",
    "explain": "lowtide.api",
    "fit": "lowtide.api",
    "jit": "lowtide.client.jit",
    "parse_hlo": "lowtide.frontend.hlo_text",
    "read": "lowtide.frontend.files",
    "run_on_devices": "lowtide.client.executable.on_devices",
    "verify": "lowtide.verifier",
}
"""The module that defines each public name."""

_NAMED_THERE: Final = {"deserialize": "deserialize_executable"}
"""Names that are longer where they are defined."""

_BEGINNINGS: Final = frozenset({"compile", "jit", "parse_hlo", "read"})
"""Names that a process asks for that comes to compile."""

find_quickly(__name__, __spec__, __path__, lambda: import_module("lowtide.options").code_folder())


def __getattr__(name: str) -> object:
    if name not in _HOME:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message, name=name, obj=sys.modules[__name__])
    was_enabled = gc.isenabled()
    gc.disable()  # Nothing of what is loaded is garbage, and looking for that takes a while.
    try:
        if name in _BEGINNINGS:
            read_together(__name__, "beginning")
        value = getattr(import_module(_HOME[name]), _NAMED_THERE.get(name, name))
    finally:
        if was_enabled:
            gc.enable()
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
