"""Compiled programs as users hold them: callable, with their memory report and scheduled HLO."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import field
from functools import cached_property, partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, final

from lowtide.backends.kept import kept, linked
from lowtide.client.executable.stored import StoredProgram, opened, stored_bytes
from lowtide.files.signing import signing_key
from lowtide.ir.errors import LowtideError
from lowtide.options import Options, cache_folder
from lowtide.records import dataclass
from lowtide.records.late import Late
from lowtide.runtime.cpu.call import Arenas
from lowtide.runtime.cpu.launch import LaunchPlan
from lowtide.runtime.cpu.profile import Span
from lowtide.runtime.cpu.program import NativeProgram

if TYPE_CHECKING:
    from lowtide.client.executable.checked import CheckSubject
    from lowtide.client.executable.device_parts import DeviceParts
    from lowtide.ir.module import Module


@dataclass(frozen=True, slots=True)
class Making:
    """How an executable came about: wall seconds by stage, in order, and whether from the cache.

    `key` is the one by which the cache has it, "" where it does not.
    """

    seconds: Mapping[str, float] = field(default_factory=dict)
    was_cached: bool = False
    key: str = ""


SPELLED_BYTES: Final = 1 << 20
"""The text of a module with more bytes of constants leaves the values of large ones out."""


def spells_constants(program: NativeProgram) -> bool:
    """Return whether the text of a program's module has the values of all constants."""
    return sum([values.nbytes for _, values in program.constants]) <= SPELLED_BYTES


@dataclass(frozen=True, eq=False, slots=True)
class CheckedModules:
    """Modules that are kept to check calls: the one that runs, and the one that it was made of.

    None stands for the text of the executable, and for one that is not known.
    """

    scheduled: Module | None = None
    given: Module | None = None


NOT_KEPT: Final = CheckedModules()


@final
class Description:
    """Text and memory report of a program, each made when it is first asked for.

    `base` is the text of the module within whose budget the program is, "" without a bound for
    that. `arena_bytes`, what a call needs beyond its arguments, are known from the start.
    """

    def __init__(
        self,
        text: Callable[[], str],
        memory: Callable[[], Mapping[str, Any]],
        arena_bytes: int,
        base: str = "",
    ) -> None:
        self._text = Late(text)
        self._memory = Late(memory)
        self.arena_bytes = arena_bytes
        self.base = base

    @property
    def text(self) -> str:
        """The scheduled HLO that runs; what it was made of is given up."""
        return self._text.get()

    @property
    def memory(self) -> Mapping[str, Any]:
        """What a call needs, in the schema "lowtide.memory/1"; what it was made of is given up."""
        return self._memory.get()

    def complete(self) -> None:
        """Make all that is not made yet."""
        _ = self.text, self.memory


def described(text: str, memory: Mapping[str, Any], base: str = "") -> Description:
    """Return a description that is known in full."""
    return Description(lambda: text, lambda: memory, int(memory["ladder"]["arena_bytes"]), base)


@final
class Executable:
    """A program in native code, which several threads may call at once.

    One that was given partitioned is called on all devices by `lowtide.run_on_devices`, or by a
    thread for each within a `DeviceRendezvous`. One that lowtide partitioned takes and returns
    whole arrays, and runs on all devices itself; figures of memory are those of one device.
    """

    def __init__(
        self,
        program: NativeProgram,
        description: Description,
        options: Options,
        making: Making | None = None,
        checked: CheckedModules = NOT_KEPT,
    ) -> None:
        self._program = program
        self._description = description
        start = perf_counter()
        self._linked = linked(program, options)
        making = making or Making()
        linking = {"linking": perf_counter() - start}
        self.making = Making({**making.seconds, **linking}, making.was_cached, making.key)
        """How it came about in this process."""
        self._callee: Callable[..., Any] = self._linked
        if options.check != "never":
            from lowtide.client.executable.checked import CheckedCalls  # Others load nothing.

            self._callee = CheckedCalls(
                self._linked,
                partial(self._subject, checked, options),
                self._no_more_checks,
                always=options.check == "always",
            )

    def _subject(self, checked: CheckedModules, options: Options) -> CheckSubject:
        from lowtide.client.executable.checked import CheckSubject

        scheduled = checked.scheduled
        if scheduled is None and not spells_constants(self._program):
            raise LowtideError(
                f"{self.name} cannot be checked: the stored program has no values of its large "
                "constants in its HLO; compile the module with check instead"
            )
        return CheckSubject(self._program, scheduled or self.module, checked.given, options)

    def _no_more_checks(self) -> None:
        self._callee = self._linked

    def __call__(self, *arrays: Any, consume: bool = False) -> Any:
        """Return the results for the leaves of the parameters, depth first, as new arrays.

        They are nested as the root's shape is. No argument is written to, but with `consume` those
        that the module aliases to results are overwritten, and become these. Raises InputError
        where an argument does not fit, OutOfMemoryError where the system has no memory left, and
        WrongResultError where the options have it checked and it differs from the evaluator.
        """
        return self._callee(*arrays, consume=consume)

    execute = __call__

    @property
    def callee(self) -> Callable[..., Any]:
        """What may be called in its place: the linked program; itself where calls are checked."""
        return self._linked if self._callee is self._linked else self

    def for_whole_arrays(self, parts: DeviceParts) -> Executable:
        """Return this program of one device as one that takes whole arrays and runs on all."""
        from lowtide.client.executable.on_devices import WholeArrayCalls

        made = copy(self)
        made._callee = WholeArrayCalls(parts, self._program, self._linked)
        return made

    @property
    def takes_whole_arrays(self) -> bool:
        """Whether arguments and results are whole arrays of several devices."""
        return self._callee is not self._linked and self._program.devices > 1

    @property
    def memory(self) -> dict[str, Any]:
        """What a call needs, in the schema "lowtide.memory/1"; sizes in bytes.

        Its `seconds` are those of `making`.
        """
        found: dict[str, Any] = json.loads(json.dumps(self._description.memory))
        return {**found, "seconds": dict(self.making.seconds)}

    def __repr__(self) -> str:
        total = int(self._description.memory["total_bytes"])
        return (
            f"<Executable {self.name}: {self.arena_bytes:,} bytes beyond its arguments, "
            f"{total:,} in all>"
        )

    def _repr_html_(self) -> str:
        from html import escape

        return f"<code>{escape(repr(self))}</code>"

    @property
    def arena_bytes(self) -> int:
        """The bytes that a call needs beyond its arguments."""
        return self._description.arena_bytes

    @property
    def name(self) -> str:
        """The name of the module."""
        return self._program.name

    @property
    def program(self) -> NativeProgram:
        """The thunks, kernels and machine code."""
        return self._program

    @cached_property
    def module(self) -> Module:
        """The scheduled module that runs, read back from its text."""
        return _parsed(self._description.text)

    @property
    def certificate(self) -> dict[str, Any]:
        """What is proved about the order of `module` and an arena for it, made anew each time.

        It is of schema "lowtide.certificate/2", and counts no memory that kernels need while they
        run: `memory` does, in `scratch_bytes`. Where instructions run again to keep to a budget, it
        is also proved how long that takes at least; not for variants.
        """
        from lowtide.budgeting.certificates import certify_within
        from lowtide.compiler.certificates import certify

        base, memory = self._description.base, self._description.memory
        if not base:
            return certify(self.module)
        return certify_within(_parsed(base), self.module, memory["budget"]["bytes"])

    def as_text(self) -> str:
        """Return the scheduled HLO that runs."""
        return self._description.text

    def profile(self, *arrays: Any) -> tuple[Any, tuple[Span, ...]]:
        """Return the results, and when each thunk ran; they run one after the other then."""
        return self._linked.profile(*arrays)

    def release_memory(self) -> None:
        """Give the memory that is kept for later calls back to the system."""
        self._linked.empty()

    def launch_plan(self) -> LaunchPlan | None:
        """Return how others than Python run it, None where its calls are checked."""
        return self._linked.launch_plan() if self._callee is self._linked else None

    def use_arenas(self, arenas: Arenas) -> None:
        """Take the arenas of later calls from there instead of keeping some."""
        self._linked.use_arenas(arenas)

    def serialize(self) -> bytes:
        """Return the executable as bytes, for `deserialize` on a processor of the same kind.

        They are signed as this user's, where the user has a key or one can be made in the cache
        folder. Equal programs of one user give equal bytes: times are not in them. Raises
        LowtideError for a program that calls Python functions, and for one that takes whole arrays
        of several devices.
        """
        if self.takes_whole_arrays:
            raise LowtideError(
                f"{self.name} was partitioned when it was compiled, and bytes are those of the "
                "program of one device: compile what `lowtide partition` writes"
            )
        told = self._description
        memory = {**told.memory, "seconds": {}}
        stored = StoredProgram(self._program, told.text, memory, told.base)
        return stored_bytes(stored, signing_key(cache_folder()))


def _parsed(text: str) -> Module:
    """The module of a text, which calls need not know."""
    from lowtide.frontend.hlo_text import parse_hlo

    return parse_hlo(text)


def kept_executable(key: str, options: Options) -> Executable | None:
    """Return the program of a key, whose calls are not checked; None where there is none."""
    start = perf_counter()
    found = opened(kept("programs", options).get(key))
    if found is None:
        return None
    making = Making({"cache": perf_counter() - start}, was_cached=True, key=key)
    told = described(found.text, found.memory, found.base)
    return Executable(found.program, told, options, making)
