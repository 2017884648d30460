"""StableHLO, as text, bytecode or a file of `jax.export`: JAX's library converts it to HLO."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from lowtide.frontend import stablehlo_conversion
from lowtide.frontend.file_kinds import BYTECODE
from lowtide.frontend.hlo_proto import read_hlo_proto
from lowtide.frontend.stablehlo_conversion import MADE, REFUSED, Shapes
from lowtide.ir import HloTextError, InputError, Module
from lowtide.ir.source_text import SourceText
from lowtide.processes.child import Child, ChildEndedError, can_begin_children

_DIAGNOSTIC: Final = re.compile(r"(?:^|[ \"])-\"?:(\d+):(\d+): (?:error: )?(.*)")
"""How MLIR reports an error in the text that it was given: line, column, message."""

_QUANT: Final = '!"quant"<'
"""What a type of the dialect `quant`, which JAX's library lacks, begins with in its errors."""

_QUANTIZED: Final = (
    "quantized types (!quant.uniform) are not read: have them made integers, by "
    "stablehlo-opt --stablehlo-legalize-quant-to-math"
)

_SERVER: Final = f"{stablehlo_conversion.__name__}:answers"


def read_stablehlo(data: bytes, file: str, shapes: Shapes) -> Module:
    """Return the module that StableHLO describes, whose arguments have the sizes in `shapes`.

    Raises InputError where the package jax is missing, for what it does not read, and where
    sizes are unknown, all of them.
    """
    kind, said = _asked(data, file, shapes)
    if kind == REFUSED:
        raise _refusal(said.decode(), data, file)
    if kind != MADE:
        raise InputError(said.decode(), file=file)
    module = read_hlo_proto(said, file)
    module.lay_out_entry_by_default()  # StableHLO's arrays have no layouts; HLO's guess some.
    _name_lines(module, file)
    return module


def _asked(data: bytes, file: str, shapes: Shapes) -> tuple[int, bytes]:
    """The answer of a process that converts; of this one in an application without a Python."""
    if not can_begin_children():
        return stablehlo_conversion.answer(data, shapes)
    converter = Child(_SERVER, {name: list(sizes) for name, sizes in shapes.items()})
    try:
        return converter.ask(0, data)
    except ChildEndedError as error:
        reason = f"signal {-error.status}" if error.status < 0 else error.lines[-1]
        raise InputError(
            f"JAX's library, which reads StableHLO, ended while it did ({reason}); the file may be "
            "damaged",
            file=file,
        ) from None
    finally:
        converter.end()


def _name_lines(module: Module, file: str) -> None:
    """Have lines of the text itself be lines of that file; MLIR calls it `-`."""
    for computation in module.computations.values():
        for instruction in computation.instructions.values():
            metadata = instruction.metadata
            if metadata.source_file == "-":
                instruction.set_metadata(replace(metadata, source_file=file))


def _refusal(said: str, data: bytes, file: str) -> InputError:
    """What the library said of a module, in one line, with the place in its text."""
    for line in said.splitlines():
        if found := _DIAGNOSTIC.search(line):
            row, column, message = int(found[1]), int(found[2]), found[3]
            message = _QUANTIZED if _QUANT in message else message
            lines = data.decode("utf-8", "replace").splitlines()
            if not 0 < row <= len(lines) or data.startswith(BYTECODE):
                return InputError(f"not StableHLO that is read: {message}", file=file)
            excerpt = SourceText(lines[row - 1]).excerpt(column - 1)
            return HloTextError(message, line=row, column=column, excerpt=excerpt, file=file)
    first = said.partition("\n")[0]
    return InputError(f"not StableHLO that is read: {first}", file=file)
