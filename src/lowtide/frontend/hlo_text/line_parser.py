"""The fast path: a whole instruction line by one regular expression and a few tables.

It decides nothing by itself. A line of a form not seen before goes through the general parser. The
shape and the attributes that come of it are kept for the next line of the same form.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, final

import lowtide.ir.attributes as ir
from lowtide.frontend.hlo_text.checks import check_instruction, check_only_root
from lowtide.frontend.hlo_text.instruction_parser import FIXED_SHAPES, inherit_origin
from lowtide.frontend.hlo_text.lexer import KEYWORDS
from lowtide.frontend.hlo_text.literal_parser import parse_literal
from lowtide.frontend.hlo_text.metadata_parser import canonical, decode_canonical
from lowtide.frontend.hlo_text.syntax import SYNTAX
from lowtide.ir.annotations import Annotations
from lowtide.ir.computation import Computation
from lowtide.ir.instruction import Instruction
from lowtide.ir.lazy_metadata import LazyMetadata
from lowtide.ir.names import TYPE_NAMES
from lowtide.ir.opcode import ASYNC, Opcode
from lowtide.ir.shape import Shape
from lowtide.records import dataclass

if TYPE_CHECKING:
    from lowtide.frontend.hlo_text.parser import ModuleParser

_LINE: Final = re.compile(
    r"[ \t\r\n]*+(ROOT )?(%?)([A-Za-z_][\w.-]*+) = "
    r"([a-z]\w*\[[\d,<=]*\](?:\{[\w,:()]*\})?|"
    r"\((?:[^()\n]++|\((?:[^()\n]++|\([^()\n]*+\))*+\))*+\)) "
    r"([a-z][a-z0-9-]*+)\(([^()\n]*+)\)([^\n]*[^,\n]|)\n(?![ \t\r\n]*+[,/])",
    re.ASCII,
)
_CALLS: Final = re.compile(r", (to_apply|condition|body|calls|select|scatter)=%?([A-Za-z_][\w.-]*)")
_METADATA: Final = ", metadata={"
_EXCLUDED: Final = ASYNC | set(FIXED_SHAPES) | {Opcode.CONDITIONAL, Opcode.MAP, Opcode.DOMAIN}
"""Opcodes whose shape or attributes depend on more than their text."""
_SHORT: Final = 64


@dataclass(frozen=True, slots=True)
class _Form:
    """What lines of one form have in common."""

    opcode: Opcode
    arity: int | None
    attributes: ir.Attributes
    annotations: Annotations


@dataclass(frozen=True, slots=True)
class _Pending:
    """A line that the general parser is about to read, as the fast path took it apart."""

    shape_text: str
    key: tuple[str, str, str]
    callees: tuple[str, ...]
    metadata: str
    end: int


_UNCLEAR: Final = frozenset({"all-reduce-start", "all-reduce-done"})
"""Opcodes that may be sugar or not: their shapes and operands say which."""


@final
class LineParser:
    """Reads consecutive lines of known forms into a computation."""

    __slots__ = ("_forms", "_literals", "_pending", "_shapes", "parser")

    def __init__(self, parser: ModuleParser) -> None:
        self.parser = parser
        self._forms: dict[tuple[str, str, str], _Form] = {}
        self._shapes: dict[str, Shape] = {}
        self._literals: dict[tuple[Shape, str], ir.Constant] = {}
        self._pending: _Pending | None = None

    def parse(
        self, computation: Computation, position: int, root: Instruction | None
    ) -> tuple[int, Instruction | None]:
        """Read lines from `position` on; return where it stopped, and the root so far."""
        self._pending = None
        text = self.parser.lexer.text
        match_line = _LINE.match
        while True:
            match = match_line(text, position)
            if match is None:
                return position, root
            instruction = self._parse_line(computation, match)
            if instruction is None:
                return position, root
            if match[1]:
                check_only_root(self.parser.lexer, root, instruction)
                root = instruction
            position = match.end()

    def _parse_line(self, computation: Computation, match: re.Match[str]) -> Instruction | None:
        """Return the instruction of a line of a known form, None for any other line."""
        _, percent, name, shape_text, opcode_text, inside, rest = match.groups()
        known = computation.instructions
        if name in known or (not percent and name in KEYWORDS) or "/*" in rest or "//" in rest:
            return None
        if name in TYPE_NAMES or name[:2] == "__" or opcode_text in _UNCLEAR:
            return None
        metadata: LazyMetadata | None = None
        start = rest.find(_METADATA)
        if start >= 0:
            found = canonical().match(rest, start + len(_METADATA))
            if found is None or not rest.startswith("}", found.end()):
                return None
            metadata = LazyMetadata(found[1].rstrip(), int(found[2] or 0), decode_canonical)
            rest = rest[:start] + rest[found.end() + 1 :]
        callees: tuple[str, ...] = ()
        if _CALLS.search(rest):
            callees = tuple([m[2] for m in _CALLS.finditer(rest)])
            rest = _CALLS.sub(r", \1=", rest)
        plain = opcode_text not in ("parameter", "constant")
        operands: tuple[Instruction, ...] = ()
        if inside and plain:
            try:
                operands = tuple([known[x.removeprefix("%")] for x in inside.split(", ")])
            except KeyError:
                return None
        operand_type = (
            operands[0].shape.element_type if operands and opcode_text == "compare" else ""
        )
        key = (opcode_text, rest, operand_type)
        form = self._forms.get(key)
        shape = self._shapes.get(shape_text)
        if form is None or shape is None:
            raw = metadata.text() if metadata is not None else ""
            self._pending = _Pending(shape_text, key, callees, raw, match.end(7))
            return None
        if form.arity is not None and len(operands) != form.arity:
            return None
        if shape.is_tuple and form.annotations.sharding is not None:
            return None
        attributes = form.attributes if plain else self._special(form.opcode, shape, inside, match)
        called = self._called(callees) if callees else ()
        if attributes is None or called is None:
            return None
        if isinstance(attributes, ir.Constant):
            shape = attributes.literal.shape
        instruction = computation.append(name, form.opcode, shape, operands, attributes, called)
        instruction.position = match.start(2)
        instruction.annotations = form.annotations
        if metadata is not None:
            instruction.set_metadata(metadata)
        inherit_origin(instruction)
        check_instruction(self.parser.lexer, instruction, match.start(5))
        return instruction

    def _called(self, names: tuple[str, ...]) -> tuple[Computation, ...] | None:
        computations = self.parser.computations
        try:
            return tuple([computations[name] for name in names])
        except KeyError:
            return None

    def _special(
        self, opcode: Opcode, shape: Shape, inside: str, match: re.Match[str]
    ) -> ir.Attributes | None:
        """Return the attributes of a parameter or constant, None where they need a closer look."""
        if opcode is Opcode.PARAMETER:
            if not inside.isdecimal() or len(inside) > 9:
                return None
            return ir.Parameter(int(inside))
        key = (shape, inside)
        constant = self._literals.get(key) if len(inside) <= _SHORT else None
        if constant is None:
            lexer = self.parser.lexer
            lexer.seek(match.start(6))
            constant = ir.Constant(parse_literal(lexer, shape))
            if not lexer.at(")") or lexer.start != match.end(6):
                return None
            if len(inside) <= _SHORT and not constant.literal.elided:
                self._literals[key] = constant
        return constant

    def learn(self, instruction: Instruction) -> None:
        """Remember the form of the line that the general parser has just read."""
        pending = self._pending
        self._pending = None
        if pending is None or instruction.opcode.value != pending.key[0]:
            return
        lexer = self.parser.lexer
        end = lexer.previous_end
        if end > pending.end or lexer.text[end : pending.end].strip():
            return
        if instruction.opcode in _EXCLUDED or instruction.control_predecessors:
            return
        if instruction.annotations.parameter_replication or (
            instruction.shape.is_tuple and (instruction.annotations.sharding is not None)
        ):
            return
        if pending.metadata != instruction.metadata.text():
            return
        if tuple([c.name for c in instruction.called_computations]) != pending.callees:
            return
        if not instruction.shape.is_dynamic and "<=" in pending.shape_text:
            return
        self._shapes[pending.shape_text] = instruction.shape
        arity = SYNTAX[instruction.opcode].arity
        form = _Form(instruction.opcode, arity, instruction.attributes, instruction.annotations)
        self._forms[pending.key] = form
