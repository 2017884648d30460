"""Modules from files: HLO, StableHLO, ONNX, TensorFlow's graphs, compressed or not, dumps, "-"."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Final

from lowtide.frontend.compressed import LIMIT_BYTES, read_bytes
from lowtide.frontend.dump_directory import find_module
from lowtide.frontend.file_kinds import (
    SAVED_MODEL,
    ZIP,
    foreign_kind,
    looks_binary,
    looks_like_nnvm,
    looks_like_stablehlo,
    looks_like_tflite,
)
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.frontend.other_protobuf import refuse_other_protobuf
from lowtide.ir import HloProtoError, HloTextError, InputError, Module
from lowtide.ir.literal import Array
from lowtide.ir.source_text import SourceText
from lowtide.records import dataclass

STDIN: Final = "-"
"""The path that stands for standard input."""

_COMPRESSIONS: Final = (".xz", ".gz")
_TEXT_SUFFIXES: Final = (".hlo", ".txt")
_BINARY_SUFFIXES: Final = (".pb",)
_ONNX_SUFFIX: Final = ".onnx"
_EXPECTED: Final = "HLO, StableHLO, ONNX, TFLite, or a graph of TensorFlow or NNVM"


@dataclass(frozen=True, slots=True)
class ModuleInput:
    """A module, the file that it was read from, and the arguments that the file holds.

    `arguments` are the leaves of the parameters, depth first; None where the file has none: only
    snapshots do. `others` lists the other modules of a dump directory, as text; "" for none.
    `initial` are what variables hold before the first call, by the numbers of their parameters.
    """

    module: Module
    file: str
    arguments: Sequence[Array] | None = None
    others: str = ""
    initial: Mapping[int, Array] = field(default_factory=dict)


def read(
    path: str | os.PathLike[str],
    *,
    sizes: Mapping[str, int] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    signature: str | None = None,
) -> Module:
    """Return the module in a file: HLO, StableHLO, ONNX, ..., or the newest of a dump directory.

    Files that are compressed with xz or gzip are opened too; "-" is standard input. `sizes`,
    `shapes` and `signature` are those of `read_input`. The module is not verified. Raises
    InputError, or HloTextError for a place in a text.
    """
    return read_input(path, sizes=sizes, shapes=shapes, signature=signature).module


def read_input(
    path: str | os.PathLike[str],
    limit_bytes: int = LIMIT_BYTES,
    sizes: Mapping[str, int] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    signature: str | None = None,
) -> ModuleInput:
    """Return the module in a file together with the arguments that a snapshot holds.

    `sizes` are those of dimensions that an ONNX model has names for, `shapes` those of its inputs,
    of arguments of a graph of NNVM or of StableHLO, and of inputs of a SavedModel,
    whose `signature` is meant. Raises as `read` does, also for more than `limit_bytes` bytes after
    decompression.
    """
    name = os.fspath(path)
    shown = "<stdin>" if name == STDIN else name
    if sizes and not is_onnx(name):
        hint = "; shapes of its inputs are taken (--shape)" if _is_saved_model(name) else ""
        raise InputError(f"only ONNX models have named dimensions{hint}", file=shown)
    if signature is not None and not _is_saved_model(name):
        raise InputError("only SavedModels have signatures", file=shown)
    if name == STDIN:
        return _parse(read_bytes(sys.stdin.buffer, shown, limit_bytes), shown, shapes or {})
    if not name:
        raise InputError("expected a path, found an empty one")
    if "\n" in name.strip():
        raise InputError(
            f"expected a path, found a text of several lines, {name.split()[0]} ...; "
            "lowtide.parse_hlo(text) reads the text of a module"
        )
    try:
        file, others = Path(name), ""
        if _is_saved_model(name):
            return _read_saved_model(file, signature, shapes or {})
        if file.is_dir():
            file, others = find_module(file)
        if is_onnx(file):
            return _read_onnx(str(file), sizes or {}, shapes or {})
        with file.open("rb") as stream:
            data = read_bytes(stream, str(file), limit_bytes)
    except (OSError, ValueError) as error:
        raise InputError(_reason(error), file=name) from error
    return replace(_parse(data, str(file), shapes or {}), others=others)


def _is_saved_model(name: str) -> bool:
    """Whether a path is that of a SavedModel; of one that cannot be looked at, reading it tells."""
    try:
        return (Path(name) / SAVED_MODEL).is_file()
    except OSError:
        return False


def is_onnx(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is that of an ONNX model, by its name."""
    return os.fspath(path).lower().endswith(_ONNX_SUFFIX)


def _read_onnx(
    file: str, sizes: Mapping[str, int], shapes: Mapping[str, Sequence[int]]
) -> ModuleInput:
    from lowtide.frontend.onnx.module import read_module

    return ModuleInput(read_module(file, sizes, shapes), file)


def _read_saved_model(
    folder: Path, signature: str | None, shapes: Mapping[str, Sequence[int]]
) -> ModuleInput:
    from lowtide.frontend.tensorflow.saved_model import read_saved_model

    found = read_saved_model(folder, signature, shapes)
    return ModuleInput(found.module, str(folder), initial=found.state)


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, FileNotFoundError):
        return "no such file or directory"
    if isinstance(error, OSError) and error.strerror:
        return f"cannot be read: {error.strerror.lower()}"
    return f"cannot be read: {error}"


def _parse(data: bytes, file: str, shapes: Mapping[str, Sequence[int]]) -> ModuleInput:
    if not data or data.isspace():
        what = "nothing but white space" if data else "the input is empty"
        raise HloTextError(f"expected a module; {what}", line=1, column=1, file=file)
    if looks_like_stablehlo(data):
        from lowtide.frontend.stablehlo import read_stablehlo

        return ModuleInput(read_stablehlo(data, file, shapes), file)
    if looks_like_nnvm(data):
        from lowtide.frontend.nnvm.document import read_nnvm
        from lowtide.frontend.nnvm.module import module_of

        return ModuleInput(module_of(read_nnvm(data, file), shapes), file)
    if shapes:
        known = "ONNX models, SavedModels, StableHLO and graphs of NNVM"
        raise InputError(f"only {known} take shapes", file=file)
    if not _has_models(data):
        _refuse_foreign(data, file)
    if looks_like_tflite(data) or _has_models(data):
        from lowtide.frontend.tflite.compiling import compile_tflite
        from lowtide.frontend.tflite.model import read_tflite

        program = compile_tflite(read_tflite(data, file))
        count = len(program.module.entry.parameters)
        first = count - len(program.state)
        initial = {first + i: x.value for i, x in enumerate(program.state)}
        return ModuleInput(program.module, file, initial=initial)
    if not _is_binary(data, file):
        return ModuleInput(parse_hlo(_decode(data, file), file), file)
    return _parse_binary(data, file)


def _has_models(data: bytes) -> bool:
    """Whether bytes are an archive with TFLite models."""
    if not data.startswith(ZIP):
        return False
    from lowtide.frontend.tflite.bundle import models_in

    return bool(models_in(data))


def _refuse_foreign(data: bytes, file: str) -> None:
    if kind := foreign_kind(data):
        raise InputError(f"this is {kind}; expected {_EXPECTED}", file=file)


def _is_binary(data: bytes, file: str) -> bool:
    """Whether the file is protobuf: its name tells, or else its first bytes."""
    name = _plain_name(file)
    if name.endswith(_BINARY_SUFFIXES):
        return True
    if name.endswith(_TEXT_SUFFIXES):
        return False
    return looks_binary(data)


def _plain_name(file: str) -> str:
    """The name in small letters, without what compression appends to it."""
    name = file.lower()
    for suffix in _COMPRESSIONS:
        name = name.removesuffix(suffix)
    return name


def _decode(data: bytes, file: str) -> str:
    """Return UTF-8 text without a byte order mark; raises HloTextError at the first bad byte."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        position = error.start
    start = data.rfind(b"\n", 0, position) + 1
    end = data.find(b"\n", position)
    before = data[start:position].decode("utf-8", "replace")
    line = data[start : len(data) if end < 0 else end].decode("utf-8", "replace")
    raise HloTextError(
        f"byte 0x{data[position]:02x} is not UTF-8 text; protobuf files are told by the name .pb",
        line=data.count(b"\n", 0, position) + 1,
        column=len(before) + 1,
        excerpt=SourceText(line).excerpt(len(before)),
        file=file,
    )


def _parse_binary(data: bytes, file: str) -> ModuleInput:
    from lowtide.frontend.hlo_proto import read_snapshot
    from lowtide.frontend.tensorflow.messages import looks_like_graph

    if looks_like_graph(data):
        from lowtide.frontend.tensorflow.module import read_module

        return ModuleInput(read_module(data, file), file)
    try:
        module, arguments = read_snapshot(data, file)
    except HloProtoError as error:
        refuse_other_protobuf(data, file)
        if _plain_name(file).endswith(_BINARY_SUFFIXES):
            raise
        message = f"neither HLO text nor HLO protobuf: {error.message}"
        raise HloProtoError(message, file=file, position=error.position) from None
    return ModuleInput(module, file, _leaves(arguments) if arguments else None)


def _leaves(arguments: list[Any]) -> list[Array]:
    """The arrays in nested lists, depth first; tokens, which stand there as None, left out."""
    found: list[Array] = []
    stack = arguments[::-1]
    while stack:
        argument = stack.pop()
        if isinstance(argument, list):
            stack.extend(reversed(argument))
        elif argument is not None:
            found.append(argument)
    return found
