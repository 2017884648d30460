"""What the source says of its own structure: rooms, imports, sizes, names.

python -m tests.architecture            the figures, then the map of ARCHITECTURE.md
python -m tests.architecture --write    put the map into ARCHITECTURE.md
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Final, TypeVar

ROOT: Final = Path(__file__).parents[1]
PACKAGE: Final = ROOT / "src" / "lowtide"
BEGIN: Final = "<!-- begin map -->\n"
END: Final = "<!-- end map -->\n"

EVERYWHERE: Final = ("records", "suggestions")
"""Rooms that stand for a part of the language: all others may import them."""

Node = TypeVar("Node", bound=Hashable)
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, eq=False)
class Source:
    """A file of the package: its path below it, its text and its syntax."""

    path: Path
    text: str
    tree: ast.Module

    @cached_property
    def spoken_of(self) -> tuple[ast.AST, ...]:
        """The nodes that rules speak of: imports, calls, classes and functions."""
        kinds = ast.Import | ast.ImportFrom | ast.Call | ast.ClassDef | Function
        return tuple([x for x in ast.walk(self.tree) if isinstance(x, kinds)])

    @cached_property
    def name(self) -> str:
        """The path below the package."""
        return self.path.relative_to(PACKAGE).as_posix()

    @cached_property
    def module(self) -> str:
        """The dotted name."""
        parts = self.path.relative_to(PACKAGE.parent).with_suffix("").parts
        return ".".join(parts).removesuffix(".__init__")

    @cached_property
    def room(self) -> str:
        """The folder at the root of the package, or the file there."""
        return self.path.relative_to(PACKAGE).parts[0].removesuffix(".py")

    @property
    def lines(self) -> int:
        """The number of lines."""
        return len(self.text.splitlines())


@cache
def sources() -> tuple[Source, ...]:
    """Return all files of the package, sorted."""
    paths = sorted(PACKAGE.rglob("*.py"))
    return tuple([Source(x, x.read_text(), ast.parse(x.read_text())) for x in paths])


# -- imports -------------------------------------------------------------------------------------


def imported(source: Source) -> set[str]:
    """Return the dotted names that a file imports, wherever the statement stands."""
    return {name for node in source.spoken_of for name in _names(node)}


def _names(node: ast.AST) -> Iterator[str]:
    """The names that a statement imports; a relative one stands behind a period, as written."""
    if isinstance(node, ast.ImportFrom):
        module = "." * node.level + (node.module or "")
        yield module
        yield from [f"{module}.{alias.name}" for alias in node.names]
    elif isinstance(node, ast.Import):
        yield from [alias.name for alias in node.names]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
        called = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
        texts = [x.value for x in node.args[:1] if isinstance(x, ast.Constant)]
        if called in ("import_module", "__import__"):
            yield from [x for x in texts if isinstance(x, str)]


def odd_imports(source: Source) -> list[str]:
    """Return imports that do not say from which file: relative ones, and of `lowtide` itself."""
    found = sorted({x for x in imported(source) if x.startswith(".")})
    for node in source.spoken_of:
        if isinstance(node, ast.Import):
            found += [x.name for x in node.names if x.name == "lowtide"]
        elif isinstance(node, ast.ImportFrom) and node.module == "lowtide":
            found += [f"lowtide.{x.name}" for x in node.names if not _is_file(x.name)]
    return found


def _is_file(name: str) -> bool:
    return (PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").exists()


def imported_rooms(source: Source) -> set[str]:
    """Return the rooms that a file imports, its own left out."""
    found = {name.split(".")[1] for name in imported(source) if name.startswith("lowtide.")}
    return (found & _known_rooms()) - {source.room, *EVERYWHERE}


@cache
def _known_rooms() -> frozenset[str]:
    return frozenset([x.room for x in sources()])


@cache
def _known_modules() -> frozenset[str]:
    return frozenset([x.module for x in sources()])


def rooms() -> dict[str, set[str]]:
    """Return each room with the rooms that it imports."""
    found: dict[str, set[str]] = defaultdict(set)
    for source in sources():
        found[source.room] |= imported_rooms(source)
    return dict(sorted(found.items()))


def loaded(source: Source) -> set[str]:
    """Return the modules that loading a file loads: no imports in functions or for types only."""
    modules = _known_modules()
    found: set[str] = set()
    waiting: list[ast.AST] = [source.tree]
    while waiting:
        node = waiting.pop()
        names = [name for name in _names(node) if name in modules]
        found |= {x for x in names if not any(y.startswith(f"{x}.") for y in names)}
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            waiting += node.orelse
        elif not isinstance(node, Function):
            waiting += ast.iter_child_nodes(node)
    return found - {source.module}


def cycles(graph: Mapping[Node, set[Node]]) -> list[list[Node]]:
    """Return the sets of two or more nodes that reach one another.

    Tarjan, "Depth-First Search and Linear Graph Algorithms" (1972), without recursion.
    """
    number: dict[Node, int] = {}
    lowest: dict[Node, int] = {}
    stack: list[Node] = []
    found: list[list[Node]] = []
    for start in graph:
        walk = [] if start in number else [(start, iter(sorted(graph[start], key=str)))]
        while walk:
            node, rest = walk[-1]
            if node not in number:
                number[node] = lowest[node] = len(number)
                stack.append(node)
            following = next(rest, None)
            if following is None:
                walk.pop()
                if walk:
                    lowest[walk[-1][0]] = min(lowest[walk[-1][0]], lowest[node])
                if lowest[node] == number[node]:
                    place = stack.index(node)
                    found.append(stack[place:])
                    del stack[place:]
            elif following not in number:
                walk.append((following, iter(sorted(graph.get(following, ()), key=str))))
            elif following in stack:
                lowest[node] = min(lowest[node], number[following])
    return [x for x in found if len(x) > 1]


# -- names and sizes -----------------------------------------------------------------------------


def classes_defined_twice() -> dict[str, list[str]]:
    """Return the names of public classes that several files define, with these."""
    places: dict[str, list[str]] = defaultdict(list)
    for source in sources():
        for node in source.spoken_of:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(source.name)
    return {name: files for name, files in sorted(places.items()) if len(files) > 1}


def parameter_counts(source: Source) -> dict[str, int]:
    """Return the most parameters of functions by name, `self` and `cls` left out."""
    found: dict[str, int] = {}
    for node in source.spoken_of:
        if isinstance(node, Function):
            given = node.args
            names = [x.arg for x in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
            count = len(names) - (names[:1] in (["self"], ["cls"]))
            found[node.name] = max(count, found.get(node.name, 0))
    return found


def function_lines(source: Source) -> dict[str, int]:
    """Return the most lines of functions by name, docstrings and all."""
    found: dict[str, int] = {}
    for node in source.spoken_of:
        if isinstance(node, Function):
            assert node.end_lineno is not None
            lines = node.end_lineno - node.lineno + 1
            found[node.name] = max(lines, found.get(node.name, 0))
    return found


# -- the map -------------------------------------------------------------------------------------


def headline(room: str) -> str:
    """Return the first paragraph of a room's docstring, on one line."""
    path = PACKAGE / room / "__init__.py"
    source = path if path.exists() else PACKAGE / f"{room}.py"
    text = ast.get_docstring(ast.parse(source.read_text())) or ""
    return " ".join(text.split("\n\n")[0].split())


def floors(graph: Mapping[str, set[str]]) -> dict[str, int]:
    """Return how high each room stands: one above the highest that it imports."""
    found: dict[str, int] = {}
    while len(found) < len(graph):
        ready = [x for x in graph if x not in found and graph[x] <= found.keys()]
        if not ready:
            raise ValueError(f"rooms import one another: {cycles(graph)}")
        found |= {x: max([found[y] + 1 for y in graph[x]], default=0) for x in ready}
    return found


def drawn_map(allowed: Mapping[str, Sequence[str]]) -> str:
    """Return the table of all rooms, the ground floor last."""
    graph = {x: y & allowed.keys() for x, y in rooms().items() if x in allowed}
    height = floors(graph)
    order = sorted(graph, key=lambda x: (-height[x], x))
    lines = ["| floor | room | what | imports |", "|---|---|---|---|"]
    for room in order:
        folder = f"`{room}/`" if (PACKAGE / room).is_dir() else f"`{room}.py`"
        below = ", ".join(sorted(graph[room], key=lambda x: (-height[x], x))) or "nothing"
        lines.append(f"| {height[room]} | {folder} | {headline(room)} | {below} |")
    return "\n".join(lines) + "\n"


def with_map(document: str, table: str) -> str:
    """Return a document with the table between its marks."""
    before, rest = document.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}{table}{END}{after}"


def figures(order: Sequence[str]) -> dict[str, object]:
    """Return what the rules of the architecture are about; `order` has the ground floor first."""
    graph = rooms()
    known = [x for x in order if x in graph]
    upward = [
        (x, y) for x in known for y in graph[x] if y in known and known.index(y) > known.index(x)
    ]
    longest = max(sources(), key=lambda x: x.lines)
    wide = [n for x in sources() for n, count in parameter_counts(x).items() if count > 10]
    return {
        "files": len(sources()),
        "lines": sum([x.lines for x in sources()]),
        "files at the root": len(list(PACKAGE.glob("*.py"))),
        "cycles of rooms": len(cycles(graph)),
        "imports upward": len(upward),
        "cycles of files": len(cycles({x.module: loaded(x) for x in sources()})),
        "functions of more than ten parameters": len(wide),
        "class names defined twice": len(classes_defined_twice()),
        "longest file": f"{longest.name}, {longest.lines} lines",
    }


def main() -> None:
    """Print the figures and the map, or write the map."""
    from tests.test_architecture import ROOMS

    for name, figure in figures(list(ROOMS)).items():
        print(f"{name}: {figure}")
    table = drawn_map(ROOMS)
    if "--write" not in sys.argv[1:]:
        print(f"\n{table}")
        return
    document = ROOT / "ARCHITECTURE.md"
    document.write_text(with_map(document.read_text(), table))


if __name__ == "__main__":
    main()
