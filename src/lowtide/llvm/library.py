"""Object files in the process as code that can be called.

What `image.py` links needs no LLVM, which takes 55 MB and a while to load.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from functools import cache, partial
from itertools import count
from typing import Any, Final

from lowtide.llvm.image import Image, NotLinkedError
from lowtide.llvm.lapack import imports
from lowtide.llvm.routines import routines_of
from lowtide.llvm.target import Target


class Library:
    """Objects linked into the process; the code goes when the library does.

    Raises MissingRoutineError where they call a routine of LAPACK that there is not.
    """

    def __init__(self, objects: Sequence[bytes], names: Sequence[str], target: Target) -> None:
        distinct = [*dict.fromkeys(objects)]
        if routines := routines_of(distinct, target):
            from lowtide.llvm.machine import KernelCompiler

            distinct.append(KernelCompiler(target).object_code(routines))
        given = imports(distinct)
        self._code: Any
        """What holds the code."""
        self.addresses: dict[str, int]
        try:
            self._code = Image(distinct, names, partial(_outside, given))
            self.addresses = self._code.addresses
        except NotLinkedError:
            self._code = _linked_by_llvm(distinct, names, given, target)
            self.addresses = {name: self._code[name] for name in names}

    def __getitem__(self, name: str) -> int:
        """The address of an exported symbol."""
        return self.addresses[name]


def _outside(given: Mapping[str, int], name: str) -> int:
    """The address of a symbol that is given, or that the process has."""
    return given.get(name) or _of_process(name)


@cache
def _of_process(name: str) -> int:
    try:
        found = ctypes.cast(getattr(ctypes.CDLL(None), name), ctypes.c_void_p).value
    except AttributeError:
        raise NotLinkedError(f"the process has no {name}") from None
    assert found
    return found


_NUMBERS: Final = count()


def _linked_by_llvm(
    objects: Sequence[bytes], names: Sequence[str], given: Mapping[str, int], target: Target
) -> Any:
    """What holds the code, and gives addresses by name."""
    import llvmlite.binding as llvm

    builder = llvm.JITLibraryBuilder()
    for code in objects:
        builder.add_object_img(code)
    builder.add_current_process()
    for name, place in given.items():
        builder.import_symbol(name, place)
    for name in names:
        builder.export_symbol(name)
    return builder.link(_linker(target), f"library{next(_NUMBERS)}")


@cache
def _linker(target: Target) -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.feature_string, opt=1, reloc="pic", codemodel="small"
    )
    return llvm.create_lljit_compiler(machine, use_jit_link=True)
