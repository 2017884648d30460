"""StableHLO, as text, bytecode or a file of `jax.export`: JAX's library converts it to HLO."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from io import BytesIO
from typing import Any, Final

from lowtide.frontend.file_kinds import BYTECODE, looks_like_export
from lowtide.frontend.hlo_proto import read_hlo_proto
from lowtide.ir import HloTextError, InputError, Module
from lowtide.ir.source_text import SourceText
from lowtide.ir.suggestions import nearest

Shapes = Mapping[str, Sequence[int]]
"""Sizes of arguments by name: `arg0`, `arg1`, ..., as MLIR's text has them."""

_DIAGNOSTIC: Final = re.compile(r"(?:^|[ \"])-\"?:(\d+):(\d+): (?:error: )?(.*)")
"""How MLIR reports an error in the text that it was given: line, column, message."""

_MAIN: Final = "main"


def read_stablehlo(data: bytes, file: str, shapes: Shapes) -> Module:
    """Return the module that StableHLO describes, whose arguments have the sizes in `shapes`.

    Raises InputError where the package jax is missing, for what it does not read, and where
    sizes are unknown, all of them.
    """
    try:
        from jaxlib import _jax
        from jaxlib.mlir.ir import MLIRError
    except ImportError as error:
        message = "reading StableHLO takes the package jax: pip install 'lowtide[jax]'"
        raise InputError(message, file=file) from error
    library: Any = _jax
    errors: Any = (MLIRError, RuntimeError, ValueError, TypeError, IndexError, ArithmeticError)
    try:
        code = _exported(data) if looks_like_export(data) else data
        code = _with_known_sizes(code, file, shapes, library)
        converted = library.mlir.mlir_module_to_xla_computation(
            code, use_tuple_args=False, return_tuple=False
        )
        proto: bytes = converted.as_serialized_hlo_module_proto()
    except errors as error:
        raise _refusal(error, data, file) from None
    module = read_hlo_proto(proto, file)
    _name_lines(module, file)
    return module


def _name_lines(module: Module, file: str) -> None:
    """Have lines of the text itself be lines of that file; MLIR calls it `-`."""
    for computation in module.computations.values():
        for instruction in computation.instructions.values():
            metadata = instruction.metadata
            if metadata.source_file == "-":
                instruction.set_metadata(replace(metadata, source_file=file))


def _exported(data: bytes) -> bytes:
    """The bytecode of a function that `jax.export` serialized; raises ValueError."""
    import struct

    from jax import export

    try:
        found: Any = export.deserialize(bytearray(data))
    except struct.error as error:
        raise ValueError(f"the file is cut off or damaged: {error}") from None
    if len(found.platforms) > 1:
        raise ValueError(
            f"exported for the platforms {', '.join(found.platforms)} at once; export it for one, "
            "or call lowtide.jit(exported.call)"
        )
    code: bytes = found.mlir_module_serialized
    return code


def _with_known_sizes(code: bytes, file: str, shapes: Shapes, library: Any) -> bytes:
    """A module whose sizes are all known: they follow from those of its arguments."""
    from jax._src.interpreters import mlir
    from jaxlib.mlir import ir

    make_context: Any = mlir.make_ir_context
    languages: Any = ir
    with make_context() as context, languages.Location.unknown():
        context.attach_diagnostic_handler(lambda _: True)  # Else it is printed, too.
        module = _parsed(code, languages)
        main = _main_of(module, languages)
        arguments = list(main.regions[0].blocks[0].arguments)
        _check_names(len(arguments), shapes, file)
        before = [str(x.type) for x in arguments]
        _resize(arguments, shapes, file, languages.RankedTensorType)
        if [str(x.type) for x in arguments] == before:
            return code
        results = languages.FunctionType(main.attributes["function_type"].value).results
        signature = languages.FunctionType.get([x.type for x in arguments], results)
        main.attributes["function_type"] = languages.TypeAttr.get(signature)
        written = BytesIO()
        module.operation.write_bytecode(file=written)
    refined: bytes = library.mlir.refine_polymorphic_shapes(
        mlir_module=written.getvalue(),
        enable_shape_assertions=True,
        validate_static_shapes=True,
        enable_shardy=True,
    )
    return refined


def _check_names(count: int, shapes: Shapes, file: str) -> None:
    """Raise InputError where sizes are given for no argument."""
    names = [f"arg{number}" for number in range(count)]
    for name in sorted(set(shapes) - set(names)):
        close = nearest(name, names)
        raise InputError(f"no argument {name!r}{close}; there are {', '.join(names)}", file=file)


def _resize(arguments: Sequence[Any], shapes: Shapes, file: str, tensor: Any) -> None:
    """Have arguments the sizes that are given; raises InputError where some are still unknown."""
    missing = []
    for number, argument in enumerate(arguments):
        name, type_ = f"arg{number}", argument.type
        if not isinstance(type_, tensor):
            continue
        if name in shapes:
            _check_sizes(name, type_, shapes[name], file)
            _give(argument, tensor.get(list(shapes[name]), type_.element_type))
        elif not type_.has_static_shape:
            missing.append(f"{name}, a {type_}")
    if missing:
        first = missing[0].split(",")[0]
        known = f"give them with --shape {first}=..., or call lowtide.jit(exported.call)"
        raise InputError(f"sizes are unknown of {'; of '.join(missing)}: {known}", file=file)


def _give(argument: Any, type_: Any) -> None:
    """Have an argument a type; the function reads it as one of the type that it had."""
    from jaxlib.mlir.dialects import stablehlo
    from jaxlib.mlir.ir import InsertionPoint

    library: Any = stablehlo
    before = argument.type
    if type_ == before:
        return
    argument.set_type(type_)
    with InsertionPoint.at_block_begin(argument.owner):
        taken = library.ConvertOp(before, argument)
    argument.replace_all_uses_except(taken.result, taken.operation)


def _parsed(code: bytes, languages: Any) -> Any:
    """A module in the current context; raises what MLIR raises."""
    if not code.startswith(BYTECODE):
        return languages.Module.parse(code.decode("utf-8"))
    from jaxlib.mlir.dialects import stablehlo

    read: Any = stablehlo.deserialize_portable_artifact
    try:
        return read(languages.Context.current, code)
    except RuntimeError:
        return languages.Module.parse(code)


def _main_of(module: Any, languages: Any) -> Any:
    """The function that a module begins with; raises ValueError where there is none."""
    found = []
    for x in module.body.operations:
        if x.operation.name == "func.func":
            name = languages.StringAttr(x.operation.attributes["sym_name"]).value
            if name == _MAIN:
                return x.operation
            found.append(f"@{name}")
    raise ValueError(f"expected a function @{_MAIN}, found {', '.join(found) or 'none'}")


def _check_sizes(name: str, type_: Any, sizes: Sequence[int], file: str) -> None:
    """Raise InputError where sizes are not ones that a type leaves open."""
    fits = len(sizes) == type_.rank and all(
        type_.is_dynamic_dim(axis) or type_.get_dim_size(axis) == size
        for axis, size in enumerate(sizes)
    )
    if not fits:
        given = ",".join(map(str, sizes))
        raise InputError(f"argument {name} is {type_}, which has no sizes {given}", file=file)


def _refusal(error: Exception, data: bytes, file: str) -> InputError:
    """What the library said of a module, in one line, with the place in its text."""
    for line in str(error).splitlines():
        if found := _DIAGNOSTIC.search(line):
            row, column, message = int(found[1]), int(found[2]), found[3]
            lines = data.decode("utf-8", "replace").splitlines()
            if not 0 < row <= len(lines) or data.startswith(BYTECODE):
                return InputError(f"not StableHLO that is read: {message}", file=file)
            excerpt = SourceText(lines[row - 1]).excerpt(column - 1)
            return HloTextError(message, line=row, column=column, excerpt=excerpt, file=file)
    first = (str(error).splitlines() or [type(error).__name__])[0]
    return InputError(f"not StableHLO that is read: {first}", file=file)
