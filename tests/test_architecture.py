"""The rules of ARCHITECTURE.md that a machine can hold: layers, sizes, imports, documents."""

import re
import subprocess
import sys
from collections.abc import Callable, Mapping

from tests.architecture import (
    PACKAGE,
    ROOT,
    Source,
    classes_defined_twice,
    cycles,
    drawn_map,
    function_lines,
    imported_rooms,
    loaded,
    odd_imports,
    parameter_counts,
    rooms,
    sources,
    with_map,
)

ROOMS: dict[str, list[str]] = {
    "processes": [],
    "files": [],
    "ir": [],
    "native": [],
    "records": [],
    "suggestions": [],
    "search": ["native"],
    "host_calls": ["ir"],
    "llvm": ["processes", "files", "ir", "native"],
    "ops": ["ir"],
    "options": ["ir"],
    "planning": ["search"],
    "analysis": ["ir", "search", "ops"],
    "builder": ["ir", "ops"],
    "evaluator": ["ir", "host_calls", "ops"],
    "verifier": ["ir", "ops"],
    "buffers": ["ir", "search", "ops", "planning", "analysis"],
    "checking": ["ir", "ops", "evaluator"],
    "cost": ["ir", "ops", "analysis"],
    "passes": ["ir", "ops", "builder"],
    "remat": ["search", "analysis"],
    "report": ["ir", "ops", "analysis"],
    "scheduling": ["ir", "search", "analysis"],
    "least_memory": ["ir", "ops", "analysis", "search"],
    "certificate": ["files", "ir", "planning", "analysis", "scheduling", "least_memory"],
    "codegen": ["ir", "host_calls", "llvm", "ops", "cost"],
    "frontend": [
        "processes",
        "ir",
        "ops",
        "analysis",
        "builder",
        "evaluator",
        "verifier",
        "passes",
    ],
    "fusion": ["ir", "ops", "analysis", "cost", "passes"],
    "runtime": ["ir", "native", "host_calls", "llvm", "cost"],
    "spmd": ["ir", "ops", "analysis", "cost", "passes"],
    "transforms": ["ir", "host_calls", "ops", "analysis", "builder", "evaluator", "cost", "passes"],
    "xla": ["ir", "ops", "planning", "analysis", "scheduling"],
    "compiler": [
        "files",
        "ir",
        "search",
        "options",
        "planning",
        "analysis",
        "buffers",
        "cost",
        "passes",
        "report",
        "scheduling",
        "certificate",
        "fusion",
        "least_memory",
        "transforms",
    ],
    "nnvm": ["ir", "search", "planning", "scheduling", "frontend"],
    "micro": ["ir", "search", "planning", "scheduling", "frontend"],
    "tuning": ["files", "ir", "native", "llvm", "codegen", "runtime"],
    "autopsy": [
        "ir",
        "search",
        "ops",
        "options",
        "analysis",
        "buffers",
        "checking",
        "report",
        "scheduling",
        "frontend",
        "transforms",
        "xla",
        "compiler",
    ],
    "budgeting": [
        "ir",
        "search",
        "host_calls",
        "ops",
        "analysis",
        "cost",
        "passes",
        "remat",
        "report",
        "scheduling",
        "certificate",
        "compiler",
    ],
    "fitting": ["ir", "ops", "analysis", "verifier", "report", "compiler"],
    "overlap": ["ir", "search", "analysis", "cost", "scheduling", "spmd", "compiler"],
    "packing": [
        "ir",
        "options",
        "planning",
        "buffers",
        "checking",
        "report",
        "frontend",
        "compiler",
    ],
    "reduce": [
        "ir",
        "ops",
        "analysis",
        "evaluator",
        "verifier",
        "checking",
        "passes",
        "transforms",
        "compiler",
    ],
    "backends": [
        "files",
        "analysis",
        "ir",
        "native",
        "llvm",
        "options",
        "codegen",
        "fusion",
        "runtime",
        "transforms",
        "compiler",
        "tuning",
        "budgeting",
    ],
    "whatif": [
        "ir",
        "search",
        "analysis",
        "cost",
        "report",
        "compiler",
        "autopsy",
        "budgeting",
        "fitting",
    ],
    "sharding_search": [
        "ir",
        "search",
        "ops",
        "analysis",
        "cost",
        "report",
        "scheduling",
        "spmd",
        "transforms",
        "compiler",
        "fitting",
        "overlap",
    ],
    "emulator": ["ir", "native", "llvm", "codegen", "runtime"],
    "client": [
        "processes",
        "files",
        "ir",
        "host_calls",
        "llvm",
        "options",
        "builder",
        "evaluator",
        "verifier",
        "passes",
        "frontend",
        "runtime",
        "spmd",
        "transforms",
        "compiler",
        "budgeting",
        "fitting",
        "backends",
        "emulator",
    ],
    "api": [
        "ir",
        "search",
        "spmd",
        "sharding_search",
        "options",
        "verifier",
        "report",
        "frontend",
        "compiler",
        "autopsy",
        "budgeting",
        "fitting",
        "whatif",
        "client",
    ],
    "inspection": [
        "files",
        "ir",
        "llvm",
        "ops",
        "options",
        "evaluator",
        "checking",
        "passes",
        "codegen",
        "frontend",
        "runtime",
        "compiler",
        "autopsy",
        "reduce",
        "client",
    ],
    "onnx": [
        "ir",
        "options",
        "evaluator",
        "verifier",
        "report",
        "frontend",
        "compiler",
        "backends",
        "client",
    ],
    "pjrt": [
        "files",
        "ir",
        "native",
        "host_calls",
        "llvm",
        "ops",
        "options",
        "frontend",
        "runtime",
        "spmd",
        "backends",
        "emulator",
        "client",
    ],
    "tflite": ["ir", "options", "frontend", "client"],
    "testing": ["ir", "evaluator", "verifier", "checking", "passes", "frontend"],
    "comparison": [
        "files",
        "ir",
        "search",
        "options",
        "verifier",
        "report",
        "frontend",
        "compiler",
        "autopsy",
        "api",
    ],
    "__init__": [
        "ir",
        "options",
        "evaluator",
        "verifier",
        "report",
        "files",
        "frontend",
        "client",
        "api",
        "comparison",
    ],
    "cli": [
        "files",
        "ir",
        "search",
        "ops",
        "options",
        "planning",
        "analysis",
        "evaluator",
        "verifier",
        "checking",
        "cost",
        "passes",
        "remat",
        "report",
        "scheduling",
        "certificate",
        "frontend",
        "runtime",
        "spmd",
        "xla",
        "compiler",
        "micro",
        "nnvm",
        "autopsy",
        "budgeting",
        "fitting",
        "overlap",
        "sharding_search",
        "packing",
        "reduce",
        "whatif",
        "client",
        "inspection",
        "comparison",
    ],
    "__main__": ["cli"],
}
"""Each room with those that it may import, the ground floor first: no arrow runs upward."""

STAGES = {"transforms", "fusion", "scheduling", "remat", "buffers", "codegen", "runtime", "report"}
"""Functions from modules, schedules and plans to these: only what stands above knows two."""

LONGEST_FILE = 500

MOST_PARAMETERS = 10
MOST_LINES = 60
FRAGMENT = 40
MOST_FRAGMENTS = 25
MOST_ROOT_FILES = 6


def test_every_folder_is_a_room() -> None:
    assert set(rooms()) == set(ROOMS)


def broken(rule: Callable[[Source], object]) -> dict[str, object]:
    """Return what a rule has against files, by their names: all of them at once."""
    return {x.name: wrong for x in sources() if (wrong := rule(x))}


def test_rooms_import_only_what_they_may() -> None:
    assert broken(lambda x: imported_rooms(x) - set(ROOMS[x.room])) == {}


def test_imports_say_from_which_file() -> None:
    assert broken(odd_imports) == {
        "client/executable/code_version.py": ["lowtide"],
        "cli/main.py": ["lowtide.__version__"],
    }


def test_no_import_runs_upward() -> None:
    order = list(ROOMS)
    for place, (room, below) in enumerate(ROOMS.items()):
        assert set(below) <= set(order[:place]), f"{room} stands below what it imports"


def test_no_permission_is_left_over() -> None:
    for room, found in rooms().items():
        assert found == set(ROOMS[room])


def test_stages_are_strangers() -> None:
    for stage in STAGES:
        assert not STAGES & set(ROOMS[stage]), stage


def test_files_load_in_one_order() -> None:
    assert cycles({x.module: loaded(x) for x in sources()}) == []


def test_a_cycle_is_found() -> None:
    assert cycles({1: {2}, 2: {3}, 3: {1, 4}, 4: set()}) == [[1, 2, 3]]
    assert cycles({1: {2, 3}, 2: {4}, 3: {4}, 4: set()}) == []


def test_files_hold_one_idea() -> None:
    """A longer file is split by idea."""
    assert broken(lambda x: x.lines if x.lines > LONGEST_FILE else None) == {}


def above(counts: Mapping[str, int], most: int) -> dict[str, int]:
    """Return the counts that are too high."""
    return {name: count for name, count in counts.items() if count > most}


def test_parameter_lists_are_short() -> None:
    assert broken(lambda x: above(parameter_counts(x), MOST_PARAMETERS)) == {}


def test_functions_fit_on_a_screen() -> None:
    assert broken(lambda x: above(function_lines(x), MOST_LINES)) == {}


def test_fragments_do_not_grow_in_number() -> None:
    """A file so short is read where it is used, unless several rooms need it."""
    small = [x.name for x in sources() if x.lines < FRAGMENT and x.path.stem != "__init__"]
    assert len(small) <= MOST_FRAGMENTS


def test_a_class_name_stands_for_one_thing() -> None:
    assert classes_defined_twice() == {}


def test_the_root_has_few_files() -> None:
    assert len(list(PACKAGE.glob("*.py"))) <= MOST_ROOT_FILES


def test_the_map_is_current() -> None:
    document = (ROOT / "ARCHITECTURE.md").read_text()
    assert with_map(document, drawn_map(ROOMS)) == document, "python -m tests.architecture --write"


def test_environment_is_read_in_options_only() -> None:
    readers = [x.path.name for x in sources() if re.search(r"\b(environ|getenv)\b", x.text)]
    assert set(readers) <= {"options.py"}


def test_no_machine_paths_in_tracked_files() -> None:
    suffixes = {".py", ".md", ".toml", ".cfg", ""}
    pattern = re.compile(r"(?<![A-Za-z0-9_.])/(tmp|work|root|home)/")
    for path in [*ROOT.glob("*"), *(ROOT / "docs").rglob("*"), *PACKAGE.rglob("*")]:
        if path.is_file() and path.suffix in suffixes and path.name != ".git":
            assert not pattern.search(path.read_text(errors="ignore")), path


def test_importing_lowtide_loads_nothing_heavy() -> None:
    heavy = (
        "jax",
        "jaxlib",
        "llvmlite",
        "onnx",
        "ortools",
        "hypothesis",
        "typer",
        "rich",
        "google",
    )
    code = f"import sys, lowtide; print([name for name in {heavy!r} if name in sys.modules])"
    paths = {"PYTHONPATH": str(PACKAGE.parent)}
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=paths
    )
    assert run.stdout.strip() == "[]"


def test_links_in_documents_lead_somewhere() -> None:
    for document in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name} links to {target}"
