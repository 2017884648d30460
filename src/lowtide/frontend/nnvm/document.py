"""Graph JSON as NNVM, MXNet and the graph executor of Relay write it.

A document has `nodes`, `arg_nodes`, `heads`, `node_row_ptr` and `attrs`. A node has `op` ("null":
given from outside), `name`, `inputs` as [node, output, version], perhaps `control_deps`, and
attributes in `attrs`, `attr` or `param`. Attributes of the graph are pairs [type, value], by entry:
`shape`, `dltype` or `dtype`, `storage_id`. What the fields are called by whom, and that a node of
Relay is a `tvm_op`, is known here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from itertools import accumulate, pairwise
from typing import Any, Final

from lowtide.frontend.json_document import load_json, shown
from lowtide.ir.errors import InputError
from lowtide.records import dataclass

_OURS: Final = "buffers"
"""A field of the memory graphs that lowtide writes, which no document of these has."""

_ATTRIBUTES: Final = ("attrs", "attr", "param")
_COMPILED: Final = "tvm_op"
_FUNCTION: Final = "func_name"
_OUTPUTS: Final = "num_outputs"

SEVERAL: Final[Mapping[str, str]] = {
    "split": "indices_or_sections",
    "SliceChannel": "num_outputs",
    "SplitV2": "sections",
}
"""Operations of as many outputs as an attribute says."""

_FLAGS: Final = ("float32", "float64", "float16", "uint8", "int32", "int8", "int64")
"""Element types by their numbers in NNVM and MXNet."""

_MOST: Final = 1 << 40


@dataclass(frozen=True, slots=True)
class NnvmEntry:
    """An output of a node, by number."""

    node: int
    output: int


@dataclass(frozen=True, slots=True)
class NnvmDocumentNode:
    """A node: what it is called, its operation (None: given from outside), inputs, attributes.

    `first` is the number of its first entry, of `count` in all.
    """

    name: str
    op: str | None
    inputs: tuple[NnvmEntry, ...]
    attributes: Mapping[str, str]
    first: int
    count: int


@dataclass(frozen=True, slots=True)
class NnvmDocument:
    """A graph; `shapes` and `types` are by entry, None where the file does not tell.

    `is_compiled` says that its operations are functions of Relay's compiler. `content` is the whole
    document as it was.
    """

    file: str
    nodes: tuple[NnvmDocumentNode, ...]
    heads: tuple[NnvmEntry, ...]
    shapes: tuple[tuple[int, ...] | None, ...]
    types: tuple[str | None, ...]
    content: Mapping[str, Any] = field(repr=False)

    @property
    def is_compiled(self) -> bool:
        """Whether operations are functions of Relay's compiler, of which only names are known."""
        return any(_FUNCTION in x.attributes for x in self.nodes)

    @property
    def entry_count(self) -> int:
        """How many entries there are."""
        return len(self.shapes)

    def entry(self, at: NnvmEntry) -> int:
        """The number of an entry among all."""
        return self.nodes[at.node].first + at.output


def read_nnvm(data: bytes | str, file: str = "") -> NnvmDocument:
    """Return the graph in a document; raises InputError with the path of the first bad field."""
    content = load_json(data, "a graph of NNVM", file)
    if not isinstance(content, dict) or _OURS in content:
        raise InputError("not a graph of NNVM: expected an object without buffers", file=file)
    return _Reader(file, content).document()


class _Reader:
    """Takes fields out of a document; every error names the field."""

    def __init__(self, file: str, content: dict[str, Any]) -> None:
        self.file, self.content = file, content

    def error(self, message: str, where: str) -> InputError:
        """The error to raise for what stands in a field."""
        return InputError(message, file=self.file, position=where)

    def document(self) -> NnvmDocument:
        """The graph."""
        given = self.objects()
        inputs = [self.inputs(x, i) for i, x in enumerate(given)]
        heads = self.entries(self.content.get("heads"), "heads", len(given))
        counts = self.counts(given, [*[y for x in inputs for y in x], *heads])
        firsts = [0, *accumulate(counts)]
        nodes = tuple(
            [
                NnvmDocumentNode(
                    self.text(x, "name", i),
                    self.op(x, i),
                    inputs[i],
                    self.attributes(x, i),
                    firsts[i],
                    counts[i],
                )
                for i, x in enumerate(given)
            ]
        )
        self.check_order(nodes)
        self.check_names(nodes)
        shapes, types = self.shapes(firsts[-1], nodes), self.types(firsts[-1], nodes)
        return NnvmDocument(self.file, nodes, heads, shapes, types, self.content)

    def objects(self) -> list[dict[str, Any]]:
        """The nodes as objects."""
        found = self.content.get("nodes")
        if not isinstance(found, list) or not found:
            raise self.error(f"expected a list of nodes, found {shown(found)}", "nodes")
        for number, node in enumerate(found):
            if not isinstance(node, dict):
                raise self.error(f"expected an object, found {shown(node)}", f"nodes[{number}]")
        return found

    def text(self, node: dict[str, Any], name: str, number: int) -> str:
        """A field that is text."""
        value = node.get(name)
        if not isinstance(value, str):
            raise self.error(f"expected text, found {shown(value)}", f"nodes[{number}].{name}")
        return value

    def op(self, node: dict[str, Any], number: int) -> str | None:
        """The operation of a node, of compiled ones the name of their function."""
        name = self.text(node, "op", number)
        if name == "null":
            return None
        return self.attributes(node, number).get(_FUNCTION, name) if name == _COMPILED else name

    def attributes(self, node: dict[str, Any], number: int) -> dict[str, str]:
        """The attributes of a node: text by name."""
        found: dict[str, str] = {}
        for name in _ATTRIBUTES:
            given = node.get(name, {})
            if not isinstance(given, dict):
                raise self.error(f"expected an object, found {shown(given)}", f"nodes[{number}]")
            found |= {str(x): y if isinstance(y, str) else shown(y) for x, y in given.items()}
        return found

    def inputs(self, node: dict[str, Any], number: int) -> tuple[NnvmEntry, ...]:
        """The entries that a node reads."""
        return self.entries(node.get("inputs"), f"nodes[{number}].inputs", number)

    def entries(self, given: Any, where: str, below: int) -> tuple[NnvmEntry, ...]:
        """Entries of nodes in front of one; a third number, a version, counts for nothing."""
        if not isinstance(given, list):
            raise self.error(f"expected a list of [node, output], found {shown(given)}", where)
        found = []
        for place, pair in enumerate(given):
            numbers = [pair, 0] if isinstance(pair, int) else pair
            is_good = isinstance(numbers, list) and 2 <= len(numbers) <= 3
            if not is_good or not all(isinstance(x, int) and 0 <= x < _MOST for x in numbers):
                text = f"expected [node, output], found {shown(pair)}"
                raise self.error(text, f"{where}[{place}]")
            if numbers[0] >= below:
                text = f"node {numbers[0]} does not stand in front of it; there are {below}"
                raise self.error(text, f"{where}[{place}]")
            found.append(NnvmEntry(numbers[0], numbers[1]))
        return tuple(found)

    def counts(self, nodes: Sequence[dict[str, Any]], read: Sequence[NnvmEntry]) -> list[int]:
        """How many outputs each node has: as `node_row_ptr` says, or as are read."""
        rows = self.content.get("node_row_ptr")
        if rows is not None:
            is_list = isinstance(rows, list) and len(rows) == len(nodes) + 1
            if not is_list or not all(isinstance(x, int) for x in rows) or rows[0] != 0:
                text = f"expected {len(nodes) + 1} numbers from 0 on, found {shown(rows)}"
                raise self.error(text, "node_row_ptr")
            found = [b - a for a, b in pairwise(rows)]
            if min(found) < 0 or max(found) > _MOST:
                raise self.error(f"expected rising numbers, found {shown(rows)}", "node_row_ptr")
        else:
            found = [self.declared(x, i) for i, x in enumerate(nodes)]
        for entry in read:
            if entry.output >= found[entry.node]:
                if rows is not None:
                    text = (
                        f"output {entry.output} of node {entry.node}, which has {found[entry.node]}"
                    )
                    raise self.error(text, "node_row_ptr")
                found[entry.node] = entry.output + 1
        return found

    def declared(self, node: dict[str, Any], number: int) -> int:
        """How many outputs the attributes of a node say that it has."""
        attributes = self.attributes(node, number)
        name = SEVERAL.get(str(node.get("op")), _OUTPUTS)
        text = attributes.get(name, "1")
        count = int(text) if text.isdigit() and len(text) < 6 else text.count(",") + 1
        return max(count, 1)

    def check_order(self, nodes: Sequence[NnvmDocumentNode]) -> None:
        """Raise InputError for a list of arguments that names what is no argument."""
        given = self.content.get("arg_nodes")
        if not isinstance(given, list):
            raise self.error(f"expected a list of nodes, found {shown(given)}", "arg_nodes")
        for place, number in enumerate(given):
            is_node = isinstance(number, int) and 0 <= number < len(nodes)
            if not is_node or nodes[number].op is not None:
                text = f"expected the number of a node without operation, found {shown(number)}"
                raise self.error(text, f"arg_nodes[{place}]")

    def check_names(self, nodes: Sequence[NnvmDocumentNode]) -> None:
        """Raise InputError where two arguments have one name."""
        seen: set[str] = set()
        for number, node in enumerate(nodes):
            if node.op is None and node.name in seen:
                text = f"there is another argument {node.name!r}"
                raise self.error(text, f"nodes[{number}].name")
            seen |= {node.name} if node.op is None else set()

    def listed(self, name: str, count: int, rows: Sequence[NnvmDocumentNode]) -> list[Any] | None:
        """An attribute of the graph by entry, None where it is not there."""
        attributes = self.content.get("attrs", {})
        if not isinstance(attributes, dict):
            raise self.error(f"expected an object, found {shown(attributes)}", "attrs")
        if name not in attributes:
            return None
        pair = attributes[name]
        found = pair[1] if isinstance(pair, list) and len(pair) == 2 else None
        if not isinstance(found, list) or len(found) != count:
            text = f"expected [type, list of {count}], one for each output of {len(rows)} nodes"
            raise self.error(f"{text}, found {shown(pair)}", f"attrs.{name}")
        return found

    def shapes(
        self, count: int, nodes: Sequence[NnvmDocumentNode]
    ) -> tuple[tuple[int, ...] | None, ...]:
        """The shape of each entry; one of a 0, or without sizes in MXNet, is not known."""
        given = self.listed("shape", count, nodes)
        if given is None:
            return (None,) * count
        for place, shape in enumerate(given):
            is_list = isinstance(shape, list)
            if not is_list or not all(isinstance(x, int) and 0 <= x < _MOST for x in shape):
                text = f"expected a list of sizes, found {shown(shape)}"
                raise self.error(text, f"attrs.shape[1][{place}]")
        return tuple([tuple(x) for x in given])

    def types(self, count: int, nodes: Sequence[NnvmDocumentNode]) -> tuple[str | None, ...]:
        """The element type of each entry by name."""
        for name in ("dltype", "dtype"):
            given = self.listed(name, count, nodes)
            if given is None:
                continue
            found = []
            for place, kind in enumerate(given):
                is_flag = isinstance(kind, int) and 0 <= kind < len(_FLAGS)
                if not is_flag and not isinstance(kind, str):
                    text = f"expected the name of a type, found {shown(kind)}"
                    raise self.error(text, f"attrs.{name}[1][{place}]")
                found.append(_FLAGS[kind] if is_flag else kind)
            return tuple(found)
        return (None,) * count
