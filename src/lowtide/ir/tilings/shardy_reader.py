"""Reading what Shardy writes in frontend attributes: meshes, shardings, manual axes."""

from __future__ import annotations

import re
from typing import Final

from lowtide.ir.errors import InputError
from lowtide.ir.mesh import AxisRef, Mesh
from lowtide.ir.tilings.shardy import ShardyDimension, ShardySharding

_TOKEN: Final = re.compile(
    r"\s*(#sdy[\w.]*|\"(?:[^\"\\]|\\.)*\"|@\"(?:[^\"\\]|\\.)*\"|@?[A-Za-z_][\w.$-]*|\d+|[^\s\w])"
)


def read_meshes(text: str) -> dict[str, Mesh]:
    """Return the meshes by name of `{mesh = #sdy.mesh<["x"=2]>, ...}`; raises InputError."""
    reader = _Reader(text)
    meshes: dict[str, Mesh] = {}
    reader.expect("{")
    while not reader.accept("}"):
        name = reader.name()
        reader.expect("=")
        reader.expect("#sdy.mesh")
        meshes[name] = reader.mesh()
        reader.accept(",")
    reader.end()
    return meshes


def read_shardings(text: str) -> tuple[ShardySharding, ...]:
    """Return the shardings of `#sdy.sharding<..>` or `#sdy.sharding_per_value<[..]>`.

    Raises InputError with the place in the text.
    """
    reader = _Reader(text)
    found: list[ShardySharding] = []
    if reader.accept("#sdy.sharding"):
        found.append(reader.sharding())
    else:
        reader.expect("#sdy.sharding_per_value")
        reader.expect("<")
        reader.expect("[")
        while not reader.accept("]"):
            found.append(reader.sharding())
            reader.accept(",")
        reader.expect(">")
    reader.end()
    return tuple(found)


def read_manual_axes(text: str) -> tuple[str, ...]:
    """Return the axis names of `#sdy<manual_axes{"x", "y"}>`; raises InputError."""
    reader = _Reader(text)
    for word in ("#sdy", "<", "manual_axes", "{"):
        reader.expect(word)
    names: list[str] = []
    while not reader.accept("}"):
        names.append(reader.quoted())
        reader.accept(",")
    reader.expect(">")
    reader.end()
    return tuple(names)


class _Reader:
    """A place in the words of an attribute, whose quotes may stand behind backslashes."""

    def __init__(self, text: str) -> None:
        text = text.replace('\\"', '"')
        self._text = text
        self._words: list[tuple[str, int]] = []
        at = 0
        while match := _TOKEN.match(text, at):
            self._words.append((match[1], match.start(1)))
            at = match.end()
        self._next = 0

    def _fail(self, expected: str) -> InputError:
        if self._next < len(self._words):
            word, at = self._words[self._next]
            found = f"found {word!r} at column {at + 1}"
        else:
            found = "it ends"
        return InputError(f"expected {expected}, {found}: {self._text}")

    def accept(self, word: str) -> bool:
        """Take the word if it is the next one."""
        if self._next < len(self._words) and self._words[self._next][0] == word:
            self._next += 1
            return True
        return False

    def expect(self, word: str) -> None:
        """Take the word, which must be the next one."""
        if not self.accept(word):
            raise self._fail(f"'{word}'")

    def _take(self, what: str, pattern: str) -> str:
        if self._next < len(self._words):
            word = self._words[self._next][0]
            if re.fullmatch(pattern, word):
                self._next += 1
                return word
        raise self._fail(what)

    def end(self) -> None:
        """Check that nothing follows."""
        if self._next != len(self._words):
            raise self._fail("the end")

    def name(self) -> str:
        """Take a name, quoted or not."""
        return self._take("a name", r"\"[^\"]*\"|[A-Za-z_][\w.$-]*").strip('"')

    def quoted(self) -> str:
        """Take a name in quotes."""
        return self._take('an axis name in "quotes"', r"\"[^\"]*\"").strip('"')

    def number(self) -> int:
        """Take a whole number."""
        return int(self._take("a number", r"\d+"))

    def mesh(self) -> Mesh:
        """Take `<["x"=2, "y"=4], device_ids=[..]>`."""
        self.expect("<")
        self.expect("[")
        names: list[str] = []
        sizes: list[int] = []
        while not self.accept("]"):
            names.append(self.quoted())
            self.expect("=")
            sizes.append(self.number())
            self.accept(",")
        devices: tuple[int, ...] | None = None
        if self.accept(","):
            self.expect("device_ids")
            self.expect("=")
            self.expect("[")
            listed: list[int] = []
            while not self.accept("]"):
                listed.append(self.number())
                self.accept(",")
            devices = tuple(listed)
        self.expect(">")
        if devices is not None and not names:
            return Mesh((), (), None, devices[0] if devices else 0)
        return Mesh(tuple(names), tuple(sizes), devices)

    def sharding(self) -> ShardySharding:
        """Take `<@mesh, [{"x"}, {?}], replicated={"y"}>`."""
        self.expect("<")
        mesh: str | Mesh
        if self.accept("mesh"):
            mesh = self.mesh()
        else:
            mesh = self._take("a mesh, @name", r"@.*")[1:].strip('"')
        self.expect(",")
        self.expect("[")
        dimensions: list[ShardyDimension] = []
        while not self.accept("]"):
            dimensions.append(self._dimension())
            self.accept(",")
        extra: dict[str, tuple[AxisRef, ...]] = {}
        while self.accept(","):
            word = self._take("replicated or unreduced", r"replicated|unreduced")
            self.expect("=")
            self.expect("{")
            extra[word] = self._axes()[0]
        self.expect(">")
        return ShardySharding(
            mesh, tuple(dimensions), extra.get("replicated", ()), extra.get("unreduced", ())
        )

    def _dimension(self) -> ShardyDimension:
        self.expect("{")
        axes, is_open = self._axes()
        priority = 0
        if self._next < len(self._words) and re.fullmatch(r"p\d+", self._words[self._next][0]):
            priority = int(self._words[self._next][0][1:])
            self._next += 1
        return ShardyDimension(axes, is_open, priority)

    def _axes(self) -> tuple[tuple[AxisRef, ...], bool]:
        axes: list[AxisRef] = []
        is_open = False
        while not self.accept("}"):
            if self.accept("?"):
                is_open = True
                continue
            name = self.quoted()
            part = None
            if self.accept(":"):
                self.expect("(")
                before = self.number()
                self.expect(")")
                part = (before, self.number())
            axes.append(AxisRef(name, part))
            self.accept(",")
        return tuple(axes), is_open
