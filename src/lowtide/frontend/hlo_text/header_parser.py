"""The first line of a module, `HloModule name, key=value, ...`, and the modules in its table."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import lowtide.frontend.hlo_text.attribute_parser as value
from lowtide.frontend.hlo_text.lexer import Lexer, TokenKind
from lowtide.frontend.hlo_text.shape_parser import parse_shape, parse_shape_index
from lowtide.ir.module import BufferDonor, InputOutputAlias, Module
from lowtide.ir.shape import ProgramShape, Shape, major_to_minor
from lowtide.ir.strings import escape, unescape
from lowtide.records.late import late_pattern

_LARGEST_COUNT: Final = 2**31 - 1


def parse_header(lexer: Lexer) -> tuple[Module, bool]:
    """Take the header and return a module without computations, and whether it is scheduled."""
    lexer.keyword("HloModule")
    module = Module(lexer.name("the name of the module"))
    fields: dict[str, object] = {}
    while lexer.eat(","):
        start = lexer.start
        key = lexer.attribute_name("a module attribute such as is_scheduled=")
        lexer.choice(key, _FIELDS, "module attribute", start)
        if key in fields:
            lexer.fail(f"the module has {key} twice", start)
        lexer.source.fields[key] = start
        fields[key] = _FIELDS[key](lexer)
    for key, field_value in fields.items():
        if key != "is_scheduled":
            setattr(module, _SLOTS.get(key, key), field_value)
    return module, bool(fields.get("is_scheduled"))


def default_entry_layout(module: Module, *, is_instruction: bool) -> ProgramShape:
    """Return the layouts of arguments and results for a text that does not say them.

    They are those of the instructions. Where the text is an instruction by itself, and where the
    header configures how the module is run, as on several devices, XLA takes dimensions in
    row-major order.
    """
    program = module.entry.program_shape
    configured = (
        is_instruction
        or module.replica_count > 1
        or module.num_partitions > 1
        or module.alias_passthrough_params
        or bool(module.allow_spmd_sharding_propagation_to_parameters)
        or bool(module.allow_spmd_sharding_propagation_to_output)
    )
    if not configured:
        return ProgramShape(program.parameters, program.result)
    return ProgramShape(
        tuple([shape.with_leaves(_row_major) for shape in program.parameters]),
        program.result.with_leaves(_row_major),
    )


def _row_major(shape: Shape) -> Shape:
    if shape.layout is None:
        return shape
    order = major_to_minor(shape.rank).minor_to_major
    return shape.with_layout(replace(shape.layout, minor_to_major=order))


def _count(lexer: Lexer) -> int:
    start = lexer.start
    count = lexer.integer()
    if not 1 <= count <= _LARGEST_COUNT:
        lexer.fail(f"expected a count from 1 to {_LARGEST_COUNT}, found {count}", start)
    return count


def _parse_aliases(lexer: Lexer) -> tuple[InputOutputAlias, ...]:
    lexer.expect("{")
    aliases: dict[InputOutputAlias, None] = {}
    while lexer.at("{"):
        output_index = parse_shape_index(lexer)
        lexer.expect(":", "behind the output index")
        lexer.expect("(")
        parameter = _parameter(lexer)
        lexer.expect(",")
        index = parse_shape_index(lexer)
        must = False
        if lexer.eat(","):
            start = lexer.start
            kind = lexer.identifier("may-alias or must-alias")
            lexer.choice(kind, ("may-alias", "must-alias"), "alias kind", start)
            must = kind == "must-alias"
        lexer.expect(")", "at the end of the alias")
        aliases[InputOutputAlias(output_index, parameter, index, must)] = None
        if not lexer.eat(","):
            break
    lexer.expect("}", "at the end of input_output_alias")
    return tuple(sorted(aliases, key=lambda alias: alias.output_index))


def _parameter(lexer: Lexer) -> int:
    start = lexer.start
    number = lexer.integer("a parameter number")
    if number < 0:
        lexer.fail("a parameter number is 0 or more", start)
    return number


def _parse_donors(lexer: Lexer) -> tuple[BufferDonor, ...]:
    lexer.expect("{")
    donors: dict[BufferDonor, None] = {}
    while lexer.eat("("):
        parameter = _parameter(lexer)
        lexer.expect(",")
        donors[BufferDonor(parameter, parse_shape_index(lexer))] = None
        lexer.expect(")", "at the end of the donor")
        if not lexer.eat(","):
            break
    lexer.expect("}", "at the end of buffer_donor")
    return tuple(sorted(donors, key=lambda d: (d.parameter, d.parameter_index)))


def _parse_entry_layout(lexer: Lexer) -> ProgramShape:
    lexer.expect("{")
    lexer.expect("(")
    parameters = [parse_shape(lexer) for _ in lexer.elements(")")]
    lexer.expect(")")
    lexer.expect("->")
    result = parse_shape(lexer)
    lexer.expect("}", "at the end of entry_computation_layout")
    return ProgramShape(tuple(parameters), result)


def _parse_recovery_table(lexer: Lexer) -> str:
    if not lexer.at("{"):
        lexer.expect_fail("'{' at the start of the table")
    return lexer.json_dictionary()[1:-1]


_FIELDS: Final[dict[str, Callable[[Lexer], object]]] = {
    "is_scheduled": value.boolean,
    "replica_count": _count,
    "num_partitions": _count,
    "input_output_alias": _parse_aliases,
    "buffer_donor": _parse_donors,
    "alias_passthrough_params": value.boolean,
    "entry_computation_layout": _parse_entry_layout,
    "frontend_attributes": value.frontend_attributes,
    "debug_attributes": value.frontend_attributes,
    "allow_spmd_sharding_propagation_to_parameters": value.braced_booleans,
    "allow_spmd_sharding_propagation_to_output": value.braced_booleans,
    "origin_recovery_table": _parse_recovery_table,
}
_SLOTS: Final = {
    "input_output_alias": "input_output_aliases",
    "buffer_donor": "buffer_donors",
    "entry_computation_layout": "entry_layout",
}


def starts_module(lexer: Lexer) -> bool:
    """Whether the text holds computations, with a header or without one."""
    if lexer.at_keyword("HloModule") or lexer.at_keyword("ENTRY"):
        return True
    if lexer.kind not in (TokenKind.IDENTIFIER, TokenKind.NAME):
        return False
    following = Lexer(lexer.text, lexer.source.file, start=lexer.end)
    return following.at("{") or _is_signature(following)


def _is_signature(lexer: Lexer) -> bool:
    """Whether a parenthesis opens the parameters of a computation: `name (x: f32[]) -> ...`."""
    if not lexer.at("("):
        return False
    lexer.advance()
    return lexer.at(")") or lexer.kind is TokenKind.NAME


_NESTED: Final = late_pattern(r'"(\s*HloModule[^"\\]*+(?:\\.[^"\\]*+)*+)"', re.DOTALL)


def normalize_recovery_table(text: str, parse: Callable[[str], Module]) -> str:
    """Return the table with each module in it printed canonically, indented by four.

    `parse` reads a nested module. Raises HloTextError, with a place in the nested text, and
    ValueError for a bad escape.
    """

    def replace(match: re.Match[str]) -> str:
        lines = str(parse(unescape(match[1]))).split("\n")
        body = "\n".join([f"    {escape(line)}" if line else "" for line in lines])
        return f'"\n{body}\n  "'

    return _NESTED.sub(replace, text)
