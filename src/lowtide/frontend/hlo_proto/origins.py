"""Original values: the IR keeps their text, `({"a" {0}}, {})`; protobuf keeps a list of leaves."""

from __future__ import annotations

import re
from typing import Any, Final, Union

from lowtide.frontend.hlo_proto.fields import FieldError, naturals
from lowtide.frontend.hlo_proto.sources import write_scalar
from lowtide.ir.errors import LowtideError
from lowtide.ir.shape import ShapeIndex
from lowtide.ir.strings import escape, quote_readable, unescape

_SYNTHETIC: Final = "[synthetic_call]"
_TOKEN: Final = re.compile(
    r"""\s*(?:/\*.*?\*/\s*)*(?P<token>[(){},:]|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|-?\d+|\Z)""",
    re.DOTALL,
)
_DEEPEST: Final = 100
_MOST_GAPS: Final = 2**16
_Tree = dict[int, Union["_Tree", str]]
"""The elements of a tuple by position: tuples again, or the text of a leaf."""


# -- protobuf to text --------------------------------------------------------------------------


def origin_text(proto: Any) -> str:
    """Return the text of an original value between the braces of `origin={...}`.

    A position of a tuple without any leaf is shown as an empty tuple.
    """
    if proto.is_synthetic_call:
        return _SYNTHETIC
    tree: _Tree = {}
    for i, element in enumerate(proto.elements):
        path = f"elements[{i}].shape_index"
        index = naturals(element.shape_index, path)
        if len(index) > _DEEPEST:
            raise FieldError(f"an index has more than {_DEEPEST} numbers", path)
        leaf = array_text(element.original_array) if element.HasField("original_array") else "{}"
        _insert(tree, (0, *index), leaf, path)
    if not tree:
        return "()"
    if _gaps(tree) > _MOST_GAPS:
        raise FieldError(f"more than {_MOST_GAPS} positions without a leaf", "elements")
    return _tree_text(tree)[1:-1]


def array_text(proto: Any) -> str:
    """Return `{"name" {0,1}}`; raises FieldError for an index below 0."""
    index = ",".join(map(str, naturals(proto.shape_index, "shape_index", 10**18)))
    suffix = f" {{{index}}}" if index else ""
    return f"{{{quote_readable(proto.instruction_name)}{suffix}}}"


def _insert(tree: _Tree, index: ShapeIndex, leaf: str, path: str) -> None:
    for position in index[:-1]:
        below = tree.setdefault(position, {})
        if isinstance(below, str):
            raise FieldError("a leaf lies inside of another leaf", path)
        tree = below
    if index[-1] in tree:
        raise FieldError("the position has been given before", path)
    tree[index[-1]] = leaf


def _gaps(tree: _Tree) -> int:
    below = sum([_gaps(x) for x in tree.values() if not isinstance(x, str)])
    return below + max(tree) + 1 - len(tree)


def _tree_text(tree: _Tree) -> str:
    parts = ["()"] * (max(tree) + 1)
    for position, element in tree.items():
        parts[position] = element if isinstance(element, str) else _tree_text(element)
    return f"({', '.join(parts)})"


# -- text to protobuf --------------------------------------------------------------------------


class _Scanner:
    """The tokens of an origin or a recovery table."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.token = ""
        self.advance()

    def advance(self) -> str:
        """Move to the next token and return the one before; an empty token is the end."""
        before = self.token
        match = _TOKEN.match(self.text, self.position)
        if match is None:
            raise FieldError(f"unexpected text {self.text[self.position : self.position + 20]!r}")
        self.token = match["token"]
        self.position = match.end()
        return before

    def expect(self, token: str) -> None:
        """Take a token; raises FieldError where another stands."""
        if self.token != token:
            found = self.token or "the end"
            raise FieldError(f"expected {token or 'the end'!r}, found {found[:20]!r}")
        self.advance()

    def at_string(self) -> bool:
        """Whether the next token is a string."""
        return self.token[:1] in ('"', "'")

    def string(self) -> str:
        """Take a string and return what it says."""
        if not self.at_string():
            raise FieldError(f"expected a name in quotes, found {self.token[:20]!r}")
        return unescape(self.advance()[1:-1])

    def integer(self) -> int:
        """Take a number."""
        if not self.token.isdigit() or len(self.token) > 18:
            raise FieldError(f"expected a number, found {self.token[:20]!r}")
        return int(self.advance())


def write_origin(text: str, proto: Any) -> None:
    """Write an original value into an OriginalValueProto; raises FieldError for bad text."""
    proto.SetInParent()
    if text.strip() == _SYNTHETIC:
        proto.is_synthetic_call = True
        return
    scanner = _Scanner(text)
    index: list[int] = []
    while True:
        if scanner.token == "(":
            scanner.advance()
            index.append(0)
            if len(index) > _DEEPEST:
                raise FieldError(f"tuples nest deeper than {_DEEPEST} levels")
            if scanner.token != ")":
                continue
        else:
            _write_leaf(scanner, index, proto)
        while index and scanner.token == ")":
            scanner.advance()
            index.pop()
        if not index:
            break
        scanner.expect(",")
        index[-1] += 1
    scanner.expect("")


def _write_leaf(scanner: _Scanner, index: list[int], proto: Any) -> None:
    element = proto.elements.add(shape_index=index)
    scanner.expect("{")
    if scanner.token != "}":
        _write_array(scanner, element.original_array)
    scanner.expect("}")


def _write_array(scanner: _Scanner, proto: Any) -> None:
    write_scalar(proto, "instruction_name", scanner.string())
    if scanner.token != "{":
        return
    scanner.advance()
    while scanner.token != "}":
        proto.shape_index.append(scanner.integer())
        if scanner.token == ",":
            scanner.advance()
    scanner.advance()


# -- the recovery table ------------------------------------------------------------------------


def recovery_table_text(proto: Any, depth: int) -> str:
    """Return the text between the braces of `origin_recovery_table={...}`.

    `depth` is the number of recovery tables around the module that holds this one.
    """
    lines = [""]
    for i, entry in enumerate(proto.entries):
        old = array_text(entry.old_original_array)
        new = array_text(entry.new_original_array)
        if not entry.recovery_module.computations:
            lines.append(f"  {old} : {new}")
            continue
        try:
            text = _nested_module_text(entry.recovery_module, depth)
        except FieldError as error:
            raise error.under(f"entries[{i}].recovery_module") from None
        body = [f"    {escape(line)}" if line else "" for line in text.split("\n")]
        lines += [f"  {old} : {new},", '  "', *body, '  "']
    return "\n".join([*lines, ""])


def _nested_module_text(proto: Any, depth: int) -> str:
    from lowtide.frontend.hlo_proto.reader import read_module_message
    from lowtide.ir.printer import COMPLETE, to_text

    return to_text(read_module_message(proto, depth + 1), COMPLETE)


def write_recovery_table(text: str, proto: Any) -> None:
    """Write a recovery table into an OriginalValueRecoveryTableProto; raises FieldError."""
    scanner = _Scanner(text)
    while scanner.token == "{":
        entry = proto.entries.add()
        _write_entry_array(scanner, entry.old_original_array)
        scanner.expect(":")
        _write_entry_array(scanner, entry.new_original_array)
        if scanner.token == ",":
            scanner.advance()
        if not scanner.at_string():
            continue
        module = scanner.string()
        if module.strip():
            _write_nested_module(module, entry.recovery_module)
        if scanner.token == ",":
            scanner.advance()
    scanner.expect("")


def _write_entry_array(scanner: _Scanner, proto: Any) -> None:
    proto.SetInParent()
    scanner.expect("{")
    if scanner.token != "}":
        _write_array(scanner, proto)
    scanner.expect("}")


def _write_nested_module(text: str, proto: Any) -> None:
    from lowtide.frontend.hlo_proto.writer import write_module_message
    from lowtide.frontend.hlo_text import parse_hlo

    try:
        module = parse_hlo(text)
    except LowtideError as error:
        raise FieldError(f"the recovery module is bad: {error}") from None
    write_module_message(module, proto)
