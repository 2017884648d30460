"""Programs for the commands: modules compiled to native code, or executables read from files."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from lowtide.records import dataclass

if TYPE_CHECKING:
    from lowtide.client.executable import Executable
    from lowtide.frontend.files import ModuleInput
    from lowtide.ir import Module
    from lowtide.options import Options

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class NamedProgram:
    """What a MODULE argument names: a module, and the executable where the file is one."""

    found: ModuleInput
    executable: Executable | None = None

    @property
    def module(self) -> Module:
        """The module; of an executable the scheduled one."""
        return self.found.module


def load_program(path: str, options: Options, *, trust: bool) -> NamedProgram:
    """Return the module or the executable in a file, which its first bytes tell.

    With `trust` an executable may be of anyone. Raises InputError, InvalidModuleError or
    OverMemoryError.
    """
    from lowtide.cli.modules import is_executable, load

    if not is_executable(path):
        return NamedProgram(load(path))
    from lowtide.client.executable import deserialize_executable
    from lowtide.frontend.files import ModuleInput

    executable = deserialize_executable(path, options, trust=trust)
    return NamedProgram(ModuleInput(executable.module, path), executable)


def executable_of(program: NamedProgram, options: Options) -> Executable:
    """Return a program in native code, compiled if it is not yet, with a line that says how far.

    Raises UnsupportedOpError, whose words name what works instead, and OverMemoryError.
    """
    from lowtide.client.executable import compile_module

    if program.executable is not None:
        return program.executable
    return while_compiling(
        program.module, lambda progress: compile_module(program.module, options, progress)
    )


def while_compiling(module: Module, compile_: Callable[[Callable[[int, int], None]], T]) -> T:
    """Return what `compile_` returns, which is given a function to tell how far it is."""
    from lowtide.cli.progress import progress
    from lowtide.ir import UnsupportedOpError

    with progress(f"compiling {module.name}") as line:

        def show(done: int, count: int) -> None:
            line.state = f": {done:,} of {count:,} kernels,"

        try:
            return compile_(show)
        except UnsupportedOpError as error:
            words = str(error)
            if "evaluator" not in words and "--reference" not in words:
                words += "; `lowtide run --reference` uses the evaluator instead"
            raise UnsupportedOpError(words) from error
