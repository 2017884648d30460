"""Options of callers and of the environment: the only file that reads environment variables."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO

if TYPE_CHECKING:
    from lowtide.ir.sizes import Budget

DEFAULT_STAGE: Final = "scheduled"
"""How far modules are taken by default: to the program as it will run."""

TARGETS: Final = ("native", "avx2")
"""The processors that code can be made for: this one, and this one with fewer features."""

PROCESSORS: Final = {"cpu": "native", "cpu:avx2": "avx2", "native": "native", "avx2": "avx2"}
"""What processors may be called, and what their options have then."""

EFFORTS: Final = ("fast", "default", "proof")
"""How far to search for a smaller arena."""

CHECKS: Final = ("never", "first", "always")
"""Which calls of a program are compared with the evaluator."""

DENORMALS: Final = ("keep", "zero")
"""What becomes of denormals, the usual first."""

MOST_THREADS: Final = 4096
"""More threads than any machine has cores are a slip."""

BUDGET_SECONDS: Final = 60.0
"""How long plans for a limited memory are sought where no deadline is given."""

SHARDING_SECONDS: Final = 600.0
"""A search of shardings that takes longer has gone astray: its effort ends it before."""

DEFAULT_MEMORY_PRIORITY: Final = 0.03
"""The part by which a program may take longer for less memory: its runs differ by as much."""

LEAST_WIDTH: Final = 80
GREATEST_WIDTH: Final = 100


_FORMS: Final = (
    ((int,), "a whole number", ("threads",)),
    ((int, float), "a number", ("memory_priority", "deadline")),
    ((int,), "True or False", ("cache", "huge_pages", "autotune", "isolate")),
    ((str,), "a name", ("stage", "effort", "target")),
)
"""The types of values of options, what they are, and whose they are."""


@dataclass(frozen=True, slots=True)
class Options:
    """Options of the way from a module to its memory plan, and to native code.

    `stage` says how far it is optimized before it is scheduled and its buffers are planned:
    "input" (not at all), "simplified", "layout", "fused" or "scheduled". A module that is scheduled
    is taken as it is. `effort` is "fast", "default" or "proof": how far to search for a smaller
    arena; with a `deadline`, in seconds of wall time, searches end earlier, with the best that they
    have. Where `memory` is limited and no other is given it is a minute (`BUDGET_SECONDS`). Kernels
    may take longer by the part `memory_priority` of their estimated time where less is live at the
    peak then. Equal options give equal programs, but for `autotune` and a deadline.

    The rest is about native code. `threads` is how many run a program, 0 for one per core that this
    process may use; results do not depend on it. `memory` is the most bytes that a call may need
    beyond its arguments (temporaries, outputs that overwrite no argument, scratch), given as a
    number or as text like "512MiB" and kept as a number, None for any number; "80%" is a share of
    what the plan without a budget needs. Parts of the program run again to fit, or it is an error.
    `target` is "native" ("cpu") for this processor, "avx2" ("cpu:avx2") for the same with fewer
    features, or a graphics processor (`ir/gpu_names.py`), for which only `lowtide.compile` makes
    programs. `cache` says whether compiled programs are kept for later processes, in the folder
    that LOWTIDE_CACHE names or else in the user's cache folder (none where it is "off");
    `huge_pages` whether the system may use large pages for arenas. With `autotune` some ways to run
    the kernels that take most time are measured on this machine, for a few seconds, and what was
    found is kept in that folder. Then equal options may give programs that differ in speed, in
    scratch and in the last bits. With `check` "first" or "always" the first or each call is also
    run step by step beside the evaluator, and one that differs raises WrongResultError. With
    `isolate` LLVM makes the code of a program in a process of its own: should it end that, the
    caller gets CompilerEndedError and goes on. Programs of this processor keep denormals, numbers
    so near to 0 that many processors take some hundred cycles for each instruction that meets one,
    or with `denormals` "zero" take them for 0, as XLA:CPU's do.

    Raises ValueError for a number below 0, a part that is not finite, and an unknown target, check
    or treatment of denormals; SizeError, which is one too, for a memory that is no size; TypeError
    for what is of another kind.
    """

    stage: str = DEFAULT_STAGE
    effort: str = "default"
    threads: int = 0
    memory: Budget | None = None
    target: str = "native"
    cache: bool = True
    huge_pages: bool = True
    autotune: bool = False
    memory_priority: float = DEFAULT_MEMORY_PRIORITY
    deadline: float | None = None
    check: str = "never"
    isolate: bool = False
    denormals: str = "keep"

    def __post_init__(self) -> None:
        """Raise ValueError for what cannot be, TypeError for what is of another kind."""
        for types, meaning, names in _FORMS:
            for name in names:
                value = _plain(getattr(self, name))
                if not isinstance(value, types) and (name != "deadline" or value is not None):
                    raise TypeError(f"{name} is {meaning}; found {value!r}")
                object.__setattr__(self, name, value)
        if not 0 <= self.threads <= MOST_THREADS:
            meaning = f"0 for one per core, or how many, at most {MOST_THREADS:,}"
            raise ValueError(f"threads is {meaning}; found {self.threads}")
        if self.memory is not None:
            from lowtide.ir.sizes import budget_of  # Commands that need no size load nothing.

            object.__setattr__(self, "memory", budget_of(self.memory))
        if self.deadline is not None and not 0 <= self.deadline < inf:
            raise ValueError(f"deadline is seconds from 0 on, or None; found {self.deadline}")
        if not 0 <= self.memory_priority < inf:
            part = "a part of the time, such as 0.05"
            raise ValueError(f"memory_priority is {part}; found {self.memory_priority}")
        object.__setattr__(self, "target", PROCESSORS.get(self.target, self.target))
        if self.target not in TARGETS:
            from lowtide.ir.gpu_names import GPU_TARGETS
            from lowtide.suggestions import nearest

            known = (*TARGETS, *GPU_TARGETS)
            if self.target not in known:
                guess = nearest(self.target, known)
                raise ValueError(f"no target {self.target!r}{guess}; there are: {', '.join(known)}")
        if self.check not in CHECKS:
            raise ValueError(f"check is one of {', '.join(CHECKS)}; found {self.check!r}")
        if self.denormals not in DENORMALS:
            raise ValueError(f"denormals is {' or '.join(DENORMALS)}; found {self.denormals!r}")
        if self.denormals != DENORMALS[0] and self.target not in TARGETS:
            raise ValueError(f"programs for {self.target} keep denormals; found {self.denormals!r}")

    @property
    def search_seconds(self) -> float | None:
        """The deadline of all searches together; None is none."""
        if self.deadline is None and self.memory is not None:
            return BUDGET_SECONDS
        return self.deadline

    @property
    def thread_count(self) -> int:
        """How many threads run a program."""
        return self.threads or len(os.sched_getaffinity(0))


def options_with(
    options: Options | None, values: Mapping[str, Any], others: Sequence[str] = ()
) -> Options:
    """Return options, by default the usual ones, with other values of some fields.

    Raises TypeError for a name that no field has, and what `Options` raises; `others` are names
    that the caller takes besides, which may have been meant.
    """
    known = [*others, *[x.name for x in fields(Options)]]
    for name in values:
        if name not in known:
            from lowtide.suggestions import nearest

            raise TypeError(f"no option {name!r}{nearest(name, known)}; there are {known}")
    if not isinstance(options, Options | None):
        raise TypeError(f"expected Options, found {type(options).__name__}: give them by name")
    return replace(options or Options(), **values)


def _plain(value: Any) -> Any:
    """A single number of NumPy as one of Python, which has a hash; all else as it is."""
    return value.item() if getattr(value, "ndim", None) == 0 else value


OPTIONS_VARIABLE: Final = "LOWTIDE_OPTIONS"


def options_text() -> str:
    """Return what LOWTIDE_OPTIONS says, "name=value,name=value", with LOWTIDE_TARGET's value."""
    target = os.environ.get("LOWTIDE_TARGET", "")
    given = os.environ.get(OPTIONS_VARIABLE, ""), target and f"target={target}"
    return ",".join([x for x in given if x])


_CACHE_VARIABLE: Final = "LOWTIDE_CACHE"
_CACHE_OFF: Final = "off"


def is_cache_off() -> bool:
    """Whether LOWTIDE_CACHE is "off": nothing is kept between processes then."""
    return os.environ.get(_CACHE_VARIABLE, "").lower() == _CACHE_OFF


def cache_folder() -> Path:
    """Return where compiled programs are kept: LOWTIDE_CACHE, else the user's cache folder.

    That one, too, where LOWTIDE_CACHE is "off": it has the key of programs that are stored.
    """
    given = os.environ.get(_CACHE_VARIABLE)
    if given and not is_cache_off():
        return _folder_at(given)
    return _folder_in(os.environ.get("XDG_CACHE_HOME", ""))


def cache_setting() -> str:
    """Return what `set_cache_folder` of another process needs to keep what this one keeps."""
    return _CACHE_OFF if is_cache_off() else str(cache_folder())


def code_folder() -> Path | None:
    """Return where code of lowtide's own modules is kept; None where nothing is to be kept.

    It is no cache of programs, so that LOWTIDE_CACHE is asked only whether it is "off". None, too,
    for a user without a home.
    """
    if is_cache_off():
        return None
    try:
        return _folder_in(os.environ.get("XDG_CACHE_HOME", "")) / "modules"
    except RuntimeError:
        return None


@cache
def _folder_at(text: str) -> Path:
    """The path that a text says; each program asks for it."""
    return Path(text)


def _folder_in(home: str) -> Path:
    return (Path(home) if home else Path.home() / ".cache") / "lowtide"


def set_cache_folder(folder: str) -> None:
    """Have compiled programs kept in a folder, by this process and those that it begins.

    "off" has none kept.
    """
    os.environ[_CACHE_VARIABLE] = folder


_FORCED_DEVICES: Final = re.compile(r"--xla_force_host_platform_device_count=(\d+)")


DEVICES_VARIABLE: Final = "LOWTIDE_DEVICES"


def device_count(asked: int = 0) -> int:
    """Return how many devices JAX is shown; raises ValueError.

    It is what LOWTIDE_DEVICES says, else what was asked of JAX for its CPU platform: `asked`, where
    that is above 0, or XLA's flag in XLA_FLAGS; else 1.
    """
    forced = _FORCED_DEVICES.findall(os.environ.get("XLA_FLAGS", ""))
    usual = str(asked) if asked > 0 else next(reversed(forced), "1")
    given = os.environ.get(DEVICES_VARIABLE, usual)
    if not given.isdigit() or not int(given):
        raise ValueError(f"LOWTIDE_DEVICES is a number of devices from 1 on; found {given!r}")
    return int(given)


_RANK_VARIABLES: Final = ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK")
_SIZE_VARIABLES: Final = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS")
"""What launchers of MPI programs tell each process; Slurm tells sizes outside of MPI too."""


def started_rank() -> int | None:
    """Return the rank of this process among those that a launcher of MPI started, None without."""
    return _number_in(_RANK_VARIABLES)


def started_ranks() -> int:
    """Return how many ranks a launcher of MPI started, 1 where none did."""
    if started_rank() is None:
        return 1
    return _number_in(_SIZE_VARIABLES) or 1


def _number_in(variables: Sequence[str]) -> int | None:
    """The number in the first of the variables that has one."""
    values = [os.environ.get(x, "") for x in variables]
    return next((int(x) for x in values if x.isdecimal()), None)


@dataclass(frozen=True, slots=True)
class Display:
    """Settings for what people read: colour or none, and the number of columns."""

    color: bool = False
    width: int = GREATEST_WIDTH


def display_for(stream: TextIO) -> Display:
    """Return how to write to `stream`: colour on a terminal only, unless NO_COLOR is set.

    The width is that of the terminal within 80 to 100 columns, 100 where there is no terminal.
    """
    if not is_terminal(stream):
        return Display()
    width = shutil.get_terminal_size((GREATEST_WIDTH, 24)).columns
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return Display(not plain, min(max(width, LEAST_WIDTH), GREATEST_WIDTH))


def is_terminal(stream: TextIO) -> bool:
    """Whether someone is looking at `stream`."""
    try:
        return stream.isatty()
    except ValueError:
        return False


def rewrites_lines(stream: TextIO) -> bool:
    """Whether someone is looking at `stream`, and a line of it can be written over."""
    return is_terminal(stream) and os.environ.get("TERM") != "dumb"


def wants_traceback() -> bool:
    """Whether LOWTIDE_TRACEBACK asks for the Python traceback of an error."""
    return bool(os.environ.get("LOWTIDE_TRACEBACK"))


def variables_of(prefix: str) -> dict[str, str]:
    """Return the variables of the environment whose names begin so: those of other programs."""
    return {name: value for name, value in os.environ.items() if name.startswith(prefix)}
