"""Settings of sessions in ONNX Runtime's own words; what has no meaning here is told once."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Any, Final

from lowtide.options import DENORMALS

PROVIDER: Final = "CPUExecutionProvider"
"""The name that ONNX Runtime has for what runs models on processors."""


class GraphOptimizationLevel(IntEnum):
    """Levels that ONNX Runtime has; lowtide does all it can in any case."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(IntEnum):
    """Modes that ONNX Runtime has; what runs beside what is decided by lowtide."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


DENORMALS_ENTRY: Final = "session.set_denormal_as_zero"
"""The entry of ONNX Runtime's configuration by which "1" takes denormals for 0."""


class SessionOptions:
    """Options of a session.

    `intra_op_num_threads` says how many threads run the model, 0 for one per core. Free dimensions
    may be given sizes, for `compile="ahead"`, and denormals may be zeros. The others change nothing
    here; those that would have changed something in ONNX Runtime are named in a warning, once for
    each session.
    """

    def __init__(self) -> None:
        self.intra_op_num_threads = 0
        self.inter_op_num_threads = 0
        self.execution_mode: Any = ExecutionMode.ORT_SEQUENTIAL
        self.graph_optimization_level: Any = GraphOptimizationLevel.ORT_ENABLE_ALL
        self.enable_cpu_mem_arena = True
        self.enable_mem_pattern = True
        self.enable_mem_reuse = True
        self.enable_profiling = False
        self.optimized_model_filepath = ""
        self.profile_file_prefix = "onnxruntime_profile_"
        self.use_deterministic_compute = False
        self.log_severity_level = 2
        self.log_verbosity_level = 0
        self.logid = ""
        self._entries: dict[str, str] = {}
        self._dimensions: dict[str, int] = {}

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Note an entry of a configuration; of these only DENORMALS_ENTRY changes anything."""
        self._entries[key] = value

    def get_session_config_entry(self, key: str) -> str:
        """Return an entry that was noted; raises KeyError."""
        return self._entries[key]

    def add_free_dimension_override_by_name(self, name: str, size: int) -> None:
        """Give the size of a dimension that has a name."""
        self._dimensions[name] = int(size)

    @property
    def free_dimensions(self) -> Mapping[str, int]:
        """The sizes that were given, by the names of dimensions."""
        return self._dimensions


class RunOptions:
    """Options of a run, none of which changes anything."""

    def __init__(self) -> None:
        self.log_severity_level = 2
        self.log_verbosity_level = 0
        self.logid = ""
        self.only_execute_path_to_fetches = False
        self.terminate = False

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Do nothing: no entry has a meaning here."""


_WITHOUT_MEANING: Final[tuple[tuple[str, Callable[[Any], bool]], ...]] = (
    ("enable_profiling", bool),
    ("optimized_model_filepath", bool),
    ("use_deterministic_compute", lambda _: False),
    ("inter_op_num_threads", lambda x: int(x) > 1),
    ("execution_mode", lambda x: int(x) != ExecutionMode.ORT_SEQUENTIAL),
    ("graph_optimization_level", lambda x: int(x) < GraphOptimizationLevel.ORT_ENABLE_ALL),
)
"""Options that change nothing here, with what is worth a word of them."""


def threads_of(options: Any) -> int:
    """Return how many threads options of ours, or of ONNX Runtime's own class, ask for."""
    return int(getattr(options, "intra_op_num_threads", 0))


def denormals_of(options: Any) -> str:
    """Return what becomes of denormals; ONNX Runtime's own class raises where it has no entry."""
    if options is None:
        return DENORMALS[0]
    try:
        value = options.get_session_config_entry(DENORMALS_ENTRY)
    except (AttributeError, KeyError, RuntimeError):
        return DENORMALS[0]
    return DENORMALS[value == "1"]


def free_dimensions_of(options: Any) -> Mapping[str, int]:
    """Return the sizes of named dimensions in options; ONNX Runtime's own class hides its."""
    found: Mapping[str, int] = getattr(options, "free_dimensions", {})
    return found


def tell_ignored(
    options: Any, providers: Sequence[Any] | None, provider_options: Any, stacklevel: int
) -> None:
    """Warn, in one line, of what was asked for and has no meaning here."""
    names = [x if isinstance(x, str) else x[0] for x in providers or ()]
    found = [x for x in names if x != PROVIDER]
    found += [
        name
        for name, matters in _WITHOUT_MEANING
        if options is not None and matters(getattr(options, name, 0))
    ]
    if provider_options and any(provider_options):
        found.append("provider_options")
    if found:
        message = f"lowtide runs models as {PROVIDER}; ignored: {', '.join(found)}"
        warnings.warn(message, stacklevel=stacklevel + 1)
