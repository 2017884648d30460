"""Modules for the commands: read and verified, with errors that show the place."""

from __future__ import annotations

import os
from typing import Final

from lowtide.cli.console import note
from lowtide.cli.progress import progress
from lowtide.cli.shapes import given_inputs, given_shapes, given_signature, named_sizes
from lowtide.frontend.files import ModuleInput, is_onnx, read_input
from lowtide.ir import InputError, InvalidModuleError, Module
from lowtide.verifier import verify


def load(path: str, *, reoptimize: bool = False) -> ModuleInput:
    """Return the module in a file, without its schedule where it is to be optimized anew.

    Raises InputError or InvalidModuleError.
    """
    if is_executable(path):
        raise InputError("is an executable, which only `run` takes; give the module", file=path)
    with progress(f"reading {path}"):
        shapes = {**_shapes_of_files(path), **given_shapes()}
        found = read_input(path, sizes=named_sizes(), shapes=shapes, signature=given_signature())
        check(found)
    if reoptimize:
        found.module.schedule = None
    if os.path.isdir(path) and found.file != path:
        note(f"reading {found.file}")
        if found.others:
            note(found.others)
    return found


def _shapes_of_files(path: str) -> dict[str, tuple[int, ...]]:
    """The shapes of arrays that the command line gives for the inputs of an ONNX model."""
    if not given_inputs() or not is_onnx(path):
        return {}
    from lowtide.cli.inputs import from_npy

    return {name: from_npy(file).shape for name, file in given_inputs().items()}


def is_executable(path: str) -> bool:
    """Whether a file begins as what `lowtide compile` writes."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as stream:
        return stream.read(len(_EXECUTABLE)) == _EXECUTABLE


_EXECUTABLE: Final = b"lowtide executable "
"""What executables of all versions begin with."""


def check(found: ModuleInput) -> None:
    """Verify a module; raises InvalidModuleError which names the file and shows the line."""
    try:
        verify(found.module)
    except InvalidModuleError as error:
        raise _with_place(error, found) from None


def _with_place(error: InvalidModuleError, found: ModuleInput) -> InvalidModuleError:
    text = str(error)
    if not error.line:
        text = f"{found.file}: {text}"
    excerpt = _excerpt(found.module, error.position)
    placed = InvalidModuleError(f"{text}\n{excerpt}" if excerpt else text, line=error.line)
    placed.instruction = error.instruction
    return placed


def _excerpt(module: Module, position: int) -> str:
    """The line of the text in which a character stands; "" where that is not known."""
    source = module.source_text
    return "" if source is None or position < 0 else source.excerpt(position)
