"""Executables: programs as users hold them, as bytes, and how they come about."""

from lowtide.client.executable.compiling import (
    PlannedProgram,
    check_memory,
    compile_anew,
    compile_module,
    deserialize_executable,
    executable_of,
)
from lowtide.client.executable.executable import Executable, Making

__all__ = [
    "Executable",
    "Making",
    "PlannedProgram",
    "check_memory",
    "compile_anew",
    "compile_module",
    "deserialize_executable",
    "executable_of",
]
