"""TVM Relax's static memory planning: tensors of a function to storages that are used again.

A program is given as plain data: binding blocks with bindings, in order.

    {"blocks": [[binding, ...], ...],          # or "bindings": [...] for one block
     "returns": ["y"], "upper_bounds": {"n": 16}}

A binding has a `kind`, and mostly `args`, names of tensors, and `out`, a new name:

- alloc_tensor: a tensor; `bytes`, or `shape` and `dtype`; `scope` is "global" unless said. Sizes
  are numbers or expressions like "4 * n".
- call: `args` are what is read and what is written. `callee` is "prim_func", "extern" or
  "call_tir_dyn", or something else, which may keep its arguments. The result is no tensor.
- reshape, view, ensure_zero_offset: `out` is the same memory as the first argument.
- var: `out` is another name; tuple, get_item: tuples, with an `index`.
- if: `args` is the condition; `then` and `else` are programs, of which `returns` is the result.
- return: as `returns` of the program.

A chain is the shorter form for a program that is one block of calls: each with an `op`, an `out`,
its size, and perhaps "returned"; it reads the `out` before it, unless it has `args`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Final, NamedTuple

from lowtide.planning.registry import nearest
from lowtide.planning.symbolic import Size, constant, upper_bound
from lowtide.records import dataclass

MATCH_RANGE: Final = 16
"""A storage is used again for what is at most so many times smaller or larger."""

PLAIN_CALLEES: Final = frozenset({"prim_func", "extern", "call_tir_dyn"})
"""Callees that keep none of their arguments."""

ALIASES: Final = frozenset({"reshape", "view", "ensure_zero_offset", "var"})

ELEMENT_BITS: Final = {"bool": 8, "float8_e4m3fn": 8, "float8_e5m2": 8, "bfloat16": 16} | {
    f"{kind}{bits}": bits for kind in ("int", "uint", "float") for bits in (8, 16, 32, 64)
}


@dataclass(frozen=True, slots=True)
class StoragePlan:
    """Per tensor its storage, None where it stays dynamic; and the size of each storage in bytes.

    A size that is not a number is an expression.
    """

    storage: dict[str, int | None]
    storage_bytes: list[int | str]


@dataclass(eq=False, slots=True)
class _Token:
    """A tensor that may share storage, or the storage that it got."""

    size: Size
    pool: tuple[str, str]
    block: int
    references: int = 0
    storage: int = -1
    dropped: bool = False


class _Tuple(NamedTuple):
    """The values of a tuple."""

    fields: tuple[_Value, ...]


_Value = _Token | _Tuple | None


def plan(program: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> StoragePlan:
    """Return which tensors of a function share a storage.

    A tensor stays dynamic if it is returned, used outside of its block, in a condition or as the
    result of a branch, or passed to a callee that may keep it. Others take a storage of the same
    scope and type that is free: the smallest that is large enough, else the largest, which grows,
    both within 16 times the size; those of unknown size only one of equal size. A storage is free
    after the last call that uses it. The program is a mapping, or a chain. Raises ValueError for
    what is no program.
    """
    whole = _Program(_as_program(program))
    _Count(whole).run()
    return _Assign(whole).run()


def _as_program(program: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    if not isinstance(program, Mapping):
        return {"bindings": list(_chain(program)), "returns": _returned(program)}
    if "chain" not in program:
        return program
    chain = program["chain"]
    returns = [*_returned(chain), *program.get("returns", ())]
    return {**program, "bindings": list(_chain(chain)), "returns": returns}


def _chain(chain: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    before: list[str] = []
    for number, call in enumerate(chain):
        if "out" not in call:
            raise ValueError(f"call {number} of the chain lacks `out`")
        out = call["out"]
        yield {**call, "kind": "alloc_tensor"}
        args = call.get("args", before)
        callee = call.get("callee", "prim_func")
        yield {"kind": "call", "callee": callee, "args": [*args, out]}
        before = [out]


def _returned(chain: Sequence[Mapping[str, Any]]) -> list[str]:
    return [call["out"] for call in chain if call.get("returned")]


@dataclass(slots=True)
class _Program:
    """The data that both passes share: the program, and the tensors by name."""

    source: Mapping[str, Any]
    names: dict[str, _Value] = field(default_factory=dict)
    tokens: dict[str, _Token] = field(default_factory=dict)


class _Pass:
    """Walks all bindings in order; `block` is the number of the block that it is in."""

    def __init__(self, program: _Program) -> None:
        self.program = program
        self.block = -1
        self.blocks = 0

    def walk(self, part: Mapping[str, Any]) -> None:
        outer = self.block
        for block in part.get("blocks") or [part.get("bindings", [])]:
            self.block, self.blocks = self.blocks, self.blocks + 1
            here = self.block
            for binding in block:
                self.block = here
                kind = binding.get("kind")
                if kind not in _KINDS:
                    raise nearest(str(kind), list(_KINDS), "kind of binding")
                getattr(self, f"do_{_KINDS[kind]}")(binding)
        self.block = outer

    def value(self, name: str) -> _Value:
        """Return the value of a name; parameters have none."""
        return self.program.names.get(name)

    def do_alias(self, binding: Mapping[str, Any]) -> None:
        self.program.names[_field(binding, "out")] = self.value(_field(binding, "args")[0])

    def do_tuple(self, binding: Mapping[str, Any]) -> None:
        values = tuple([self.value(name) for name in _field(binding, "args")])
        self.program.names[_field(binding, "out")] = _Tuple(values)

    def do_get_item(self, binding: Mapping[str, Any]) -> None:
        value = self.value(_field(binding, "args")[0])
        item = value.fields[_field(binding, "index")] if isinstance(value, _Tuple) else None
        self.program.names[_field(binding, "out")] = item


class _Count(_Pass):
    """Finds the tensors, how often each is used, and which stay dynamic."""

    def run(self) -> None:
        self.walk(self.program.source)
        self._drop(self.program.source.get("returns", ()))

    def do_alloc(self, binding: Mapping[str, Any]) -> None:
        out = _field(binding, "out")
        if out in self.program.names:
            raise ValueError(f"{out!r} is bound twice")
        bounds = self.program.source.get("upper_bounds", {})
        pool = binding.get("scope", "global"), binding.get("dtype", "float32")
        token = _Token(_bytes_of(binding, bounds), pool, self.block)
        self.program.tokens[out] = self.program.names[out] = token

    def do_call(self, binding: Mapping[str, Any]) -> None:
        args = _field(binding, "args")
        if binding.get("callee", "prim_func") not in PLAIN_CALLEES:
            self._drop(args)
            return
        for token in self._tokens(args):
            token.references += 1
            token.dropped |= token.block != self.block

    def do_if(self, binding: Mapping[str, Any]) -> None:
        self._drop(binding.get("args", ()))
        for branch in ("then", "else"):
            part = _field(binding, branch)
            self.walk(part)
            self._drop(part.get("returns", ()))
        if "out" in binding:
            self.program.names[binding["out"]] = None

    def do_return(self, binding: Mapping[str, Any]) -> None:
        self._drop(_field(binding, "args"))

    def _drop(self, names: Sequence[str]) -> None:
        for token in self._tokens(names):
            token.dropped = True

    def _tokens(self, names: Sequence[str]) -> Iterator[_Token]:
        for name in names:
            yield from _leaves(self.value(name))


class _Assign(_Pass):
    """Gives storages to tensors at their beginning, and takes them back at their end."""

    def __init__(self, program: _Program) -> None:
        super().__init__(program)
        self.storages: list[_Token] = []
        self.of: dict[_Token, _Token] = {}
        self.free: dict[tuple[str, str], list[_Token]] = {}

    def run(self) -> StoragePlan:
        self.program.names.clear()
        self.walk(self.program.source)
        found = {
            name: self.of[token].storage if token in self.of else None
            for name, token in self.program.tokens.items()
        }
        return StoragePlan(found, [_plain(token.size) for token in self.storages])

    def do_alloc(self, binding: Mapping[str, Any]) -> None:
        token = self.program.tokens[binding["out"]]
        self.program.names[binding["out"]] = token
        if token.dropped:
            return
        storage = self._reuse(token) if token.references else None
        if storage is None:
            storage = _Token(token.size, token.pool, token.block, storage=len(self.storages))
            self.storages.append(storage)
        storage.references = token.references
        self.of[token] = storage

    def do_call(self, binding: Mapping[str, Any]) -> None:
        if binding.get("callee", "prim_func") not in PLAIN_CALLEES:
            return
        for name in binding["args"]:
            for token in _leaves(self.value(name)):
                if not token.dropped:
                    self._release(self.of[token])

    def do_if(self, binding: Mapping[str, Any]) -> None:
        self.walk(binding["then"])
        self.walk(binding["else"])
        if "out" in binding:
            self.program.names[binding["out"]] = None

    def do_return(self, binding: Mapping[str, Any]) -> None:
        """What is returned has no storage."""

    def _release(self, storage: _Token) -> None:
        storage.references -= 1
        if not storage.references:
            free = self.free.setdefault(storage.pool, [])
            free.insert(bisect_right(free, _key(storage), key=_key), storage)

    def _reuse(self, token: _Token) -> _Token | None:
        """Take a storage that is free, the first of equal ones, or of smaller ones the last."""
        free = self.free.setdefault(token.pool, [])
        size = token.size.value
        if size is None:
            same = [at for at, x in enumerate(free) if x.size == token.size]
            return free.pop(same[0]) if same else None
        at = bisect_left(free, size, key=_key)
        if at < bisect_right(free, size * MATCH_RANGE, key=_key):
            return free.pop(at)
        if at > bisect_left(free, size // MATCH_RANGE, key=_key):
            found = free.pop(at - 1)
            found.size = token.size
            return found
        return None


_KINDS: Final = {
    "alloc_tensor": "alloc",
    "call": "call",
    "tuple": "tuple",
    "get_item": "get_item",
    "if": "if",
    "return": "return",
} | dict.fromkeys(sorted(ALIASES), "alias")


def _leaves(value: _Value) -> Iterator[_Token]:
    waiting = [value]
    while waiting:
        found = waiting.pop()
        if isinstance(found, _Tuple):
            waiting += reversed(found.fields)
        elif found is not None:
            yield found


def _key(token: _Token) -> int:
    value = token.size.value
    return -1 if value is None else value


def _plain(size: Size) -> int | str:
    return str(size) if size.value is None else size.value


def _field(binding: Mapping[str, Any], name: str) -> Any:
    if name not in binding:
        raise ValueError(f"a binding of kind {binding['kind']} lacks {name!r}")
    return binding[name]


def _bytes_of(binding: Mapping[str, Any], bounds: Mapping[str, int]) -> Size:
    """The bytes of a tensor, variables at their upper bounds."""
    if "bytes" in binding:
        size = upper_bound(binding["bytes"], bounds)
    else:
        dtype = binding.get("dtype", "float32")
        if dtype not in ELEMENT_BITS:
            raise nearest(dtype, list(ELEMENT_BITS), "dtype")
        size = constant(ELEMENT_BITS[dtype] // 8)
        for extent in _field(binding, "shape"):
            size = size * upper_bound(extent, bounds)
    if size.value is not None and size.value < 0:
        raise ValueError(f"{binding['out']!r} has {size.value} bytes")
    return size
