"""The values of instruction attributes in HLO text, one function per form of value."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable
from typing import Final

from lowtide.frontend.hlo_text.lexer import Lexer, TokenKind
from lowtide.frontend.hlo_text.shape_parser import parse_shape, parse_shape_index
from lowtide.frontend.hlo_text.sharding_parser import parse_integer_groups, parse_sharding
from lowtide.ir.annotations import ResultAccuracy, Statistics
from lowtide.ir.attributes import (
    Aliasing,
    ConvolutionDimensions,
    Domain,
    DotAlgorithm,
    PaddingDimension,
    Precision,
    Slice,
    Window,
    WindowDimension,
)
from lowtide.ir.shape import Shape
from lowtide.ir.strings import quote_readable
from lowtide.records.late import late_pattern


def integer(lexer: Lexer) -> int:
    """Take an integer."""
    return lexer.integer()


def boolean(lexer: Lexer) -> bool:
    """Take true or false."""
    return lexer.boolean()


def single(lexer: Lexer) -> float:
    """Take a decimal number; as in XLA it becomes a 32-bit float."""
    (rounded,) = struct.unpack("f", struct.pack("f", min(max(lexer.number(), -3e38), 3e38)))
    assert isinstance(rounded, float)
    return rounded


def string(lexer: Lexer) -> str:
    """Take a string."""
    return lexer.string()


def data(lexer: Lexer) -> bytes:
    """Take the bytes of a string, which need not be UTF-8."""
    return lexer.string().encode("utf-8", "surrogateescape")


def tri_state(lexer: Lexer) -> bool | None:
    """Take true, false or unknown."""
    if lexer.at_keyword("unknown"):
        lexer.advance()
        return None
    return lexer.boolean()


def choice(values: Iterable[str], what: str, *, any_case: bool = False) -> Callable[[Lexer], str]:
    """Return a parser that takes one of the given identifiers, perhaps in capital letters."""
    known = tuple(values)
    folded = {name.lower(): name for name in known}

    def take(lexer: Lexer) -> str:
        start = lexer.start
        value = lexer.identifier(f"{what}, one of {', '.join(known)}")
        if any_case:
            value = folded.get(value.lower(), value)
        lexer.choice(value, known, what, start)
        return value

    return take


def braced_integers(lexer: Lexer) -> tuple[int, ...]:
    """Take `{1,2}`."""
    return lexer.integers("{}")


def one_braced_integer(lexer: Lexer) -> int:
    """Take `{1}`."""
    start = lexer.start
    values = lexer.integers("{}")
    if len(values) != 1:
        lexer.fail(f"expected one dimension in braces, found {len(values)}", start)
    return values[0]


def single_dimension(lexer: Lexer) -> tuple[int]:
    """Take `{1}` as a list."""
    return (one_braced_integer(lexer),)


def first_braced_integer(lexer: Lexer) -> int:
    """Take `{1}`, or the first of several integers in braces, which is all that XLA reads."""
    start = lexer.start
    values = lexer.integers("{}")
    if not values:
        lexer.fail("expected a dimension in braces, found none", start)
    return values[0]


def first_dimension(lexer: Lexer) -> tuple[int]:
    """Take the first of integers in braces as a list."""
    return (first_braced_integer(lexer),)


def braced_booleans(lexer: Lexer) -> tuple[bool, ...]:
    """Take `{true,false}`, or a bare boolean."""
    if not lexer.eat("{"):
        return (lexer.boolean(),)
    values = [lexer.boolean() for _ in lexer.elements("}")]
    lexer.expect("}")
    return tuple(values)


def slice_ranges(lexer: Lexer) -> Slice:
    """Take `{[start:limit:stride], ...}`; the stride may be left out."""
    lexer.expect("{")
    starts, limits, strides = [], [], []
    while lexer.eat("["):
        starts.append(lexer.integer("the start of the slice"))
        lexer.expect(":")
        limits.append(lexer.integer("the limit of the slice"))
        strides.append(lexer.integer("the stride of the slice") if lexer.eat(":") else 1)
        lexer.expect("]")
        if not lexer.eat(","):
            break
    lexer.expect("}")
    return Slice(tuple(starts), tuple(limits), tuple(strides))


def padding(lexer: Lexer) -> tuple[PaddingDimension, ...]:
    """Take `lo_hi_interiorxlo_hi...`; the interior padding may be left out."""
    start = lexer.start
    text = _padding_text(lexer)
    dimensions = []
    for part in text.split("x") if text else ():
        found = _PADDED.fullmatch(part)
        if found is None:
            lexer.fail("expected low_high or low_high_interior", start)
        low, high, interior = [int(x or 0) for x in found.groups()]
        if max(abs(low), abs(high), interior) >= 2**63:
            lexer.fail("the integer does not fit 64 bits", start)
        dimensions.append(PaddingDimension(low, high, interior))
    return tuple(dimensions)


_PADDED: Final = late_pattern(r"(-?\d{1,20})_(-?\d{1,20})(?:_(\d{1,20}))?", re.ASCII)


def _padding_text(lexer: Lexer) -> str:
    if lexer.kind is TokenKind.STRING:
        return lexer.string()
    if lexer.kind is not TokenKind.PAD:
        lexer.expect_fail("padding, low_high or low_high_interior per dimension joined by x")
    text = str(lexer.value)
    lexer.advance()
    return text


# -- windows and dimension labels --------------------------------------------------------------

_WINDOW_DEFAULTS: Final = {
    "size": None,
    "stride": 1,
    "pad": (0, 0),
    "lhs_dilate": 1,
    "rhs_dilate": 1,
    "rhs_reversal": 0,
}


def window(lexer: Lexer) -> Window:
    """Take `{size=2x2 stride=2x2 pad=0_1x0_1 ...}`."""
    start = lexer.start
    lexer.expect("{", "at the start of the window")
    fields: dict[str, list[int]] = {}
    pads: list[tuple[int, int]] = []
    while lexer.kind is TokenKind.ATTRIBUTE_NAME:
        key_start = lexer.start
        key = lexer.attribute_name()
        lexer.choice(key, _WINDOW_DEFAULTS, "part of a window", key_start)
        if key in fields or (key == "pad" and pads):
            lexer.fail(f"the window has {key}= twice", key_start)
        if key == "pad":
            pads = _window_padding(lexer)
        else:
            fields[key] = _sizes(lexer)
    lexer.expect("}", "at the end of the window")
    sizes = fields.get("size", [])
    rank = len(sizes)
    counts = {key: len(values) for key, values in fields.items() if key != "rhs_reversal"}
    for key, count in (counts | {"pad": len(pads)}).items():
        if count not in (0, rank):
            lexer.fail(f"the window has {rank} sizes, but {count} values of {key}", start)
    dimensions = [
        WindowDimension(
            size=sizes[i],
            stride=_at(fields, "stride", i, 1),
            padding_low=pads[i][0] if pads else 0,
            padding_high=pads[i][1] if pads else 0,
            window_dilation=_at(fields, "rhs_dilate", i, 1),
            base_dilation=_at(fields, "lhs_dilate", i, 1),
            reversal=bool(_at(fields, "rhs_reversal", i, 0)),
        )
        for i in range(rank)
    ]
    return Window(tuple(dimensions))


def _at(fields: dict[str, list[int]], key: str, i: int, default: int) -> int:
    values = fields.get(key, [])
    return values[i] if i < len(values) else default


def _sizes(lexer: Lexer) -> list[int]:
    if lexer.kind is TokenKind.INTEGER:
        return [lexer.integer()]
    if lexer.kind is not TokenKind.DXD:
        lexer.expect_fail("sizes joined by x")
    start, text = lexer.start, str(lexer.value)
    lexer.advance()
    values = [int(x) if len(x) < 20 else 2**63 for x in text.split("x")]
    if max(values) >= 2**63:
        lexer.fail("the integer does not fit 64 bits", start)
    return values


def _window_padding(lexer: Lexer) -> list[tuple[int, int]]:
    start = lexer.start
    pads = []
    text = str(lexer.value)
    for entry in padding(lexer):
        if any(part.count("_") != 1 for part in text.split("x")):
            lexer.fail("expected low_high: a window has no interior padding", start)
        pads.append((entry.low, entry.high))
    return pads


def dim_labels(lexer: Lexer) -> ConvolutionDimensions:
    """Take `b01f_01io->b01f`, bare or in quotes."""
    start = lexer.start
    if lexer.kind not in (TokenKind.DIM_LABELS, TokenKind.STRING):
        lexer.expect_fail("dimension labels such as b01f_01io->b01f")
    text = str(lexer.value)
    lexer.advance()
    lhs, _, rest = text.partition("_")
    rhs, _, out = rest.partition("->")
    spatial = len(lhs) - 2 - lhs.count("?")
    sizes = [len(part) - part.count("?") for part in (lhs, rhs, out)]
    if min(sizes) < 2 or len(set(sizes)) != 1:
        lexer.fail("input, kernel and output need the same number of dimension labels", start)
    found = [
        _label_positions(lexer, start, part, letters, spatial)
        for part, letters in ((lhs, "bf"), (rhs, "io"), (out, "bf"))
    ]
    (batch, feature, in_space), (k_in, k_out, k_space), (o_batch, o_feature, o_space) = found
    return ConvolutionDimensions(
        batch, feature, in_space, k_in, k_out, k_space, o_batch, o_feature, o_space
    )


def _label_positions(
    lexer: Lexer, start: int, text: str, letters: str, spatial: int
) -> tuple[int, int, tuple[int, ...]]:
    labels = [*letters, *map(str, range(spatial))] if spatial <= 10 else [*letters]
    positions = {label: text.find(label) for label in labels}
    named = [label for label in labels if positions[label] >= 0]
    unknown = text.count("?")
    if len(named) + unknown != len(text) or len(set(text) - {"?"}) != len(named):
        wanted = ", ".join(labels)
        lexer.fail(f"the dimension labels {text!r} must be {wanted} in some order", start)
    missing = [label for label in labels if positions[label] < 0]
    if missing:
        lexer.fail(f"the dimension labels {text!r} lack {', '.join(missing)}", start)
    space = tuple([positions[str(i)] for i in range(spatial)])
    return positions[letters[0]], positions[letters[1]], space


# -- lists -------------------------------------------------------------------------------------


def precisions(lexer: Lexer) -> tuple[Precision, ...]:
    """Take `{default,highest}`."""
    lexer.expect("{")
    values = []
    for _ in lexer.elements("}"):
        start = lexer.start
        value = lexer.identifier("a precision: default, high or highest")
        lexer.choice(value.lower(), list(Precision), "precision", start)
        values.append(Precision(value.lower()))
    lexer.expect("}")
    return tuple(values)


def dot_algorithm(lexer: Lexer) -> DotAlgorithm:
    """Take the name of a dot algorithm."""
    start = lexer.start
    value = lexer.identifier("a dot algorithm").lower()
    lexer.choice(value, list(DotAlgorithm), "dot algorithm", start)
    return DotAlgorithm(value)


def shapes(lexer: Lexer) -> tuple[Shape, ...]:
    """Take `{f32[2]{0}, (f32[])}`."""
    lexer.expect("{")
    values = [parse_shape(lexer) for _ in lexer.elements("}")]
    lexer.expect("}")
    return tuple(values)


def aliasing(lexer: Lexer) -> tuple[Aliasing, ...]:
    """Take `{{0}: (1, {}), {1}: (2, {0})}`."""
    lexer.expect("{")
    entries = []
    while lexer.at("{"):
        output_index = parse_shape_index(lexer)
        lexer.expect(":", "at the end of the output index")
        lexer.expect("(")
        operand = lexer.integer("an operand number")
        lexer.expect(",", "behind the operand number")
        operand_index = parse_shape_index(lexer)
        lexer.expect(")")
        entries.append(Aliasing(output_index, operand, operand_index))
        if not lexer.eat(","):
            break
    lexer.expect("}", "at the end of the aliasing")
    return tuple(entries)


def source_target_pairs(lexer: Lexer) -> tuple[tuple[int, int], ...]:
    """Take `{{0,1},{1,2}}`."""
    start = lexer.start
    groups = parse_integer_groups(lexer)
    if any(len(group) != 2 for group in groups):
        lexer.fail("expected pairs of source and target", start)
    return tuple([(group[0], group[1]) for group in groups])


def integer_groups(lexer: Lexer) -> tuple[tuple[int, ...], ...]:
    """Take `{{1,2},{3,4}}`."""
    return parse_integer_groups(lexer)


def frontend_attributes(lexer: Lexer) -> tuple[tuple[str, str], ...]:
    """Take `{key="value",other={"json":1}}`; the result is sorted by key.

    As in XLA the last value of a key that stands twice counts.
    """
    lexer.expect("{")
    values: dict[str, str] = {}
    for _ in lexer.elements("}"):
        if lexer.kind is TokenKind.STRING:
            key = lexer.string()
            lexer.expect("=")
        else:
            key = lexer.attribute_name()
        values[key] = lexer.json_dictionary() if lexer.at("{") else lexer.string()
    lexer.expect("}")
    return tuple(sorted(values.items()))


def statistics(lexer: Lexer) -> Statistics | None:
    """Take `{visualizing_index=1,name=2.5}`; None where there is not a single statistic.

    As in XLA the first number is the index, whatever its name, and may point nowhere.
    """
    lexer.expect("{")
    index: int | None = None
    values = []
    for _ in lexer.elements("}"):
        key = lexer.attribute_name()
        if index is None:
            index = lexer.integer()
        else:
            values.append((key, lexer.number()))
    lexer.expect("}")
    return Statistics(index or 0, tuple(values)) if values else None


def result_accuracy(lexer: Lexer) -> ResultAccuracy | None:
    """Take `{mode=highest}` or `{tolerance={atol=0,rtol=1e-3,ulps=2}}`; None for the default."""
    lexer.expect("{")
    start = lexer.start
    key = lexer.attribute_name("mode= or tolerance=")
    if key == "mode":
        start = lexer.start
        mode = lexer.identifier("default or highest").lower()
        lexer.choice(mode, ("default", "highest"), "mode", start)
        lexer.expect("}")
        return None if mode == "default" else ResultAccuracy(mode)
    if key != "tolerance":
        lexer.fail(f"expected mode= or tolerance=, found {key!r}", start)
    accuracy = _tolerance(lexer)
    lexer.expect("}")
    return accuracy


def _tolerance(lexer: Lexer) -> ResultAccuracy:
    lexer.expect("{")
    fields: dict[str, float] = {}
    for _ in lexer.elements("}"):
        start = lexer.start
        key = lexer.attribute_name()
        lexer.choice(key, ("atol", "rtol", "ulps"), "tolerance", start)
        fields[key] = lexer.number()
        if fields[key] < 0:
            lexer.fail("a tolerance is 0 or more", start)
    lexer.expect("}")
    return ResultAccuracy(
        "", fields.get("atol", 0.0), fields.get("rtol", 0.0), int(fields.get("ulps", 0))
    )


def backend_config(lexer: Lexer) -> str:
    """Take a string or a raw dictionary in braces; a string comes back as its content."""
    return lexer.json_dictionary() if lexer.at("{") else lexer.string()


def origin(lexer: Lexer) -> str:
    """Take `{...}` and return the text between the braces in its normal form.

    It is `[synthetic_call]`, or a tree of tuples with an array `{"name" {index}}` at each leaf.
    """
    lexer.expect("{", "at the start of the origin")
    if lexer.eat("["):
        start = lexer.start
        word = lexer.identifier("synthetic_call")
        lexer.choice(word, ("synthetic_call",), "origin", start)
        lexer.expect("]")
        text = f"[{word}]"
    elif lexer.at("}"):
        text = "()"
    else:
        text = _origin_tree(lexer)
    lexer.expect("}", "at the end of the origin")
    return text


def _origin_tree(lexer: Lexer) -> str:
    lexer.enter()
    if lexer.eat("("):
        parts = []
        while not lexer.at(")"):
            parts.append(_origin_tree(lexer))
            if not lexer.eat(","):
                break
        lexer.expect(")", "at the end of the elements")
        text = f"({', '.join(parts)})"
    else:
        lexer.expect("{", "or '(' in the origin")
        text = f"{{{_original_array(lexer)}}}"
        lexer.expect("}", "at the end of an original array")
    lexer.leave()
    return text


def _original_array(lexer: Lexer) -> str:
    """Take the name of an instruction, which may be missing, and the index of its result."""
    if lexer.kind is not TokenKind.STRING:
        return ""
    name = lexer.string()
    index = parse_shape_index(lexer) if lexer.at("{") else ()
    if not name:
        return ""
    return quote_readable(name) + (f" {{{','.join(map(str, index))}}}" if index else "")


def domain(lexer: Lexer) -> Domain:
    """Take `{kind="sharding", entry={...}, exit={...}}`."""
    lexer.expect("{")
    fields: dict[str, object] = {}
    for _ in lexer.elements("}"):
        start = lexer.start
        key = lexer.attribute_name()
        lexer.choice(key, ("kind", "entry", "exit"), "part of a domain", start)
        if key == "kind":
            fields[key] = lexer.string()
        else:
            fields[key] = parse_sharding(lexer)
    lexer.expect("}")
    missing = [key for key in ("kind", "entry", "exit") if key not in fields]
    if missing:
        lexer.fail(f"a domain needs {missing[0]}=")
    if fields["kind"] != "sharding":
        lexer.fail('expected kind="sharding"')
    return Domain(**fields)  # type: ignore[arg-type]
