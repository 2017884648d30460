"""Compiling a program again with other options, to see what XLA:CPU then plans."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Protocol

from lowtide.analysis.donation import Donation
from lowtide.autopsy.plain_module import plain_module
from lowtide.frontend.hlo_proto import write_hlo_module_proto
from lowtide.ir import Module
from lowtide.ir.module import InputOutputAlias
from lowtide.records import dataclass

Options = Mapping[str, str]
"""Names and values of XLA's options, as in `compiler_options`."""

TIME_LIMIT: Final = 120.0
"""Seconds for all that is compiled to answer one question."""


@dataclass(frozen=True, slots=True)
class XlaOutcome:
    """What XLA plans, in bytes: temporaries, and outputs that overwrite an argument.

    `error` is empty, or says why there is no answer; the sizes are 0 then.
    """

    temp_bytes: int = 0
    alias_bytes: int = 0
    error: str = ""


class Compiler(Protocol):
    """Something that compiles one program again."""

    @property
    def what(self) -> str:
        """What is compiled, e.g. `the lowered program`."""

    @property
    def is_rebuilt(self) -> bool:
        """Whether it is not the program itself, but one that computes the same."""

    def compile(self, options: Sequence[Options]) -> list[XlaOutcome]:
        """Return the outcome for each set of options."""


class LoweredCompiler:
    """Compiles a `jax.stages.Lowered`, in this process as its owner would."""

    what = "the lowered program"
    is_rebuilt = False

    def __init__(self, lowered: Any) -> None:
        self._lowered = lowered

    def compile(self, options: Sequence[Options]) -> list[XlaOutcome]:
        """Return the outcome for each set of options."""
        return [self._compile(x) for x in options]

    def _compile(self, options: Options) -> XlaOutcome:
        try:
            stats = self._lowered.compile(compiler_options=dict(options)).memory_analysis()
        except Exception as error:  # XLA and JAX raise what they like; the user sees it.
            return XlaOutcome(error=_first_line(error))
        return XlaOutcome(stats.temp_size_in_bytes, stats.alias_size_in_bytes)


class RebuiltCompiler:
    """Compiles a program rebuilt from an optimized module, in processes of their own.

    `donations` are outputs that are to overwrite arguments.
    """

    what = "a program rebuilt from the optimized module"
    is_rebuilt = True

    def __init__(self, module: Module, donations: Sequence[Donation] = ()) -> None:
        self._module = module
        self._donations = donations

    def compile(self, options: Sequence[Options]) -> list[XlaOutcome]:
        """Return the outcome for each set of options."""
        if self._module.replica_count * self._module.num_partitions > 1:
            return [XlaOutcome(error="it is a program for several devices")] * len(options)
        plain = plain_module(self._module)
        plain.input_output_aliases += alias_entries(self._module, self._donations)
        return _in_child(write_hlo_module_proto(plain), options)


def jax_is_installed() -> bool:
    """Whether programs can be compiled again; jax is not imported for the answer."""
    return find_spec("jax") is not None and find_spec("jaxlib") is not None


def alias_entries(module: Module, donations: Sequence[Donation]) -> tuple[InputOutputAlias, ...]:
    """Return what the header of the module says once the arguments are donated."""
    leaves = [index for index, _ in module.entry.root.shape.leaves()]
    parameters = module.entry.parameters
    return tuple(
        [
            InputOutputAlias(leaves[x.output], parameters.index(x.parameter), x.index)
            for x in donations
        ]
    )


_CHILD: Final = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); "
    "from lowtide.autopsy.recompile import main; main()"
)
"""What the child runs: this very package, wherever it was imported from."""


def _in_child(proto: bytes, options: Sequence[Options]) -> list[XlaOutcome]:
    texts = [json.dumps(dict(x)) for x in options]
    package = str(Path(__file__).parents[2])
    command = [sys.executable, "-c", _CHILD, package, *texts]
    reason = ""
    try:
        run = subprocess.run(
            command, input=proto, capture_output=True, timeout=TIME_LIMIT, check=False
        )
        output = run.stdout
        if run.returncode:
            reason = f"XLA ended its process: {_last_words(run.stderr)}"
    except subprocess.TimeoutExpired as error:
        output = error.stdout or b""
        reason = f"no answer within {TIME_LIMIT:.0f} s"
    outcomes = [_outcome(json.loads(line)) for line in output.splitlines()]
    missing = len(options) - len(outcomes)
    return outcomes + [XlaOutcome(error=reason or "no answer")] * missing


def _outcome(line: Mapping[str, Any]) -> XlaOutcome:
    if "error" in line:
        return XlaOutcome(error=line["error"])
    return XlaOutcome(line["temp"], line["alias"])


def _last_words(stderr: bytes) -> str:
    """The line in which XLA or Python says what went wrong."""
    lines = [x for x in stderr.decode(errors="replace").splitlines() if x.strip()]
    failed = [x for x in lines if "Check failed" in x]
    return (failed or lines or ["no message"])[-1].strip()


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".partition("\n")[0]
