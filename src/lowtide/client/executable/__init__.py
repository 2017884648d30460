"""Executables: programs as users hold them, as bytes, and how they come about.

A name is loaded when it is first asked for: a program that is kept needs no module.
"""

from typing import TYPE_CHECKING

from lowtide.records.late import late_names

__all__ = ["Executable", "Making", "check_memory", "compile_module", "deserialize_executable"]


if TYPE_CHECKING:
    from lowtide.client.executable.compiling import (
        check_memory,
        compile_module,
        deserialize_executable,
    )
    from lowtide.client.executable.executable import Executable, Making
else:
    __getattr__ = late_names(
        __name__,
        compiling="check_memory compile_module deserialize_executable",
        executable="Executable Making",
    )
