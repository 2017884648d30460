"""Attributes of the arguments and results of a program in StableHLO that HLO has no place for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from lowtide.ir import Module
from lowtide.ir.errors import InputError
from lowtide.ir.shape import Layout, ProgramShape, Shape, tuple_shape
from lowtide.pjrt.auto_layouts import chosen_layouts
from lowtide.pjrt.devices import MEMORY_KIND
from lowtide.pjrt.stablehlo import mlir_context, parsed
from lowtide.records import dataclass

_LAYOUT: Final = "mhlo.layout_mode"
_MEMORY: Final = "mhlo.memory_kind"
_ORDER: Final = re.compile(r"\{([\d,]*)\}")

_AUTO: Final = "auto"
"""The mode that leaves the layout to the compiler: of arguments the usual one."""

_USUAL: Final = frozenset({"", "default", _AUTO})


@dataclass(frozen=True, slots=True)
class EntryAttributes:
    """Layouts by their text and kinds of memory, of each argument and of each result; "" for none.

    Where a program has no such attributes, the four are empty.
    """

    argument_layouts: tuple[str, ...] = ()
    result_layouts: tuple[str, ...] = ()
    argument_memories: tuple[str, ...] = ()
    result_memories: tuple[str, ...] = ()


def entry_attributes(code: bytes) -> EntryAttributes:
    """Return those of a program as JAX hands it in; nothing is parsed where it has none."""
    # The names of attributes stand in the bytes as they are.
    if _LAYOUT.encode() not in code and _MEMORY.encode() not in code:
        return EntryAttributes()
    from jaxlib.mlir import ir

    library: Any = ir
    with mlir_context():
        module = parsed(code)
        (main,) = [x for x in module.body.operations if _name(x) == "main"]
        arguments = _attributes(library, main, "arg_attrs")
        results = _attributes(library, main, "res_attrs")
        return EntryAttributes(
            _texts(arguments, _LAYOUT),
            _texts(results, _LAYOUT),
            _texts(arguments, _MEMORY),
            _texts(results, _MEMORY),
        )


def _name(operation: Any) -> str:
    attributes = operation.attributes
    return str(attributes["sym_name"].value) if "sym_name" in attributes else ""


def _attributes(library: Any, function: Any, name: str) -> list[Any]:
    """The dictionaries of attributes of the arguments or results of a function."""
    if name not in function.attributes:
        return []
    return [library.DictAttr(x) for x in library.ArrayAttr(function.attributes[name])]


def _texts(dictionaries: Sequence[Any], name: str) -> tuple[str, ...]:
    return tuple([str(x[name].value) if name in x else "" for x in dictionaries])


def apply_entry_attributes(module: Module, asked: EntryAttributes) -> None:
    """Give a module the layouts that are asked for, row-major where none are.

    Those of results that are left to the compiler follow from the arguments'.

    Kinds of memory are kept as attributes of the module, which nothing but `memories_of` reads.
    Raises InputError for a layout that is no order of the dimensions.
    """
    program = module.entry_layout or module.entry.program_shape
    parameters = [
        _laid_out(shape, _at(asked.argument_layouts, i))
        for i, shape in enumerate(program.parameters)
    ]
    given, names, result = tuple(parameters), program.parameter_names, program.result
    module.entry_layout = ProgramShape(given, result, names)
    modes = list(asked.result_layouts)
    if _AUTO in modes:
        pairs = zip(modes, chosen_layouts(module), strict=True)
        modes = [str(layout) if mode == _AUTO else mode for mode, layout in pairs]
    shapes = result.tuple_shapes if result.is_tuple else (result,)
    leaves = [_laid_out(shape, _at(modes, i)) for i, shape in enumerate(shapes)]
    result = tuple_shape(leaves) if result.is_tuple else leaves[0]
    module.entry_layout = ProgramShape(given, result, names)
    kept = [(_ATTRIBUTES[0], asked.argument_memories), (_ATTRIBUTES[1], asked.result_memories)]
    added = [(name, ",".join(kinds)) for name, kinds in kept if any(kinds)]
    module.frontend_attributes = (*module.frontend_attributes, *added)


_ATTRIBUTES: Final = ("lowtide.argument_memories", "lowtide.result_memories")


def memories_of(module: Module, arguments: int, results: int) -> tuple[list[str], list[str]]:
    """Return the kind of memory of each argument and of each result."""
    kept = dict(module.frontend_attributes)
    found = []
    for name, count in zip(_ATTRIBUTES, (arguments, results), strict=True):
        kinds = kept[name].split(",") if name in kept else [""] * count
        found.append([x or MEMORY_KIND for x in kinds])
    return found[0], found[1]


def _at(texts: Sequence[str], position: int) -> str:
    return texts[position] if texts else ""


def _laid_out(shape: Shape, mode: str) -> Shape:
    if not shape.is_array:
        return shape
    if mode in _USUAL:
        return shape.with_default_layout()
    found = _ORDER.match(mode)
    order = tuple([int(x) for x in found[1].split(",") if x]) if found else ()
    if sorted(order) != list(range(shape.rank)):
        raise InputError(
            f"layout {mode} of {shape.text(layout=False)}: an order of its {shape.rank} dimensions "
            "is expected, the one that varies fastest first"
        )
    return shape.with_layout(Layout(order))
