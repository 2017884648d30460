"""Memory graphs as JSON: the nodes of one computation, and the buffers between them.

A document has `name`, `source`, `notes` (text), `nodes` with `name`, `opcode`, `seconds`,
`scratch_bytes` and `control` (nodes that come before), and `buffers` with `bytes`, `producer` (-1:
there from the start), `consumers`, `live_out` and `may_reuse` (buffers whose storage it may take
over). Nodes and buffers are numbered by their place in the two lists.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from lowtide.analysis.memory_graph import MemoryGraph, lists
from lowtide.frontend.json_document import load_json, shown
from lowtide.ir.errors import InputError
from lowtide.records import dataclass

_TEXTS: Final = ("name", "source", "notes")
_LIMIT: Final = 1 << 62
"""All bytes together are below, so that sums fit 64 bits."""

_SCALAR_BYTES: Final = 8
"""What makes no more than this counts as a scalar: a file does not tell element types."""


@dataclass(frozen=True, eq=False, slots=True)
class GraphFile:
    """A memory graph and what reports say about it; names and opcodes are per node."""

    name: str
    source: str
    notes: str
    node_names: tuple[str, ...]
    opcodes: tuple[str, ...]
    graph: MemoryGraph


def read_graph_json(data: bytes | str, file: str = "") -> GraphFile:
    """Return the graph in a document.

    Raises InputError, with the path of the field, for the first thing that is malformed: text that
    is not JSON, a field that is missing or of another type, a number that no node or buffer has, a
    buffer that may not reuse what it names, a cycle.
    """
    return read_graph_document(_document(data, file), file)


def read_graph_document(document: dict[str, Any], file: str = "") -> GraphFile:
    """Return the graph in a document that is read already; raises as `read_graph_json`."""
    reader = _Reader(file)
    nodes = reader.objects(document, "nodes", "")
    buffers = reader.objects(document, "buffers", "")
    rows = _Rows(reader, nodes, buffers)
    _check_order(rows, reader)
    name, source, notes = (reader.field(document, x, "", _TEXT) for x in _TEXTS)
    return GraphFile(name, source, notes, tuple(rows.names), tuple(rows.opcodes), _graph(rows))


def looks_like_graph(data: bytes) -> bool:
    """Whether the first bytes of a file may be those of a memory graph."""
    return data.lstrip()[:1] == b"{" and (b'"nodes"' in data or b'"name"' in data)


def _document(data: bytes | str, file: str) -> dict[str, Any]:
    document = load_json(data, "a memory graph", file)
    if not isinstance(document, dict):
        raise InputError("not a memory graph: expected an object", file=file)
    return document


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_seconds(value: object) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return 0 <= value < math.inf


@dataclass(frozen=True, slots=True)
class _Kind:
    """What a field may hold."""

    expected: str
    test: Callable[[Any], bool]


_TEXT: Final = _Kind("a string", lambda x: isinstance(x, str))
_FLAG: Final = _Kind("true or false", lambda x: isinstance(x, bool))
_LIST: Final = _Kind("a list", lambda x: isinstance(x, list))
_BYTES: Final = _Kind("whole bytes from 0, below 2^62", lambda x: _is_whole(x) and 0 <= x < _LIMIT)
_SECONDS: Final = _Kind("seconds, finite and not negative", _is_seconds)


class _Reader:
    """Takes fields out of a document; every error names the field."""

    def __init__(self, file: str) -> None:
        self.file = file

    def error(self, message: str, where: str) -> InputError:
        return InputError(message, file=self.file, position=where)

    def field(self, entry: dict[str, Any], name: str, where: str, kind: _Kind) -> Any:
        path = f"{where}.{name}".strip(".")
        if name not in entry:
            raise self.error(f"no field {name!r}", where or name)
        value = entry[name]
        if not kind.test(value):
            raise self.error(f"expected {kind.expected}, found {shown(value)}", path)
        return value

    def objects(self, entry: dict[str, Any], name: str, where: str) -> list[dict[str, Any]]:
        values: list[dict[str, Any]] = self.field(entry, name, where, _LIST)
        for number, value in enumerate(values):
            if not isinstance(value, dict):
                raise self.error(f"expected an object, found {shown(value)}", f"{name}[{number}]")
        return values

    def numbers(
        self, entry: dict[str, Any], name: str, where: str, count: int, of: str
    ) -> list[int]:
        values: list[int] = self.field(entry, name, where, _LIST)
        for place, value in enumerate(values):
            if not _is_whole(value) or not 0 <= value < count:
                found = f"expected the number of a {of}, 0 to {count - 1}, found {shown(value)}"
                raise self.error(found, f"{where}.{name}[{place}]")
        return list(dict.fromkeys(values))


class _Rows:
    """The fields of all nodes and buffers, checked one by one."""

    def __init__(
        self, reader: _Reader, nodes: Sequence[dict[str, Any]], buffers: Sequence[dict[str, Any]]
    ) -> None:
        self.reader = reader
        self.count = len(nodes)
        self._read_nodes(nodes)
        self._read_buffers(buffers)
        self.reuse = [
            reader.numbers(x, "may_reuse", f"buffers[{b}]", len(buffers), "buffer")
            for b, x in enumerate(buffers)
        ]
        self._check_reuse()

    def _read_nodes(self, nodes: Sequence[dict[str, Any]]) -> None:
        reader, count = self.reader, self.count
        paths = [f"nodes[{v}]" for v in range(count)]
        pairs = list(zip(nodes, paths, strict=True))
        self.names: list[str] = [reader.field(x, "name", at, _TEXT) for x, at in pairs]
        self.opcodes: list[str] = [reader.field(x, "opcode", at, _TEXT) for x, at in pairs]
        self.seconds: list[float] = [reader.field(x, "seconds", at, _SECONDS) for x, at in pairs]
        self.scratch: list[int] = [reader.field(x, "scratch_bytes", at, _BYTES) for x, at in pairs]
        self.control = [reader.numbers(x, "control", at, count, "node") for x, at in pairs]
        if sum(self.scratch) >= _LIMIT:
            raise reader.error("all scratch together takes 2^62 bytes or more", "nodes")

    def _read_buffers(self, buffers: Sequence[dict[str, Any]]) -> None:
        reader, count = self.reader, self.count
        paths = [f"buffers[{b}]" for b in range(len(buffers))]
        pairs = list(zip(buffers, paths, strict=True))
        producer = _Kind(
            f"the number of a node, -1 to {count - 1}", lambda x: _is_whole(x) and -1 <= x < count
        )
        self.size: list[int] = [reader.field(x, "bytes", at, _BYTES) for x, at in pairs]
        self.producer: list[int] = [reader.field(x, "producer", at, producer) for x, at in pairs]
        self.live_out: list[bool] = [reader.field(x, "live_out", at, _FLAG) for x, at in pairs]
        self.consumers = [reader.numbers(x, "consumers", at, count, "node") for x, at in pairs]
        if sum(self.size) >= _LIMIT:
            raise reader.error("all buffers together take 2^62 bytes or more", "buffers")

    def _check_reuse(self) -> None:
        readers = [set(nodes) for nodes in self.consumers]
        for b, others in enumerate(self.reuse):
            for a in others:
                fault = self._reuse_fault(b, a, readers[a])
                if fault:
                    raise self.reader.error(fault, f"buffers[{b}].may_reuse")

    def _reuse_fault(self, b: int, a: int, readers: set[int]) -> str:
        if self.producer[b] < 0:
            return "a buffer without a producer takes over nothing"
        if self.size[a] != self.size[b]:
            return f"buffer {a} has {self.size[a]} bytes, this one {self.size[b]}"
        if self.producer[b] not in readers:
            return f"the producer, node {self.producer[b]}, does not read buffer {a}"
        return ""


def _check_order(rows: _Rows, reader: _Reader) -> None:
    """Raise InputError for nodes that wait for each other, or for a node that reads its own."""
    waiting = [len(before) for before in rows.control]
    followers: list[list[int]] = [[] for _ in range(rows.count)]
    for node, before in enumerate(rows.control):
        for other in before:
            followers[other].append(node)
    for producer, consumers in zip(rows.producer, rows.consumers, strict=True):
        if producer >= 0:
            followers[producer] += consumers
            for node in consumers:
                waiting[node] += 1
    ready = [node for node, count in enumerate(waiting) if not count]
    for node in ready:
        for follower in followers[node]:
            waiting[follower] -= 1
            if not waiting[follower]:
                ready.append(follower)
    stuck = [node for node, count in enumerate(waiting) if count]
    if stuck:
        shown = _a_cycle(stuck, followers)
        raise reader.error(
            "these nodes wait for each other: " + ", ".join(map(str, shown)), "nodes"
        )


def _a_cycle(stuck: list[int], followers: list[list[int]]) -> list[int]:
    """Nodes of one cycle, at most the first few: each of `stuck` waits for another of them."""
    left = set(stuck)
    before = {node: other for other in stuck for node in followers[other] if node in left}
    path: list[int] = []
    node = stuck[0]
    seen: dict[int, int] = {}
    while node not in seen:
        seen[node] = len(path)
        path.append(node)
        node = before[node]
    return sorted(path[seen[node] :])[:8]


def _graph(rows: _Rows) -> MemoryGraph:
    count, buffers = rows.count, len(rows.size)
    reads: list[list[int]] = [[] for _ in range(count)]
    made = np.zeros(count + 1, np.int64)
    np.add.at(made, rows.producer, np.array(rows.size, np.int64))
    for producer, consumers in zip(rows.producer, rows.consumers, strict=True):
        for node in consumers if producer >= 0 else ():
            reads[node].append(producer)
    operands = [list(dict.fromkeys(before)) for before in reads]
    rank = np.empty(count, np.int32)
    rank[sorted(range(count), key=rows.names.__getitem__)] = np.arange(count, dtype=np.int32)
    shares = [
        (rows.producer[b], a, b)
        for b, others in enumerate(rows.reuse)
        for a in others
        if rows.size[b] and not rows.live_out[a]
    ]
    return MemoryGraph(
        operands=lists(operands),
        control=lists(rows.control),
        scratch_bytes=np.array(rows.scratch, np.int64),
        inner_bytes=np.zeros(count, np.int64),
        name_rank=rank,
        is_scalar=made[:count] <= _SCALAR_BYTES,
        is_leaf=np.zeros(count, bool),
        urgency=np.zeros(count, np.int32),
        root=count - 1,
        buffer_bytes=np.array(rows.size, np.int64),
        producer=np.array(rows.producer, np.int32),
        consumers=lists(rows.consumers),
        live_out=np.array(rows.live_out, bool),
        alias_set=np.full(buffers, -1, np.int32),
        colour=np.zeros(buffers, np.int32),
        bin=np.full(buffers, -1, np.int32),
        shares=np.array(sorted(shares), np.int32).reshape(-1, 3),
        seconds=np.array(rows.seconds, np.float64),
    )
