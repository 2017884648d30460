"""HLO text to Module: header, tables, computations."""

from __future__ import annotations

import gc
from typing import final

import lowtide.ir.attributes as ir
from lowtide.frontend.hlo_text.async_names import keep_names
from lowtide.frontend.hlo_text.checks import check_computation, check_instruction, check_only_root
from lowtide.frontend.hlo_text.computation_order import order_computations
from lowtide.frontend.hlo_text.header_parser import (
    default_entry_layout,
    normalize_recovery_table,
    parse_header,
    starts_module,
)
from lowtide.frontend.hlo_text.instruction_parser import parse_right_side, starts_shape
from lowtide.frontend.hlo_text.lexer import Lexer, TokenKind
from lowtide.frontend.hlo_text.line_parser import LineParser
from lowtide.frontend.hlo_text.metadata_parser import parse_stack_frames
from lowtide.frontend.hlo_text.shape_parser import parse_shape
from lowtide.ir.computation import Computation
from lowtide.ir.errors import HloTextError, check_class
from lowtide.ir.instruction import Instruction
from lowtide.ir.module import Module
from lowtide.ir.names import sanitize
from lowtide.ir.opcode import Opcode
from lowtide.ir.schedule import Schedule
from lowtide.ir.shape import Shape
from lowtide.ir.traversal import fused_computations
from lowtide.suggestions import nearest


def parse_hlo(text: str, file: str = "", *, fast: bool = True) -> Module:
    """Return the module that an HLO text describes.

    The text holds a module, or computations without a header, or a single instruction, whose
    operands then become parameters. As XLA's parser it does not check what an instruction means:
    `lowtide.verify` does. `file` is named in errors. `fast=False` takes each line through the
    general parser, which gives the same module. Raises HloTextError, and TypeError for bytes.
    """
    check_class(text, str)
    enabled = gc.isenabled()
    gc.disable()
    try:
        return ModuleParser(text, file, fast=fast).parse()
    finally:
        if enabled:
            gc.enable()


@final
class ModuleParser:
    """The state of reading one text: the lexer, and what has been defined so far."""

    def __init__(self, text: str, file: str, *, fast: bool) -> None:
        self.lexer = Lexer(text, file)
        self.module = Module("")
        self.computations: dict[str, Computation] = {}
        self.finished: list[Computation] = []
        self.async_starts: set[Computation] = set()
        self.anonymous: dict[tuple[Computation, str], int] = {}
        """The number to try next for an instruction without a name."""
        self.invents_operands = False
        self.marked_entry: Computation | None = None
        self.lines = LineParser(self) if fast else None

    # -- modules -------------------------------------------------------------------------------

    def parse(self) -> Module:
        """Take the whole text."""
        lexer = self.lexer
        _check_characters(lexer)
        if not starts_module(lexer):
            return self._parse_single_instruction()
        scheduled = False
        if lexer.at_keyword("HloModule"):
            self.module, scheduled = parse_header(lexer)
            self._normalize_recovery_table()
            self.module.stack_frames = parse_stack_frames(lexer)
        if lexer.at_end():
            lexer.expect_fail("a computation")
        while not lexer.at_end():
            self._parse_computation()
        entry = self.marked_entry or self.finished[-1]
        return self._finish(entry, scheduled=scheduled)

    def _finish(self, entry: Computation, *, scheduled: bool) -> Module:
        module = self.module
        module.entry = entry
        module.adopt(self.finished)
        if not module.name:
            module.name = f"module_{entry.name}"
        module.source_text = self.lexer.source
        says_layout = module.entry_layout is not None
        if module.entry_layout is None:
            single = self.invents_operands
            module.entry_layout = default_entry_layout(module, is_instruction=single)
        self._check_aliases()
        if scheduled:
            fused = fused_computations(module)
            module.schedule = Schedule(
                {c: tuple(c.instructions.values()) for c in self.finished if c not in fused}
            )
        order_computations(module, says_layout=says_layout)
        if self.async_starts:
            keep_names(module)
        return module

    def _check_aliases(self) -> None:
        result = self.module.entry.root.shape
        for alias in self.module.input_output_aliases:
            try:
                result.at(alias.output_index)
            except IndexError as error:
                at = self.lexer.source.fields["input_output_alias"]
                self.lexer.fail(f"input_output_alias: {error}", at)

    def _normalize_recovery_table(self) -> None:
        table = self.module.origin_recovery_table
        if not table:
            return
        try:
            self.module.origin_recovery_table = normalize_recovery_table(table, parse_hlo)
        except (HloTextError, ValueError) as error:
            reason = error.message if isinstance(error, HloTextError) else str(error)
            self.lexer.fail(f"a module in origin_recovery_table is bad: {reason}", 0)

    def _parse_single_instruction(self) -> Module:
        """Take `[ROOT] [name =] shape opcode(...)`; all that it does not name is called `_`."""
        lexer = self.lexer
        self.invents_operands = True
        if lexer.at_keyword("ROOT"):
            lexer.advance()
        start = lexer.start
        name = "_"
        if lexer.kind is TokenKind.NAME or not starts_shape(lexer):
            name = lexer.name(
                "a module, a computation, or an instruction with the shape of its result"
            )
            lexer.expect("=", "behind the name of the instruction")
        computation = self.new_computation("_")
        computation.root = parse_right_side(self, computation, name, start)
        if not lexer.at_end():
            lexer.expect_fail("the end of the text behind a single instruction")
        self.finished.insert(0, computation)
        self.module.name = "_"
        return self._finish(computation, scheduled=True)

    def invent_operand(self, computation: Computation, shape: Shape) -> Instruction:
        """Return the parameter that an operand of a single instruction stands for."""
        lexer = self.lexer
        number = len(computation.parameters)
        name = f"_{number}"
        if lexer.kind in (TokenKind.IDENTIFIER, TokenKind.NAME):
            name = lexer.name()
        known = computation.instructions.get(name)
        if known is not None:
            return known
        return computation.append(name, Opcode.PARAMETER, shape, (), ir.Parameter(number))

    # -- computations --------------------------------------------------------------------------

    def new_computation(self, name: str) -> Computation:
        """Return a computation which joins the module when it is finished."""
        return self.module.new_computation(name)

    def finish_computation(self, computation: Computation) -> None:
        """Put a complete computation behind those which were complete before it."""
        self.finished.append(computation)

    def nested_name(self, computation: Computation, opcode: Opcode) -> str:
        """Return a free name for an instruction that the text does not name."""
        stem = f"{opcode.value}.anon"
        number = self.anonymous.get((computation, stem), 0)
        name = f"{stem}.{number}" if number else stem
        while name in computation.instructions:
            number += 1
            name = f"{stem}.{number}"
        self.anonymous[computation, stem] = number
        return name

    def check(self, instruction: Instruction, start: int) -> None:
        """Fail where an instruction breaks a rule that belongs to the syntax."""
        check_instruction(self.lexer, instruction, start)

    def _parse_computation(self) -> None:
        lexer = self.lexer
        start = lexer.start
        is_entry = lexer.at_keyword("ENTRY")
        if is_entry:
            lexer.advance()
            if self.marked_entry is not None:
                lexer.fail("expected only one ENTRY", start)
        name_start = lexer.start
        name = lexer.name("the name of a computation")
        if name in self.computations:
            lexer.fail(f"computation {name!r} is defined twice", name_start)
        signature = None
        if lexer.at("("):
            signature = self._parse_signature()
        computation = self.new_computation(name)
        self._parse_body(computation)
        if signature is not None and not signature.compatible(computation.root.shape):
            lexer.fail(
                f"the signature of {name} says {signature}, but its root "
                f"{computation.root.name} has shape {computation.root.shape}",
                name_start,
            )
        self._parse_thread(computation)
        self.computations[name] = computation
        self.finish_computation(computation)
        if is_entry:
            self.marked_entry = computation

    def _parse_thread(self, computation: Computation) -> None:
        lexer = self.lexer
        if not lexer.eat(","):
            return
        start = lexer.start
        if lexer.attribute_name("execution_thread=") != "execution_thread":
            lexer.fail("expected execution_thread=", start)
        computation.execution_thread = lexer.string()

    def _parse_signature(self) -> Shape:
        lexer = self.lexer
        lexer.expect("(")
        for _ in lexer.elements(")"):
            lexer.name("the name of a parameter")
            parse_shape(lexer)
        lexer.expect(")", "at the end of the parameters")
        lexer.expect("->")
        return parse_shape(lexer)

    def _parse_body(self, computation: Computation) -> None:
        lexer = self.lexer
        lexer.enter()
        if not lexer.at("{"):
            lexer.expect_fail("'{' at the start of a computation")
        root: Instruction | None = None
        position = lexer.end
        while True:
            if self.lines is not None:
                position, root = self.lines.parse(computation, position, root)
            lexer.seek(position)
            if lexer.at("}"):
                break
            is_root = lexer.at_keyword("ROOT")
            if is_root:
                lexer.advance()
            instruction = self._parse_instruction(computation)
            if self.lines is not None:
                self.lines.learn(instruction)
            if is_root:
                check_only_root(lexer, root, instruction)
                root = instruction
            position = lexer.previous_end
        if not computation.instructions:
            lexer.expect_fail("an instruction")
        lexer.expect("}")
        lexer.leave()
        computation.root = root or next(reversed(computation.instructions.values()))
        check_computation(lexer, computation)

    def _parse_instruction(self, computation: Computation) -> Instruction:
        lexer = self.lexer
        position = lexer.start
        name = lexer.name("the name of an instruction, or '}'")
        legal = sanitize(name)
        if name != legal:
            lexer.fail(f"{name!r} cannot name an instruction, but {legal!r} can", position)
        if name in computation.instructions:
            lexer.fail(f"instruction {name!r} is defined twice", position)
        lexer.expect("=", "behind the name of the instruction")
        return parse_right_side(self, computation, name, position)

    def parse_computation_value(self) -> Computation:
        """Take the name of a computation, or its body in braces."""
        lexer = self.lexer
        start = lexer.start
        if lexer.at("{"):
            computation = self.new_computation("_")
            invents, self.invents_operands = self.invents_operands, False
            self._parse_body(computation)
            self.invents_operands = invents
            self.finish_computation(computation)
            return computation
        name = lexer.name("the name of a computation")
        computation = self.computations.get(name)  # type: ignore[assignment]
        if computation is None:
            lexer.fail(
                f"no computation {name!r} before this one{nearest(name, self.computations)}", start
            )
        return computation


def _check_characters(lexer: Lexer) -> None:
    """Fail at a surrogate, which no text encodes, unless it stands for an undecodable byte."""
    if lexer.text.isascii():
        return
    try:
        lexer.text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        lexer.fail("this is not a Unicode character", error.start)
