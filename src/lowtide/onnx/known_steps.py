"""Whole models as one program for given shapes: what was compiled before needs no graph again.

What is kept of a model for the types and sizes of feeds is, first, which of the feeds have to have
the values that they had; then, for these values, the key of the program in the cache of executables
with what it takes and gives, and nodes that the host runs behind it. Models that take several
programs, or nodes on the host before them, are not kept.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, final

import numpy as np

from lowtide.backends.kept import environment_of, is_environment_known, kept
from lowtide.client.executable.code_version import code_version
from lowtide.client.executable.executable import Executable, kept_executable
from lowtide.frontend.onnx.interface import ModelInterface
from lowtide.ir.literal import Array
from lowtide.onnx.kept_arrays import can_be_kept, read, written
from lowtide.onnx.known_models import KIND
from lowtide.onnx.recent import Recent
from lowtide.onnx.values import Value, apart, is_tensor, read_only
from lowtide.options import Options
from lowtide.records import dataclass

if TYPE_CHECKING:  # Nodes and what runs them load for models alone that have endings.
    from lowtide.onnx.endings import EndingRun, Endings

Signature: TypeAlias = "tuple[tuple[str, np.dtype[Any], tuple[int, ...]], ...]"
Weights: TypeAlias = "Mapping[str, Array]"

KEPT_STEPS: Final = 16
"""The programs of as many sets of shapes are kept in memory, by default: those used last."""

_ARRAY: Final = np.ndarray
_VALUES: Final = "values"
_STEP: Final = "step"


@dataclass(frozen=True, eq=False, slots=True)
class WholeStep:
    """A program that computes a whole model: what it takes and gives, by the names of values.

    `fixed` are the feeds whose values decided about it, `constants` values that need no program,
    `endings` nodes that the host runs behind it.
    """

    program: Executable
    parameters: tuple[str, ...]
    results: tuple[str, ...]
    fixed: tuple[str, ...] = ()
    constants: Mapping[str, Array] = field(default_factory=dict)
    endings: Endings = ()


@final
class KnownProgram:
    """A step with the weights that it takes, ready for feeds."""

    def __init__(
        self, step: WholeStep, fed: Sequence[str], outputs: Sequence[str], weights: Weights
    ) -> None:
        self.step = step
        self._arguments = [None if x in fed else weights[x] for x in step.parameters]
        self._fed = [(i, x) for i, x in enumerate(step.parameters) if x in fed]
        self._outputs = tuple(outputs)
        self._ending = _ending(step)
        read = [*outputs, *[x for node in step.endings for x in node.inputs]]
        self._same = {x: weights[x] for x in read if x in weights and x not in fed}
        self._same.update(step.constants)
        self._same = {x: read_only(y) for x, y in self._same.items()}
        self._is_in_order = self._ending is None and tuple(step.results) == self._outputs

    def __call__(self, feeds: Mapping[str, Value]) -> list[Value]:
        """Return the outputs of the model, none of which lies in what is fed."""
        arguments: list[Any] = self._arguments.copy()
        for place, name in self._fed:
            arguments[place] = feeds[name]
        results = self.step.program(*arguments)
        if self._is_in_order:
            return [*map(np.asarray, results)]
        made = dict(zip(self.step.results, map(np.asarray, results), strict=True))
        if self._ending is not None:
            made = {**self._same, **feeds, **made}
            self._ending(made)
            return apart([made[x] for x in self._outputs], feeds)
        sources = (made, self._same)
        found = [next((y[x] for y in sources if x in y), None) for x in self._outputs]
        pairs = zip(self._outputs, found, strict=True)
        return [feeds[x].copy() if y is None else y for x, y in pairs]


@dataclass(frozen=True, eq=False, slots=True)
class RepeatedRun:
    """A program for feeds of a signature, no value of which decides about it."""

    signature: tuple[Any, ...]
    program: KnownProgram


@final
class RepeatedRuns:
    """What was run before, for feeds of at most `most` signatures.

    Others begin anew: so all that are here are among those used last, whoever else counts that.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._runs: dict[tuple[Any, ...], RepeatedRun] = {}

    def add(self, run: RepeatedRun | None) -> None:
        """Note a run; None stands for one that may not be repeated, but counts as others do."""
        if run is None or len(self._runs) >= self._most:
            self._runs.clear()
        if run is not None:
            self._runs[run.signature] = run

    def find(self, signature: tuple[Any, ...]) -> RepeatedRun | None:
        """Return the run on feeds of a signature, None where there was none."""
        return self._runs.get(signature)

    def clear(self) -> None:
        """Let go of all of them."""
        self._runs.clear()


def signature_of(feeds: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return names, types and sizes of arrays; it has fewer entries than feeds if others are."""
    return tuple([(name, x.dtype, x.shape) for name, x in feeds.items() if type(x) is _ARRAY])


def repeated(feeds: Mapping[str, Any], program: KnownProgram) -> RepeatedRun | None:
    """Return how to run on such feeds again, None where their values decide about the program."""
    signature = signature_of(feeds)
    if program.step.fixed or len(signature) < len(feeds):
        return None
    return RepeatedRun(signature, program)


@final
class KnownSteps:
    """The programs of a model that were compiled before, by its digest and what is fed.

    In memory there are those of the `most` feeds used last.
    """

    def __init__(self, digest: str, options: Options, shown: ModelInterface, most: int) -> None:
        self._options = options
        self._weights = shown.weights
        self._outputs = [x.name for x in shown.outputs]
        self._most = most
        self._digest = digest
        self._fixed: Recent[Signature, tuple[str, ...] | None] = Recent()
        self._programs: Recent[tuple[Any, ...], KnownProgram | None] = Recent()

    def program(self, feeds: Mapping[str, Value]) -> KnownProgram | None:
        """Return the program for feeds, None where none was kept when they were first asked for."""
        if not all(map(is_tensor, feeds.values())):
            return None
        signature = _signature(feeds)
        names = partial(self._kept_names, signature)
        fixed = self._fixed.found(signature, names, self._most)
        if fixed is None:
            return None
        key = (signature, *[feeds[x].tobytes() for x in fixed])
        kept_program = partial(self._kept_program, key, fixed, list(feeds))
        return self._programs.found(key, kept_program, self._most)

    def touch(self, program: KnownProgram) -> None:
        """Count a program as the one used last, if it is one of these."""
        self._programs.use(lambda x: x is program)

    def steps(self) -> list[WholeStep]:
        """Return the steps in memory."""
        return [x.step for x in self._programs.values() if x is not None]

    def forget(self) -> None:
        """Let go of the programs in memory."""
        self._fixed.clear()
        self._programs.clear()

    def keep(self, feeds: Mapping[str, Value], step: WholeStep) -> None:
        """Keep the program that was compiled for feeds, for other processes."""
        if not step.program.making.key or not can_be_kept(step.constants):
            return
        signature = _signature(feeds)
        key = (signature, *[feeds[x].tobytes() for x in step.fixed])
        endings = _written(step)
        if endings is None:
            return
        header = [step.program.making.key, step.parameters, step.results, endings]
        store = kept(KIND, self._options)
        store.put(self._key(_STEP, key), written(header, step.constants))
        store.put(self._key(_VALUES, signature), json.dumps(step.fixed).encode())

    @cached_property
    def _decides(self) -> str:
        """What besides the feeds decides about programs."""
        options = self._options
        said = f"{self._digest}\n{options} {options.thread_count}\n"
        return f"{said}{environment_of(options)}\n{code_version()}\n"

    def _kept_names(self, signature: Signature) -> tuple[str, ...] | None:
        if not is_environment_known():
            return None  # There can be no program, and LLVM is not to be loaded.
        data = kept(KIND, self._options).get(self._key(_VALUES, signature))
        return None if data is None else tuple(json.loads(data))

    def _kept_program(
        self, key: tuple[Any, ...], fixed: tuple[str, ...], fed: Sequence[str]
    ) -> KnownProgram | None:
        step = self._kept_step(key, fixed)
        return None if step is None else KnownProgram(step, fed, self._outputs, self._weights)

    def _kept_step(self, key: tuple[Any, ...], fixed: tuple[str, ...]) -> WholeStep | None:
        data = kept(KIND, self._options).mapped(self._key(_STEP, key))
        if data is None:
            return None
        (program_key, parameters, results, endings), constants = read(data)
        program = kept_executable(program_key, self._options)
        if program is None:
            return None
        names = (tuple(parameters), tuple(results), fixed)
        return WholeStep(program, *names, constants, _read(endings))

    def _key(self, kind: str, of: tuple[Any, ...]) -> str:
        return hashlib.sha256(f"{kind} {self._decides}{of}".encode()).hexdigest()[:40]


def _ending(step: WholeStep) -> EndingRun | None:
    if not step.endings:
        return None
    from lowtide.onnx.endings import EndingRun

    return EndingRun(step.endings)


def _written(step: WholeStep) -> list[Any] | None:
    """The endings of a step as JSON has them, None where it cannot."""
    if not step.endings:
        return []
    from lowtide.onnx.endings import written_endings

    return written_endings(step.endings)


def _read(written: Sequence[Any]) -> Endings:
    if not written:
        return ()
    from lowtide.onnx.endings import read_endings

    return read_endings(written)


def _signature(feeds: Mapping[str, Array]) -> Signature:
    return tuple([(name, x.dtype, x.shape) for name, x in feeds.items()])
