"""Plans from the JSON that `lowtide plan -o` writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from lowtide.frontend.hlo_proto.buffer_assignment_sites import ModuleSite, is_phi, sites_of
from lowtide.frontend.hlo_proto.buffer_assignment_tables import SliceTables
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.frontend.json_document import load_json, shown
from lowtide.ir.buffer import (
    Allocation,
    AllocationKind,
    AssignedValue,
    BufferAssignment,
    BufferSlice,
)
from lowtide.ir.errors import InputError
from lowtide.ir.instruction import Instruction
from lowtide.ir.module import Module
from lowtide.ir.opcode import Opcode
from lowtide.ir.shape import Shape, ShapeIndex

T = TypeVar("T")

_KINDS: Final = {kind.value: kind for kind in AllocationKind}
_NAMES: Final = {
    int: "a number",
    str: "a string",
    list: "a list",
    dict: "an object",
    bool: "a flag",
}


def read_plan_json(
    text: str,
    module: Module | None = None,
    file: str = "",
    check: Callable[[Module], None] | None = None,
) -> tuple[Module, BufferAssignment]:
    """Return a plan and the scheduled module that it is for: `module`, or the one in the text.

    The numbers of values are their positions in the list of offsets. `check` sees a module in the
    text before the plan is read, and raises where it breaks a rule of HLO. Raises InputError with
    the place in the document for the first thing that is malformed or contradicts the module,
    HloTextError for a malformed module in it, LowtideError where an output has no place.
    """
    document = load_json(text, "a plan", file)
    reader = _Entry(document, "", file)
    if module is None:
        text = reader.get("scheduled_module", str, default="")
        if not text:
            raise InputError("the plan has no scheduled_module: name the module too", file=file)
        module = parse_hlo(text, f"{file}: scheduled_module" if file else "")
        if check is not None:
            check(module)
    return module, _Reader(reader, module).read()


class _Entry:
    """An object in the document, whose fields are checked as they are read."""

    def __init__(self, value: object, path: str, file: str) -> None:
        self.path = path
        self.file = file
        if not isinstance(value, dict):
            raise self.error("expected an object")
        self._fields: Mapping[str, Any] = value

    def get(self, name: str, kind: type[T], default: T | None = None) -> T:
        """Return a field of a type; raises InputError where it is missing or of another one."""
        value = self._fields.get(name, default)
        if value is None:
            raise self.error(f"no field {name!r}")
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise self.error(f"expected {_NAMES[kind]}, found {shown(value)}", name)
        return value

    def natural(self, name: str, default: int | None = None) -> int:
        """Return a number from 0 that fits into 64 bits."""
        value = self.get(name, int, default)
        if not 0 <= value < 1 << 63:
            raise self.error(f"expected a number from 0, below 2^63, found {shown(value)}", name)
        return value

    def index(self, name: str) -> ShapeIndex:
        """Return a list of numbers."""
        values = self.get(name, list)
        if not all(isinstance(x, int) and not isinstance(x, bool) for x in values):
            raise self.error("expected a list of numbers", name)
        return tuple(values)

    def has(self, name: str) -> bool:
        """Whether there is such a field, and not null."""
        return self._fields.get(name) is not None

    def entry(self, name: str) -> _Entry:
        """Return a field that is an object."""
        return _Entry(self.get(name, dict), self._at(name), self.file)

    def entries(self, name: str) -> list[_Entry]:
        """Return the objects in a list."""
        values = self.get(name, list)
        return [_Entry(x, f"{self._at(name)}[{i}]", self.file) for i, x in enumerate(values)]

    def error(self, message: str, name: str = "") -> InputError:
        """Return an error at a field."""
        return InputError(message, file=self.file, position=self._at(name))

    def _at(self, name: str) -> str:
        return f"{self.path}.{name}".strip(".")


class _Reader:
    def __init__(self, document: _Entry, module: Module) -> None:
        self.document = document
        self.module = module
        self.sites = sites_of(module)
        self.instructions = {
            name: instruction
            for computation in module.computations.values()
            for name, instruction in computation.instructions.items()
        }
        self.paths = _paths(self.sites)

    def read(self) -> BufferAssignment:
        """Return the plan."""
        allocations = []
        for i, entry in enumerate(self.document.entries("allocations")):
            allocations.append(self._allocation(entry, i))
        values = []
        for i, entry in enumerate(self.document.entries("offsets")):
            values.append(self._value(entry, i, allocations))
        tables = SliceTables(self.module, self.sites, values)
        arena = sum([x.nbytes for x in allocations if x.kind is AllocationKind.ARENA])
        kept = self.document.natural("kept_bytes", 0)
        if kept > arena:
            raise self.document.error(f"the arena has {arena} bytes", "kept_bytes")
        return BufferAssignment(
            tuple(allocations),
            tables.call_sites(),
            tables.outputs(),
            kept_bytes=kept,
            values=tuple(values),
        )

    # -- allocations ---------------------------------------------------------------------------

    def _allocation(self, entry: _Entry, number: int) -> Allocation:
        if entry.get("index", int) != number:
            raise entry.error(f"expected {number}", "index")
        kind = _KINDS.get(entry.get("kind", str))
        if kind is None:
            raise entry.error(f"expected one of {', '.join(_KINDS)}", "kind")
        parameter = None
        if kind is AllocationKind.ARGUMENT:
            parameter = self._parameter(entry.entry("parameter"))
        constant = None
        if kind is AllocationKind.CONSTANT:
            constant = self._instruction(entry, "constant")
            if constant.opcode is not Opcode.CONSTANT:
                raise entry.error(f"{constant.name} is no constant", "constant")
        return Allocation(
            number,
            kind,
            entry.natural("bytes"),
            entry.natural("memory_space", 0),
            parameter,
            self._output(entry),
            constant,
            entry.get("tuple", bool, default=False),
            entry.get("live_out", bool, default=False),
        )

    def _parameter(self, entry: _Entry) -> tuple[int, ShapeIndex]:
        number = entry.natural("number")
        parameters = self.module.entry.parameters
        if number >= len(parameters):
            raise entry.error(f"the module has {len(parameters)} parameters", "number")
        index = entry.index("index")
        _element(entry, parameters[number].shape, index, "index")
        return number, index

    def _output(self, entry: _Entry) -> ShapeIndex | None:
        if not entry.has("output"):
            return None
        index = entry.index("output")
        _element(entry, self.module.entry.root.shape, index, "output")
        return index

    def _instruction(self, entry: _Entry, field: str) -> Instruction:
        name = entry.get(field, str)
        instruction = self.instructions.get(name)
        if instruction is None:
            raise entry.error(
                f"module {self.module.name} has no instruction {name}; a plan is for the module "
                "that `lowtide plan -o` writes along with it",
                field,
            )
        return instruction

    # -- values --------------------------------------------------------------------------------

    def _value(self, entry: _Entry, number: int, allocations: list[Allocation]) -> AssignedValue:
        instruction = self._instruction(entry, "instruction")
        index = entry.index("index")
        shape = _element(entry, instruction.shape, index, "index")
        nbytes = entry.natural("bytes")
        if nbytes != shape.nbytes and not shape.is_dynamic:
            raise entry.error(
                f"{nbytes} bytes for {instruction.name}, whose shape {shape} has {shape.nbytes}",
                "bytes",
            )
        site = self._site(entry, instruction)
        place = _place(entry, nbytes, allocations)
        phi = site >= 0 and is_phi(self.sites[site], instruction)
        buffer = entry.get("buffer", int, default=-1 - number)
        return AssignedValue(number, site, instruction, index, place, buffer, phi, _live(entry))

    def _site(self, entry: _Entry, instruction: Instruction) -> int:
        site = entry.get("call_site", int)
        if site == -1:
            return site
        if not 0 <= site < len(self.sites):
            message = f"the module has {len(self.sites)} call sites, none of number {site}"
            raise entry.error(message, "call_site")
        if self.sites[site].computation is not instruction.parent:
            found = self.sites[site].computation.name
            message = f"{found} runs there, {instruction.name} is of {instruction.parent.name}"
            raise entry.error(message, "call_site")
        if entry.get("call_path", list) != self.paths[site]:
            path = "/".join(self.paths[site]) or "the entry"
            raise entry.error(f"call site {site} is {path}", "call_path")
        return site


def _paths(sites: tuple[ModuleSite, ...]) -> list[list[str]]:
    paths: list[list[str]] = []
    for site in sites:
        paths.append([] if site.caller is None else [*paths[site.parent], site.caller.name])
    return paths


def _element(entry: _Entry, shape: Shape, index: ShapeIndex, field: str) -> Shape:
    try:
        return shape.at(index)
    except IndexError as error:
        raise entry.error(str(error), field) from None


def _place(entry: _Entry, nbytes: int, allocations: list[Allocation]) -> BufferSlice:
    number = entry.natural("allocation")
    if number >= len(allocations):
        raise entry.error(f"there are {len(allocations)} allocations", "allocation")
    offset = entry.natural("offset")
    if offset + nbytes > allocations[number].nbytes:
        raise entry.error(
            f"the value ends at {offset + nbytes}, behind the end of its allocation of "
            f"{allocations[number].nbytes} bytes",
            "offset",
        )
    return BufferSlice(number, offset, nbytes)


def _live(entry: _Entry) -> tuple[int, int] | None:
    if not entry.has("live"):
        return None
    live = entry.index("live")
    if len(live) != 2 or not 0 <= live[0] <= live[1]:
        raise entry.error("expected the first and the last position", "live")
    return live[0], live[1]
