"""Executables: programs as users hold them, as bytes, and how they come about."""

from lowtide.client.executable.compiling import (
    check_memory,
    compile_module,
    deserialize_executable,
)
from lowtide.client.executable.executable import Executable, Making

__all__ = [
    "Executable",
    "Making",
    "check_memory",
    "compile_module",
    "deserialize_executable",
]
