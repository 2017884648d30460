"""Shapes and layouts in HLO text."""

from __future__ import annotations

from typing import Final

from lowtide.frontend.hlo_text.lexer import MAX_LIST, Lexer, TokenKind
from lowtide.ir.element_type import BY_KEYWORD, ElementType
from lowtide.ir.shape import (
    COMBINE,
    OPAQUE,
    TOKEN,
    UNBOUNDED,
    DimensionLevel,
    Layout,
    Shape,
    ShapeIndex,
    SplitConfig,
    array_shape,
    buffer_shape,
    can_be_array,
    tuple_shape,
)
from lowtide.records.late import late_pattern

_PLAIN_ARRAY: Final = late_pattern(r"[a-z]\w*+\[[\d,]*+\](?:\{[\d,]*+\}|(?!\s*+\{))")
"""An array shape without extras, which is looked up by its text."""


def parse_shape(lexer: Lexer) -> Shape:
    """Take a shape; without a layout in the text an array is row major."""
    if lexer.at("("):
        return _parse_tuple(lexer)
    if lexer.kind is TokenKind.IDENTIFIER and lexer.value == "b":
        return _parse_buffer(lexer)
    if lexer.kind is not TokenKind.PRIMITIVE_TYPE:
        hint = ""
        if lexer.kind is TokenKind.IDENTIFIER:
            lexer.choice(str(lexer.value), BY_KEYWORD, "element type", lexer.start)
        lexer.expect_fail(f"a shape{hint}")
    match = _PLAIN_ARRAY.match(lexer.text, lexer.start)
    known = lexer.shapes.get(match[0]) if match is not None else None
    if match is not None and known is not None:
        lexer.seek(match.end())
        return known
    shape = _parse_array(lexer)
    if match is not None and lexer.previous_end == match.end():
        lexer.shapes[match[0]] = shape
    return shape


def _parse_array(lexer: Lexer) -> Shape:
    start = lexer.start
    element_type = BY_KEYWORD[str(lexer.value)]
    lexer.advance()
    dimensions, dynamic = _parse_dimensions(lexer, element_type.nbytes)
    if not element_type.is_array:
        if dimensions:
            lexer.fail(f"{element_type.value} has no dimensions", start)
        _skip_empty_layout(lexer)
        return TOKEN if element_type is ElementType.TOKEN else OPAQUE
    layout = _parse_layout_after(lexer, len(dimensions), start)
    return array_shape(element_type, dimensions, layout, dynamic)


def _parse_tuple(lexer: Lexer) -> Shape:
    lexer.enter()
    lexer.expect("(")
    elements = []
    for _ in lexer.elements(")"):
        elements.append(parse_shape(lexer))
        if len(elements) > MAX_LIST:
            lexer.fail(f"a tuple has more than {MAX_LIST} elements")
    lexer.expect(")", "at the end of the tuple shape")
    lexer.leave()
    return tuple_shape(elements)


def _parse_buffer(lexer: Lexer) -> Shape:
    start = lexer.start
    lexer.advance()
    lexer.expect("(", "after the buffer type b")
    array = parse_shape(lexer)
    lexer.expect(")", "at the end of the buffer shape")
    if not array.is_array:
        lexer.fail("a buffer shape holds an array", start)
    return buffer_shape(array)


def _parse_dimensions(lexer: Lexer, item_bytes: int) -> tuple[tuple[int, ...], tuple[bool, ...]]:
    lexer.expect("[", "after the element type")
    sizes: list[int] = []
    dynamic: list[bool] = []
    for _ in lexer.elements("]"):
        start = lexer.start
        if lexer.eat("?"):
            sizes.append(UNBOUNDED)
            dynamic.append(True)
        else:
            bounded = lexer.eat("<=")
            size = lexer.integer("a dimension size")
            if size < 0:
                lexer.fail(f"a dimension has size {size}, expected 0 or more", start)
            sizes.append(size)
            dynamic.append(bounded)
    lexer.expect("]", "at the end of the dimensions")
    if not can_be_array(sizes, item_bytes):
        lexer.fail("the array takes more than 2^63 bytes", lexer.previous_end - 1)
    return tuple(sizes), tuple(dynamic)


def _starts_layout(lexer: Lexer) -> bool:
    """Whether the current '{' opens a layout and not, say, the body of a computation."""
    if not lexer.at("{"):
        return False
    position = lexer.end
    text = lexer.text
    while position < len(text) and text[position] in " \t\r\n":
        position += 1
    following = text[position : position + 1]
    return following.isdigit() or following in ("-", ":")


def _skip_empty_layout(lexer: Lexer) -> None:
    if lexer.at("{") and lexer.text[lexer.end : lexer.end + 1] == "}":
        lexer.advance()
        lexer.advance()


def _parse_layout_after(lexer: Lexer, rank: int, start: int) -> Layout | None:
    if _starts_layout(lexer):
        layout = parse_layout(lexer)
        if len(layout.minor_to_major) != rank:
            found = len(layout.minor_to_major)
            lexer.fail(f"the layout has {found} dimensions, the shape {rank}", start)
        if sorted(layout.minor_to_major) != list(range(rank)):
            lexer.fail("a layout lists each dimension number once", start)
        if layout.physical_shape is not None:
            # XLA has no sparse arrays any more, and takes `D(...)` without keeping it.
            lexer.fail("a physical shape belongs to sparse layouts only", start)
        return layout
    if rank == 0 and lexer.at("{") and lexer.text[lexer.end : lexer.end + 1] == "}":
        following = lexer.text[lexer.end + 1 : lexer.end + 2]
        if following in (" ", ",", ")", ""):
            lexer.advance()
            lexer.advance()
    return None


def parse_layout(lexer: Lexer) -> Layout:
    """Take a layout in braces."""
    lexer.expect("{")
    order = _integers_until(lexer, (":", "}"))
    fields: dict[str, object] = {}
    if lexer.eat(":"):
        place = -1
        while not lexer.at("}"):
            start = lexer.start
            key = _parse_layout_extra(lexer, fields)
            if _EXTRAS.index(key) <= place:
                order_text = ", ".join(_EXTRAS)
                lexer.fail(f"layout properties stand once each in the order {order_text}", start)
            place = _EXTRAS.index(key)
    lexer.expect("}", "at the end of the layout")
    return Layout(tuple(order), **fields)  # type: ignore[arg-type]


def _integers_until(lexer: Lexer, ends: tuple[str, ...]) -> list[int]:
    values: list[int] = []
    while not any(lexer.at(end) for end in ends):
        values.append(lexer.integer("a dimension number"))
        if not lexer.eat(","):
            break
    return values


_EXTRAS: Final = ("D", "T", "L", "#", "*", "E", "S", "SC", "P", "M")
"""The properties of a layout in the order in which they stand."""


def _parse_layout_extra(lexer: Lexer, fields: dict[str, object]) -> str:
    """Take one property and return what it begins with."""
    start = lexer.start
    if lexer.eat("#"):
        fields["index_primitive_type"] = _parse_type_in_parentheses(lexer)
        return "#"
    if lexer.eat("*"):
        fields["pointer_primitive_type"] = _parse_type_in_parentheses(lexer)
        return "*"
    key = lexer.identifier("a layout property such as T(...) or S(...)")
    match key:
        case "D":
            fields["dimension_levels"] = _parse_levels(lexer)
        case "T":
            fields["tiles"] = _parse_tiles(lexer)
        case "L":
            fields["tail_padding_alignment"] = _parse_one(lexer)
        case "E":
            fields["element_size_in_bits"] = _parse_one(lexer)
        case "S":
            fields["memory_space"] = _parse_one(lexer)
        case "SC":
            fields["split_configs"] = _parse_splits(lexer)
        case "P":
            lexer.expect("(")
            fields["physical_shape"] = parse_shape(lexer)
            lexer.expect(")")
        case "M":
            fields["dynamic_metadata_prefix_bytes"] = _parse_one(lexer)
        case _:
            lexer.fail(f"unknown layout property {key!r}", start)
    return key


def _parse_one(lexer: Lexer) -> int:
    lexer.expect("(")
    value = lexer.integer()
    lexer.expect(")")
    return value


def _parse_type_in_parentheses(lexer: Lexer) -> ElementType:
    lexer.expect("(")
    if lexer.kind is not TokenKind.PRIMITIVE_TYPE:
        lexer.expect_fail("an element type")
    element_type = BY_KEYWORD[str(lexer.value)]
    lexer.advance()
    lexer.expect(")")
    return element_type


def _parse_levels(lexer: Lexer) -> tuple[DimensionLevel, ...]:
    lexer.expect("(")
    levels = []
    for _ in lexer.elements(")"):
        start = lexer.start
        kind = lexer.identifier("a dimension level: D, C, S or H")
        if kind not in ("D", "C", "S", "H"):
            lexer.fail(f"expected a dimension level D, C, S or H, found {kind!r}", start)
        unique = not lexer.eat("+")
        ordered = not lexer.eat("~")
        levels.append(DimensionLevel(kind, unique, ordered))
    lexer.expect(")")
    return tuple(levels)


def _parse_tiles(lexer: Lexer) -> tuple[tuple[int, ...], ...]:
    tiles = []
    while lexer.eat("("):
        sizes = [
            COMBINE if lexer.eat("*") else lexer.integer("a tile size") for _ in lexer.elements(")")
        ]
        lexer.expect(")", "at the end of the tile")
        tiles.append(tuple(sizes))
    return tuple(tiles)


def _parse_splits(lexer: Lexer) -> tuple[SplitConfig, ...]:
    splits = []
    while lexer.eat("("):
        dimension = lexer.integer("a dimension number")
        lexer.expect(":")
        indices = _integers_until(lexer, (")",))
        lexer.expect(")")
        splits.append(SplitConfig(dimension, tuple(indices)))
    return tuple(splits)


def parse_shape_index(lexer: Lexer) -> ShapeIndex:
    """Take a path into a tuple, `{1,0}`."""
    return lexer.integers("{}", "an index")
