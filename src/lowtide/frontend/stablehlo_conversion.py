"""StableHLO made HLO by JAX's library, in a process that it may end without ending another one.

The library is written in C++ and trusts the bytecode that it reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from lowtide.frontend.file_kinds import BYTECODE, looks_like_export
from lowtide.ir import InputError
from lowtide.processes.child import Answer
from lowtide.suggestions import nearest

Shapes = Mapping[str, Sequence[int]]
"""Sizes of arguments by name: `arg0`, `arg1`, ..., as MLIR's text has them."""

MADE: Final = 0
"""Of an answer that is the module in protobuf."""

WRONG: Final = 1
"""Of an answer that is what lowtide says is wrong."""

REFUSED: Final = 2
"""Of an answer that is what the library says is wrong."""

_ERRORS: Final = (RuntimeError, ValueError, TypeError, IndexError, ArithmeticError)
"""What the library raises, besides an error of its own."""

_COUNTS: Final = {"mhlo.num_replicas": "replica_count", "mhlo.num_partitions": "num_partitions"}
"""Attributes of a module that count devices, each with its field of a HloModuleConfigProto."""

_MAIN: Final = "main"

_HIDDEN: Final = ("private", "nested")
"""How MLIR says that a symbol is not for those who use a module."""

_HOST: Final = "cpu"
"""JAX's name of the platform whose code is read where a function was exported for several."""


def answers(shapes: Shapes) -> tuple[Answer, None]:
    """Return what converts the files that it is asked for, for as long as it is asked."""
    return lambda _, data: answer(data, shapes), None


def answer(data: bytes, shapes: Shapes) -> tuple[int, bytes]:
    """Return what an answer is, and the module in protobuf or what is wrong with it."""
    try:
        return MADE, converted(data, shapes)
    except InputError as error:
        return WRONG, error.message.encode()
    except Exception as error:
        if not isinstance(error, _ERRORS) and type(error).__name__ != "MLIRError":
            raise
        return REFUSED, (str(error) or type(error).__name__).encode()


def converted(data: bytes, shapes: Shapes) -> bytes:
    """Return a module of HLO in protobuf, the sizes of its arguments those of `shapes`.

    One for several devices has their counts beside it, as a HloModuleProtoWithConfig. Raises
    InputError where the package jax is missing, and where sizes are unknown, all of them; and what
    the library raises.
    """
    try:
        from lowtide.frontend import stablehlo_library
    except ImportError as error:
        message = "reading StableHLO takes the package jax: pip install 'lowtide[jax]'"
        raise InputError(message) from error
    code, platform = exported_code(data) if looks_like_export(data) else (data, None)
    known, counts = _with_known_arguments(code, shapes, platform)
    return _with_counts(stablehlo_library.hlo_of(known), counts)


def _with_counts(module: bytes, counts: Mapping[str, int]) -> bytes:
    """A module in protobuf with how many devices it is for, which the library leaves out.

    How arguments and results lie that have no sharding is left to the partitioner, as JAX does.
    """
    if all(count == 1 for count in counts.values()):
        return module
    from lowtide.frontend.hlo_proto.messages import new_message, parse_message, serialize

    made = new_message("HloModuleProtoWithConfig")
    made.hlo_module.CopyFrom(parse_message("HloModuleProto", module))
    for field, count in counts.items():
        setattr(made.config, field, count)
    made.config.allow_spmd_sharding_propagation_to_parameters.append(True)
    made.config.allow_spmd_sharding_propagation_to_output.append(True)
    return serialize(made)


def exported_code(data: bytes) -> tuple[bytes, int | None]:
    """Return the bytecode of a function that `jax.export` serialized, and the number of a platform.

    Of several platforms the function takes the number as its first argument: it is that of CPUs,
    where they are among them. Raises ValueError for a file that is damaged.
    """
    from jax import export

    try:
        found: Any = export.deserialize(bytearray(data))
    except ImportError as error:
        message = "reading what jax.export wrote takes flatbuffers: pip install 'lowtide[jax]'"
        raise InputError(message) from error
    except Exception as error:  # Whatever comes of following offsets that lead anywhere.
        reason = str(error) or type(error).__name__
        raise ValueError(f"the file is cut off or damaged: {reason}") from None
    code: bytes = found.mlir_module_serialized
    platforms: Sequence[str] = found.platforms
    if len(platforms) == 1:
        return code, None
    return code, platforms.index(_HOST) if _HOST in platforms else 0


def _with_known_arguments(
    code: bytes, shapes: Shapes, platform: int | None
) -> tuple[bytes, dict[str, int]]:
    """A module whose sizes are all known, as they follow from its arguments', and its `_COUNTS`.

    With the number of a platform the first argument is that, and the others are counted from 0.
    """
    from jax._src.interpreters import mlir
    from jaxlib.mlir import ir

    from lowtide.frontend import stablehlo_library as library

    make_context: Any = mlir.make_ir_context
    languages: Any = ir
    with make_context() as context, languages.Location.unknown():
        context.attach_diagnostic_handler(lambda _: True)  # Else it is printed, too.
        module = _parsed(code, languages)
        counts = _counts(module, languages)
        main = _main_of(module, languages)
        is_renamed = _rename(main, languages)
        block = main.regions[0].blocks[0]
        if platform is not None:
            _fix_first(main, platform, languages)
        arguments = list(block.arguments)
        _check_names(len(arguments), shapes)
        before = [str(x.type) for x in arguments]
        _resize(arguments, shapes, languages.RankedTensorType)
        if platform is None and [str(x.type) for x in arguments] == before:
            return library.bytecode_of(module) if is_renamed else code, counts
        results = languages.FunctionType(main.attributes["function_type"].value).results
        signature = languages.FunctionType.get([x.type for x in arguments], results)
        main.attributes["function_type"] = languages.TypeAttr.get(signature)
        return library.with_inferred_sizes(library.bytecode_of(module)), counts


def _counts(module: Any, languages: Any) -> dict[str, int]:
    """How many replicas and partitions a module says that it is for, by `_COUNTS`."""
    said = module.operation.attributes
    return {
        field: languages.IntegerAttr(said[key]).value if key in said else 1
        for key, field in _COUNTS.items()
    }


def _fix_first(main: Any, value: int, languages: Any) -> None:
    """Have a constant in place of the first argument, an integer; its type is not changed yet."""
    from jaxlib.mlir.dialects import stablehlo
    from jaxlib.mlir.ir import InsertionPoint

    library: Any = stablehlo
    block = main.regions[0].blocks[0]
    first = block.arguments[0]
    with InsertionPoint.at_block_begin(block):
        number = languages.DenseElementsAttr.get_splat(
            first.type, languages.IntegerAttr.get(first.type.element_type, value)
        )
        first.replace_all_uses_with(library.constant(number))
    block.erase_argument(0)
    if "arg_attrs" in main.attributes:
        told = list(main.attributes["arg_attrs"])
        main.attributes["arg_attrs"] = languages.ArrayAttr.get(told[1:])


def _check_names(count: int, shapes: Shapes) -> None:
    """Raise InputError where sizes are given for no argument."""
    names = [f"arg{number}" for number in range(count)]
    for name in sorted(set(shapes) - set(names)):
        close = nearest(name, names)
        raise InputError(f"no argument {name!r}{close}; there are {', '.join(names)}")


def _resize(arguments: Sequence[Any], shapes: Shapes, tensor: Any) -> None:
    """Have arguments the sizes that are given; raises InputError where some are still unknown."""
    missing = []
    for number, argument in enumerate(arguments):
        name, type_ = f"arg{number}", argument.type
        if not isinstance(type_, tensor):
            continue
        if name in shapes:
            _check_sizes(name, type_, shapes[name])
            _give(argument, tensor.get(list(shapes[name]), type_.element_type))
        elif not type_.has_static_shape:
            missing.append(f"{name}, a {type_}")
    if missing:
        first = missing[0].split(",")[0]
        known = f"give them with --shape {first}=..., or call lowtide.jit(exported.call)"
        raise InputError(f"sizes are unknown of {'; of '.join(missing)}: {known}")


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
    """The function that a module begins with; raises ValueError where there is none.

    That is `main`, or the only one that is public, whatever its name.
    """
    found = {}
    for x in module.body.operations:
        if x.operation.name != "func.func" or _is_hidden(x.operation.attributes, languages):
            continue
        name = languages.StringAttr(x.operation.attributes["sym_name"]).value
        if name == _MAIN:
            return x.operation
        found[name] = x.operation
    if len(found) != 1:
        listed = ", ".join([f"@{name}" for name in found]) or "none"
        raise ValueError(f"expected a function @{_MAIN} or one public function, found {listed}")
    return next(iter(found.values()))


def _is_hidden(attributes: Any, languages: Any) -> bool:
    """Whether a function is one for others of its module only."""
    key = "sym_visibility"
    return key in attributes and languages.StringAttr(attributes[key]).value in _HIDDEN


def _rename(function: Any, languages: Any) -> bool:
    """Have a function the name that the library begins with; return whether it had another."""
    name = languages.StringAttr(function.attributes["sym_name"])
    if name.value == _MAIN:
        return False
    function.attributes["sym_name"] = languages.StringAttr.get(_MAIN)
    return True


def _check_sizes(name: str, type_: Any, sizes: Sequence[int]) -> None:
    """Raise InputError where sizes are not ones that a type leaves open."""
    fits = len(sizes) == type_.rank and all(
        type_.is_dynamic_dim(axis) or type_.get_dim_size(axis) == size
        for axis, size in enumerate(sizes)
    )
    if not fits:
        given = ",".join(map(str, sizes))
        raise InputError(f"argument {name} is {type_}, which has no sizes {given}")
