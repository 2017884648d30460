"""Tokens of HLO text, one at a time, with errors that show the place."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Final, NoReturn, final

from lowtide.frontend.hlo_text.filling import LiteralFilling
from lowtide.ir.element_type import BY_KEYWORD
from lowtide.ir.errors import HloTextError
from lowtide.ir.shape import Shape
from lowtide.ir.source_text import SourceText
from lowtide.ir.strings import dictionary_end, unescape
from lowtide.suggestions import nearest


class TokenKind(Enum):
    """The kinds of token; punctuation is `PUNCTUATION` with its text as value."""

    END = "the end of the text"
    PUNCTUATION = "punctuation"
    NAME = "a name"
    ATTRIBUTE_NAME = "an attribute name"
    IDENTIFIER = "an identifier"
    KEYWORD = "a keyword"
    PRIMITIVE_TYPE = "an element type"
    INTEGER = "an integer"
    DECIMAL = "a decimal number"
    STRING = "a string"
    DIM_LABELS = "dimension labels"
    DXD = "sizes joined by x"
    PAD = "padding"


KEYWORDS: Final = frozenset(
    {
        "true", "false", "inf", "nan", "HloModule", "ENTRY", "ROOT", "FileLocations", "FileNames",
        "FunctionNames", "StackFrames", "maximal", "replicated", "manual",
        "last_tile_dim_replicate", "shard_as", "shard_like", "unknown", "unreduced",
    }
)  # fmt: skip
_TYPES: Final = frozenset(BY_KEYWORD) - {"tuple", "buffer"}

_BLANKS: Final = frozenset({"", " ", "\t", "\r", "\n", "/"})
_SKIP: Final = re.compile(r"(?:[ \t\r\n]++|//[^\n]*+|/\*.*?\*/)*+", re.DOTALL)
_TOKEN: Final = re.compile(
    r"""
    (?P<labels>[0-9bf?]{2,}_[0-9io?]{2,}->[0-9bf?]{2,}(?![A-Za-z0-9_.?-]))
  | %(?P<percent>[A-Za-z_][A-Za-z0-9_.-]*)
  | (?P<nan>-?nan(?:\((?P<payload>0x[0-9a-fA-F]+)\))?(?![A-Za-z0-9_.:=-]))
  | (?P<inf>-?inf(?![A-Za-z0-9_.:=-]))
  | (?P<arrow>->)
  | (?P<word>[A-Za-z_][A-Za-z0-9_.-]*)(?P<mark>[:=]?)
  | (?P<decimal>-?(?:\d+\.\d*|\.\d+|\d+(?=[eE][+-]?\d))(?:[eE][+-]?\d+)?(?![A-Za-z_]))
  | (?P<pad>-?\d+_-?\d+(?:_\d+)?+(?:x-?\d+_-?\d+(?:_\d+)?+)*+(?![A-Za-z0-9_]))
  | (?P<dxd>\d++(?:x\d++)++(?![A-Za-z0-9_]))
  | (?P<integer>-?\d+)
  | "(?P<double>[^"\\]*+(?:\\.[^"\\]*+)*+)"
  | '(?P<single>[^'\\]*+(?:\\.[^'\\]*+)*+)'
  | (?P<punctuation><=|\.\.\.|[=,:*\#+~\[\]{}()?])
    """,
    re.VERBOSE | re.DOTALL,
)
_INT_LIMITS: Final = (-(2**63), 2**64 - 1)
_LONGEST_MESSAGE: Final = 400
MAX_LIST: Final = 2**20
"""How many elements a tuple shape, and how many operands an instruction may have."""
MAX_DEPTH: Final = 64
"""How deep shapes, operands, shardings and computations may nest."""


@final
class Lexer:
    """A cursor over HLO text: `kind`, `value`, `start` and `end` describe the current token.

    `value` is the text of punctuation, names and keywords, the number of INTEGER and DECIMAL
    tokens, and the unescaped text of strings. A text given as a part of a larger one keeps its
    own offsets.
    """

    __slots__ = (
        "depth",
        "end",
        "filling",
        "kind",
        "previous_end",
        "shapes",
        "source",
        "start",
        "text",
        "value",
    )

    def __init__(self, text: str, file: str = "", *, start: int = 0) -> None:
        self.text = text
        self.source = SourceText(text, file)
        self.depth = 0
        self.shapes: dict[str, Shape] = {}
        """Array shapes read so far, by their text."""
        self.filling = LiteralFilling()
        """What constants without values get."""
        self.end = start
        self.previous_end = start
        self.kind = TokenKind.END
        self.value: str | int | float = ""
        self.start = start
        self.advance()

    # -- moving --------------------------------------------------------------------------------

    def seek(self, offset: int) -> None:
        """Make the token at or behind `offset` the current one."""
        self.end = offset
        self.advance()

    def advance(self) -> None:
        """Read the next token."""
        text = self.text
        self.previous_end = start = self.end
        if text[start : start + 1] in _BLANKS:
            skip = _SKIP.match(text, start)
            start = skip.end() if skip is not None else start
        self.start = start
        if start >= len(text):
            self.kind, self.value, self.end = TokenKind.END, "", start
            return
        match = _TOKEN.match(text, start)
        if match is None:
            self._fail_on_character(start)
        self.end = match.end()
        group = match.lastgroup or ""
        if group in ("word", "mark"):
            self._set_word(match["word"], match["mark"])
        elif group == "punctuation" or group == "arrow":
            self.kind, self.value = TokenKind.PUNCTUATION, match[0]
        elif group == "percent":
            self.kind, self.value = TokenKind.NAME, match["percent"]
        elif group == "integer":
            self.kind, self.value = TokenKind.INTEGER, self._checked_integer(match[0], start)
        else:
            self._set_rare(group, match)

    def _set_word(self, word: str, mark: str) -> None:
        self.value = word
        if mark == ":":
            self.kind = TokenKind.NAME
        elif mark == "=":
            self.kind = TokenKind.ATTRIBUTE_NAME
        elif word in KEYWORDS:
            self.kind = TokenKind.KEYWORD
        elif word in _TYPES:
            self.kind = TokenKind.PRIMITIVE_TYPE
        else:
            self.kind = TokenKind.IDENTIFIER

    def _set_rare(self, group: str, match: re.Match[str]) -> None:
        text = match[0]
        if group == "decimal":
            self.kind, self.value = TokenKind.DECIMAL, self._checked_decimal(text, match.start())
        elif group in ("double", "single"):
            try:
                self.kind, self.value = TokenKind.STRING, unescape(match[group])
            except ValueError as error:
                self.fail(f"bad string: {error}", match.start())
        elif group in ("nan", "payload", "inf"):
            self.kind, self.value = TokenKind.KEYWORD, text
        else:
            kinds = {"labels": TokenKind.DIM_LABELS, "dxd": TokenKind.DXD, "pad": TokenKind.PAD}
            self.kind, self.value = kinds[group], text

    def _checked_integer(self, text: str, start: int) -> int:
        if len(text) > 20 or not _INT_LIMITS[0] <= int(text) <= _INT_LIMITS[1]:
            self.fail("the integer does not fit 64 bits", start)
        return int(text)

    def _checked_decimal(self, text: str, start: int) -> float:
        value = float(text)
        if value in (float("inf"), float("-inf")):
            self.fail("the number is out of the range of a double", start)
        return value

    def _fail_on_character(self, start: int) -> NoReturn:
        character = self.text[start]
        if self.text.startswith("/*", start):
            self.fail("the comment is not closed", start)
        if character in "\"'":
            self.fail("the string is not closed", start)
        self.fail(f"unexpected character {character!r}", start)

    # -- failing -------------------------------------------------------------------------------

    def fail(self, message: str, offset: int | None = None) -> NoReturn:
        """Raise HloTextError at `offset`, by default at the current token."""
        offset = self.start if offset is None else offset
        if len(message) > _LONGEST_MESSAGE:
            message = f"{message[: _LONGEST_MESSAGE // 2]}...{message[-_LONGEST_MESSAGE // 2 :]}"
        line, column = self.source.line_and_column(min(offset, len(self.text)))
        raise HloTextError(
            message,
            line=line,
            column=column,
            excerpt=self.source.excerpt(min(offset, len(self.text))),
            file=self.source.file,
        )

    def describe(self) -> str:
        """Return the current token for use in a message."""
        if self.kind is TokenKind.END:
            return TokenKind.END.value
        text = self.text[self.start : self.end]
        return repr(text if len(text) <= 40 else text[:37] + "...")

    def expect_fail(self, expected: str) -> NoReturn:
        """Raise an error which says what was expected instead of the current token."""
        self.fail(f"expected {expected}, found {self.describe()}")

    # -- taking --------------------------------------------------------------------------------

    def at(self, punctuation: str) -> bool:
        """Whether the current token is this punctuation."""
        return self.kind is TokenKind.PUNCTUATION and self.value == punctuation

    def eat(self, punctuation: str) -> bool:
        """Step over this punctuation if it is the current token; return whether it was."""
        if self.kind is TokenKind.PUNCTUATION and self.value == punctuation:
            self.advance()
            return True
        return False

    def expect(self, punctuation: str, where: str = "") -> None:
        """Step over this punctuation, or fail."""
        if not self.eat(punctuation):
            self.expect_fail(f"'{punctuation}'{f' {where}' if where else ''}")

    def integer(self, what: str = "an integer") -> int:
        """Take an integer."""
        if self.kind is not TokenKind.INTEGER or not isinstance(self.value, int):
            self.expect_fail(what)
        value = self.value
        self.advance()
        return value if value < 2**63 else value - 2**64

    def integers(self, brackets: str, what: str = "an integer") -> tuple[int, ...]:
        """Take integers separated by commas between two brackets, e.g. `{1,2}` for "{}"."""
        opening, closing = brackets[0], brackets[1]
        self.expect(opening)
        values = [self.integer(what) for _ in self.elements(closing)]
        self.expect(closing)
        return tuple(values)

    def elements(self, closing: str) -> Iterator[None]:
        """Yield in front of each element of a list separated by commas.

        Ends at `closing`, which is left for the caller. No comma follows the last element.
        """
        if self.at(closing):
            return
        yield
        while self.eat(","):
            yield

    def string(self, what: str = "a string") -> str:
        """Take a string."""
        return self._take(TokenKind.STRING, what)

    def name(self, what: str = "a name") -> str:
        """Take a name, with or without a percent sign."""
        if self.kind is TokenKind.IDENTIFIER:
            return self._take(TokenKind.IDENTIFIER, what)
        return self._take(TokenKind.NAME, what)

    def identifier(self, what: str = "an identifier") -> str:
        """Take an identifier."""
        return self._take(TokenKind.IDENTIFIER, what)

    def attribute_name(self, what: str = "an attribute name followed by '='") -> str:
        """Take an attribute name with its equals sign."""
        return self._take(TokenKind.ATTRIBUTE_NAME, what)

    def keyword(self, keyword: str) -> None:
        """Take one keyword."""
        if not self.at_keyword(keyword):
            self.expect_fail(f"'{keyword}'")
        self.advance()

    def at_end(self) -> bool:
        """Whether there are no more tokens."""
        return self.kind is TokenKind.END

    def at_keyword(self, keyword: str) -> bool:
        """Whether the current token is this keyword."""
        return self.kind is TokenKind.KEYWORD and self.value == keyword

    def boolean(self) -> bool:
        """Take true or false."""
        if self.kind is TokenKind.KEYWORD and self.value in ("true", "false"):
            value = self.value == "true"
            self.advance()
            return value
        self.expect_fail("true or false")

    def number(self) -> float:
        """Take a decimal number, an integer, an infinity or a NaN."""
        special = self.kind is TokenKind.KEYWORD and str(self.value).lstrip("-") in ("inf", "nan")
        if not special and self.kind not in (TokenKind.DECIMAL, TokenKind.INTEGER):
            self.expect_fail("a number")
        value = float(self.value)
        self.advance()
        return value

    def _take(self, kind: TokenKind, what: str) -> str:
        if self.kind is not kind:
            self.expect_fail(what)
        value = str(self.value)
        self.advance()
        return value

    def choice(self, value: str, known: Iterable[str], what: str, offset: int) -> None:
        """Fail unless `value` is one of `known`; name the nearest one."""
        known = list(known)
        if value in known:
            return
        self.fail(f"unknown {what} {value!r}{nearest(value, known)}", offset)

    def json_dictionary(self) -> str:
        """Take a raw dictionary in braces, which must be the current token; return its text.

        Braces inside of double quotes do not count.
        """
        position = dictionary_end(self.text, self.start)
        if position < 0:
            self.fail("the dictionary, or a string in it, is not closed")
        text = self.text[self.start : position]
        self.seek(position)
        return text

    def enter(self) -> None:
        """Go one level deeper; fail where the nesting is too deep."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.fail(f"nested more than {MAX_DEPTH} levels deep")

    def leave(self) -> None:
        """Come back from one level."""
        self.depth -= 1
