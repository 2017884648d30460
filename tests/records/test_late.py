"""Packages load a name when it is asked for, and know no others; values are made once."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import lowtide
from lowtide.records.late import Late, LateTable, late_function, late_pattern

PACKAGES = ("lowtide.ir", "lowtide.client.executable", "lowtide.client.jit")

FUNCTIONS: dict[str, Callable[[int], int]] = {}


def late(package: ModuleType) -> list[str]:
    """Return the names that a package loads when they are asked for."""
    return list(inspect.getclosurevars(package.__getattr__).nonlocals["homes"])


@pytest.mark.parametrize("name", PACKAGES)
def test_each_public_name_is_found(name: str) -> None:
    package = import_module(name)
    for public in late(package):
        found = getattr(package, public)
        assert not isinstance(found, ModuleType)
        assert getattr(package, public) is found
        assert public in vars(package)  # The next time it is found without a function.


@pytest.mark.parametrize("name", PACKAGES)
def test_another_name_is_an_error_that_says_where(name: str) -> None:
    package = import_module(name)
    with pytest.raises(AttributeError, match=f"module '{name}' has no attribute 'nothing'"):
        _ = package.nothing
    with pytest.raises(ImportError):
        exec(f"from {name} import nothing")


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_by_itself_loads_none_of_its_files(name: str) -> None:
    script = f"import sys, {name}; print([x for x in sys.modules if x.startswith('{name}.')])"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_a_late_value_is_made_once_for_all_threads():
    """They ask while it is being made."""
    begun, count = threading.Barrier(4), []

    def make():
        count.append(1)
        time.sleep(0.01)
        return object()

    late, found = Late(make), []

    def ask():
        begun.wait()
        found.append(late.get())

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(count) == 1
    assert found == [late.get()] * 4


def test_a_late_value_that_could_not_be_made_is_tried_again():
    tries = [KeyboardInterrupt, None]

    def make():
        error = tries.pop(0)
        if error is not None:
            raise error
        return 5

    late = Late(make)
    with pytest.raises(KeyboardInterrupt):
        late.get()
    assert late.get() == late.get() == 5


def test_a_late_function_is_found_when_it_is_called() -> None:
    double, missing = [late_function(__name__, "FUNCTIONS", x) for x in ("double", "triple")]
    FUNCTIONS["double"] = lambda x: 2 * x
    assert double(21) == 42
    with pytest.raises(KeyError, match="triple"):
        missing(21)


def test_a_late_pattern_is_compiled_once_when_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    compile_ = re.compile

    def counted(text: str, flags: int = 0) -> re.Pattern[str]:
        compiled.append(text)
        return compile_(text, flags)

    monkeypatch.setattr(re, "compile", counted)
    pattern = late_pattern(r"a(\d+)", re.IGNORECASE)
    assert compiled == []
    for _ in range(2):
        found = pattern.fullmatch("A12")
        assert found is not None and found[1] == "12"
    assert compiled == [r"a(\d+)"]
    assert pattern.sub("x", "a1a2") == "xx"
    assert late_pattern(b"a+").findall(b"aab") == [b"aa"]


def test_a_late_pattern_of_a_bad_text_is_refused_when_it_is_used() -> None:
    pattern = late_pattern("(")
    with pytest.raises(re.error, match="missing"):
        pattern.search("")


def test_values_of_a_late_table_are_made_once() -> None:
    made: list[int] = []

    def double(x: int) -> int:
        made.append(x)
        return 2 * x

    table = LateTable[int, int](double)
    assert (table[3], table[3], table[4]) == (6, 6, 8)
    assert made == [3, 4]


def test_no_late_name_is_that_of_a_file() -> None:
    """Importing the file would put it in the place of what the name stands for."""
    root = Path(lowtide.__file__).parent
    inits = [x for x in root.rglob("__init__.py") if "late_names" in x.read_text()]
    assert inits
    for init in inits:
        name = ".".join(("lowtide", *init.parent.relative_to(root).parts))
        package = import_module(name)
        files = {x.stem for x in init.parent.glob("*.py")}
        assert files.isdisjoint(late(package)), name
