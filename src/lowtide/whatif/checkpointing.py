"""Checkpoints: what a function computes for the backward pass is computed again there.

The plan's own kernels run again, as `jax.checkpoint` around the function would have them do: of
each call of it only what it is given stays, and the rest is computed anew when the backward pass
first reads any of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import Final

from lowtide.analysis.dataflow import dataflow
from lowtide.budgeting.once import Memo, runs_once
from lowtide.budgeting.rewriting import with_sequences
from lowtide.compiler import ModulePlan
from lowtide.ir import Instruction, Opcode, SourceLocation
from lowtide.report.blame import is_backward, primitive_of, scope_of, user_frames
from lowtide.report.peak import PeakBuffer
from lowtide.report.peak_table import plain_function
from lowtide.whatif.baseline import Baseline
from lowtide.whatif.call_places import CallPlaces
from lowtide.whatif.change import ImpossibleChangeError, ProgramChange
from lowtide.whatif.checkpointed import has_calls_by_lines, plan_as_written
from lowtide.whatif.makers import RUNS_AGAIN, Maker, lambdas_of, lines_in, runs_again

_MOST: Final = 6
_LEAST_SHARE: Final = 50
"""A function is tried where it holds more than one part in so many of the peak."""
_LEAST_SAVED: Final = 20
"""A checkpoint pays where it saves one part in so many: its kernels are not those once written."""
_MODULES: Final = (
    ("/flax/linen/", "nn.remat({})"),
    ("/flax/nnx/", "nnx.remat({}.__call__)"),
    ("/equinox/", "eqx.filter_checkpoint({})"),
    ("/haiku/", "hk.remat({})"),
)
"""What has a module computed again, by what is in the paths of its library; else the first."""
_LAMBDA: Final = "<lambda>"
"""How Python names a function that is written where it is used."""
_MOST_SCORED: Final = 12
"""Of so many functions it is estimated what their checkpoint saves."""


def checkpoint_changes(base: Baseline) -> list[ProgramChange]:
    """Return a checkpoint of each function that holds much at the peak, those of promise first.

    Of functions that hold the same buffers it is the innermost one, and those around it that keep
    other parts of them: one with fewer calls, such as a tower of layers.
    """
    held: dict[Maker, list[PeakBuffer]] = {}
    for buffer in base.report.peak.buffers:
        if buffer.kind == "temporary":
            for maker in dict.fromkeys(_makers_of_buffer(base, buffer)):
                held.setdefault(maker, []).append(buffer)
    total = sum([x.nbytes for x in base.report.peak.buffers])
    size = {maker: sum([x.nbytes for x in found]) for maker, found in held.items()}
    large = [x for x in sorted(held, key=lambda x: -size[x]) if size[x] * _LEAST_SHARE > total]
    promise: dict[Maker, float] = {}
    known: dict[tuple[int, ...], set[float]] = {}
    for maker in large[:_MOST_SCORED]:
        others = known.setdefault(tuple([id(x) for x in held[maker]]), set())
        found = _promise(base, maker)
        if not others or (found > 0 and found not in others):
            promise[maker] = found
        others.add(found)
    changes: dict[str, ProgramChange] = {}
    for maker in sorted(promise, key=lambda x: -promise[x]):
        change = _change(base, maker, held[maker][0])
        changes.setdefault(change.name, change)
    return list(changes.values())[:_MOST]


def _promise(base: Baseline, maker: Maker) -> float:
    """The bytes of the peak that are computed again, less those of one call, as an estimate.

    All of one call is there at once when it runs again.
    """
    repeats = _Repeats(base, maker)
    again = {x.name for x in repeats.repeated()}
    buffers = base.report.peak.buffers
    remade = sum([x.nbytes for x in buffers if x.instruction in again and x.kind == "temporary"])
    return remade * (1 - 1 / (1 + max(repeats.call.values(), default=0)))


def _makers_of_buffer(base: Baseline, buffer: PeakBuffer) -> Iterator[Maker]:
    """Yield what made a buffer, innermost first."""
    frames = [x for x in user_frames(buffer.stack) if _may_be_wrapped(x.function)]
    if frames:
        for frame in frames:
            yield _function_at(base, frame)
    elif scopes := scope_of(buffer.op_name):
        for end in range(len(scopes), 0, -1):
            yield Maker("scope", "/".join(scopes[:end]))
    elif primitive := primitive_of(buffer.op_name):
        yield Maker("scope", primitive)
    else:
        yield Maker("shape", buffer.shape)


def _function_at(base: Baseline, frame: SourceLocation) -> Maker:
    """The function in which a call stands: of the lambdas of one function the one with its line."""
    if _last_part(frame.function) != _LAMBDA:
        return Maker("function", frame.function, frame.file)
    parts = lambdas_of(base, frame.function, frame.file)
    own = next((x for x in parts if frame.line in x and len(parts) > 1), ())
    return Maker("function", frame.function, frame.file, own)


def _last_part(function: str) -> str:
    return function.rpartition(".")[2]


def _may_be_wrapped(function: str) -> bool:
    """Whether a function is one that a program can name, or writes as a lambda.

    What computes the elements of a list is a part of the function around it.
    """
    part = _last_part(function)
    return part == _LAMBDA or (part != "" and not part.startswith("<"))


def _change(base: Baseline, maker: Maker, buffer: PeakBuffer) -> ProgramChange:
    name = plain_function(maker.name)
    if _last_part(maker.name) == _LAMBDA:
        name += f".{_LAMBDA}"
    label = f"{name}:{maker.lines[0]}" if maker.lines else name
    place = _call_of(maker, buffer.stack) or buffer.source
    remark = "  # if it loops, the body of the loop" if has_calls_by_lines(base, maker) else ""
    return ProgramChange(
        f"checkpoint:{label}",
        f"compute again what {label} saves for the backward pass",
        _wrapped(name, buffer.stack) + remark,
        place,
        partial(_planned, maker=maker),
        written=partial(plan_as_written, maker=maker),
        is_written_about=True,
        least_share=_LEAST_SAVED,
    )


def _wrapped(name: str, stack: Sequence[SourceLocation]) -> str:
    """What to write around a function, or a module of the library whose calls are among these."""
    if _last_part(name) == _LAMBDA:
        return "jax.checkpoint(lambda ...)"
    if not name.rpartition(".")[2][:1].isupper():
        return f"jax.checkpoint({name})"
    files = [x.file.replace("\\", "/") for x in stack]
    known = [code for part, code in _MODULES for file in files if part in file]
    return next(iter(known), _MODULES[0][1]).format(name)


def _call_of(maker: Maker, stack: Iterable[SourceLocation]) -> SourceLocation | None:
    """The line that calls the function; its own first known line where no caller is known."""
    found = None
    for frame in user_frames(tuple(stack)):
        if found is not None:
            return frame
        if maker.has(frame):
            found = frame
    return found


def _planned(base: Baseline, maker: Maker) -> ModulePlan:
    if runs_again(base, maker):
        raise ImpossibleChangeError(RUNS_AGAIN)
    sequence = _Repeats(base, maker).sequence()
    flows = dataflow(base.module.entry)
    changed = with_sequences(base.module, flows, {base.module.entry: sequence})
    return base.planned(base.opened(changed))


class _Repeats:
    """The order of the entry in which a function's kernels run again for late readers."""

    def __init__(self, base: Baseline, maker: Maker) -> None:
        self.base = base
        self.maker = maker
        self.flow = base.flow
        self.order = sorted(base.position_of, key=lambda x: base.position_of[x])
        self.late = base.late
        memo: Memo = {}
        self.places = CallPlaces(base, maker)
        self.region = [
            x
            for x in self.order
            if x not in self.late and not runs_once(x, memo)
            if self.flow.makes[self.flow.number[x]] and self.places.take(x)
        ]
        """The instructions that may run again, in order."""
        self.call = self._calls()
        self.handed_on = {} if maker.kind == "shape" else self._handed_on()
        self.own_late = {x for x in self.late if lines_in(x, maker)}

    def sequence(self) -> list[int]:
        """The numbers of nodes in the order in which they run.

        Raises ImpossibleChangeError where nothing of the function is read late.
        """
        found = self.repeated()
        if not found or not _saves(self.base, self.maker):
            raise ImpossibleChangeError("nothing that it makes is read in the backward pass")
        before: dict[Instruction, list[Instruction]] = {}
        for x, reader in found.items():
            before.setdefault(reader, []).append(x)
        number = self.flow.number
        return [number[y] for x in self.order for y in (*before.get(x, ()), x)]

    def repeated(self) -> dict[Instruction, Instruction]:
        """What runs again, in order, with the late reader before which it does."""
        found: dict[Instruction, Instruction] = {}
        for x in self.order:
            if x in self.late:
                for y in self._needed(x, found):
                    found[y] = x
        return found

    def _makers(self, x: Instruction) -> list[Instruction]:
        """What makes the values that an instruction reads."""
        flow = self.flow
        values = flow.reads[flow.number[x]]
        return [flow.nodes[node] for node in dict.fromkeys([flow.value_node[v] for v in values])]

    def _calls(self) -> dict[Instruction, int]:
        """To which call in turn each instruction belongs.

        A call ends where the site is another one, and where lines begin anew.
        """
        found: dict[Instruction, int] = {}
        for x in self.region:
            before = [y for y in self._makers(x) if y in found]
            found[x] = max([found[y] + self.places.begins(x, y) for y in before], default=0)
        return found

    def _needed(self, reader: Instruction, again: Collection[Instruction]) -> list[Instruction]:
        """What has to run again before a late reader, in order: back to what a call is given."""
        wanted: dict[Instruction, None] = {}
        stack = [
            y
            for y in self._makers(reader)
            if self._repeats(y, again) and self._may_repeat(y, reader)
        ]
        while stack:
            x = stack.pop()
            if x in wanted:
                continue
            wanted[x] = None
            inputs = [y for y in self._makers(x) if self._repeats(y, again)]
            stack += [y for y in inputs if self.call[y] == self.call[x]]
        return sorted(wanted, key=lambda x: self.base.position_of[x])

    def _may_repeat(self, x: Instruction, reader: Instruction) -> bool:
        """Whether a late reader may have a value made anew: what others are given stays."""
        if x not in self.handed_on:
            return True
        return self.handed_on[x] == "outside" and reader in self.own_late

    def _handed_on(self) -> dict[Instruction, str]:
        """What the forward pass reads in another "call" of the function, or "outside" of it."""
        found: dict[Instruction, str] = {}
        for reader in self.order:
            if reader in self.late or not self.flow.makes[self.flow.number[reader]]:
                continue
            for x in self._makers(reader):
                if x not in self.call:
                    continue
                if reader not in self.call:
                    found.setdefault(x, "outside")
                elif self.call[reader] != self.call[x]:
                    found[x] = "call"
        return found

    def _repeats(self, x: Instruction, again: Collection[Instruction]) -> bool:
        return x in self.call and x not in again


def _saves(base: Baseline, maker: Maker) -> bool:
    """Whether the backward pass of the program as given reads what a function makes for itself.

    A kernel may have work of others beside that of the function, which its checkpoint leaves as it
    is. What others are given counts where the function's own gradient reads it, and is not what its
    next call is given.
    """
    if maker.kind == "shape" or not base.backward:
        return True
    places = CallPlaces(base, maker)
    own = [x for x in base.given.entry.instructions.values() if places.take(x)]
    for x in own:
        if is_backward(x.metadata.op_name):
            continue
        readers = list(_readers(x))
        early = [y for y in readers if not is_backward(y.metadata.op_name)]
        is_read_late = len(early) < len(readers)
        is_own = all(y in places.line for y in early)
        is_own_late = any(y in places.line for y in readers if y not in early)
        is_given = places.gives_again(x, [y for y in early if y in places.line])
        if is_read_late and (is_own or (is_own_late and not is_given)):
            return True
    return False


def _readers(x: Instruction) -> Iterator[Instruction]:
    """Yield what reads a value, or an element of it."""
    stack = list(x.users)
    while stack:
        reader = stack.pop()
        if reader.opcode is Opcode.GET_TUPLE_ELEMENT:
            stack += reader.users
        else:
            yield reader
