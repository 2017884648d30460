"""The gate: limits, locked peaks, tolerance, and what it says where a peak rises."""

import json
import subprocess
import sys

import pytest
from tests.comparison.test_diff import AFTER, BEFORE

import lowtide
from lowtide.comparison.gate import GateVerdict
from lowtide.comparison.gate_file import Tolerance, read_gate
from lowtide.comparison.gate_text import gate_markdown
from lowtide.ir import InputError

GATE = '[peaks.net]\nmodule = "net.hlo"\nstage = "input"\n'


@pytest.fixture
def gate(tmp_path):
    (tmp_path / "net.hlo").write_text(BEFORE)
    path = tmp_path / "peaks.toml"
    path.write_text(GATE)
    return path


def test_a_peak_that_rises(lowtide_command, gate):
    assert lowtide_command("check", gate) == 0
    assert "not locked" in lowtide_command.out and "--update" in lowtide_command.out
    assert lowtide_command("check", gate, "--update") == 0
    assert "The peaks are locked in peaks.lock.json." in lowtide_command.out
    assert gate.with_name("peaks.lock.json").is_file()
    assert lowtide_command("check", gate) == 0
    assert "same" in lowtide_command.out
    gate.with_name("net.hlo").write_text(AFTER)
    assert lowtide_command("check", gate) == 2
    assert "rose (+" in lowtide_command.out
    assert "peak +16.4 KB" in lowtide_command.out and "net.py:9" in lowtide_command.out
    assert "net rose" in lowtide_command.err
    assert lowtide_command("check", gate, "--markdown") == 2
    assert "| net |" in lowtide_command.out and "**peak" in lowtide_command.out
    assert lowtide_command("check", gate, "--json") == 2
    document = json.loads(lowtide_command.out)
    assert not document["passes"] and document["checks"][0]["verdict"] == "rose"
    assert lowtide_command("check", gate, "--update") == 0
    assert lowtide_command("check", gate) == 0
    gate.with_name("net.hlo").write_text(BEFORE)
    assert lowtide_command("check", gate) == 0
    assert "fell" in lowtide_command.out


def test_a_lock_is_the_same_bytes_each_time(gate):
    lowtide.check(gate, update=True)
    lock = gate.with_name("peaks.lock.json")
    first = lock.read_bytes()
    lowtide.check(gate, update=True)
    assert lock.read_bytes() == first


def test_limits_and_tolerance(lowtide_command, gate):
    lowtide.check(gate, update=True)
    gate.with_name("net.hlo").write_text(AFTER)
    gate.write_text(f'tolerance = "90%"\n{GATE}')
    assert lowtide.check(gate).checks[0].verdict is GateVerdict.WITHIN
    gate.write_text(f'{GATE}limit = "1KB"\n')
    result = lowtide.check(gate, update=True)
    assert result.checks[0].verdict is GateVerdict.OVER_LIMIT and not result.passes
    assert "over the limit" in gate_markdown(result)
    assert lowtide.check(gate).checks[0].locked_bytes < result.checks[0].peak_bytes
    assert lowtide_command("check", gate, "--update") == 2
    assert "nothing is locked" in lowtide_command.err
    assert Tolerance(0.01, 5).most(100) == 105
    assert Tolerance(0.5, 5).most(100) == 150


def test_programs_in_python(gate):
    gate.with_name("steps.py").write_text(
        "import lowtide\n"
        "def step():\n"
        f"    return lowtide.parse_hlo({BEFORE!r})\n"
        "def report():\n"
        "    return lowtide.explain(step())\n"
    )
    gate.write_text('[peaks.a]\npython = "steps.py:step"\n[peaks.b]\npython = "steps.py:report"\n')
    first, second = lowtide.check(gate).checks
    assert first.peak_bytes == second.peak_bytes > 0
    gate.write_text('[peaks.a]\npython = "steps.py:stepp"\n')
    with pytest.raises(InputError, match="has no function 'stepp'"):
        lowtide.check(gate)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("peaks = 3", r"expected a table \[peaks.NAME\]"),
        ("[peaks", "not TOML"),
        ("[peaks.a]\n", "expected either `module` or `python`"),
        ('[peaks.a]\nmodul = "x"', "no such key; did you mean 'module'"),
        ('[peaks.a]\nmodule = "x"\nlimit = "many"', "peaks.a.limit"),
        ('[peaks.a]\nmodule = "x"\ntolerance = -1', "peaks.a.tolerance"),
        ("[peaks.a]\nmodule = 3", "expected a string"),
        ('[peaks.a]\npython = "x"', "expected 'file.py:function'"),
        ('[peaks.a]\npython = "nope.py:f"', "no such file"),
        ('[peaks.a]\nmodule = "nope.hlo"', "no such file"),
        ('[peaks.a]\nmodule = "x"\neffort = "much"', "no effort 'much'"),
        ('[peaks."a b"]\nmodule = "x"', "a name has letters"),
    ],
)
def test_what_is_malformed_is_named(tmp_path, text, message):
    path = tmp_path / "peaks.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        lowtide.check(path)


def test_a_lock_that_is_none(gate):
    gate.with_name("peaks.lock.json").write_text("{}")
    with pytest.raises(InputError, match="expected a lock of schema"):
        lowtide.check(gate)
    with pytest.raises(InputError, match="no such file"):
        read_gate(gate.with_name("nope.toml"))


# -- the plugin for pytest -------------------------------------------------------------------------

TESTS = f"""
import lowtide
import pytest

MODULE = lowtide.parse_hlo({BEFORE!r})

@pytest.mark.memory("1MB")
def test_fits(memory_of):
    assert memory_of(MODULE).total_bytes < 10**6

@pytest.mark.memory("1KB")
def test_does_not_fit(memory_of):
    memory_of(MODULE)

@pytest.mark.memory("1KB")
def test_never_asks(memory_of):
    pass

@pytest.mark.memory("much")
def test_no_size(memory_of):
    pass

def test_has_no_mark(memory_of):
    assert memory_of(MODULE).ladder.arena_bytes
"""


def test_marks_of_tests(tmp_path):
    (tmp_path / "test_steps.py").write_text(TESTS)
    plugin = (
        "-p",
        "no:lowtide",
        "-p",
        "lowtide.comparison.pytest_plugin",
        "-p",
        "no:cacheprovider",
    )
    command = [sys.executable, "-m", "pytest", *plugin, "--strict-markers", "-rA", "test_steps.py"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    out = run.stdout
    assert "PASSED test_steps.py::test_fits" in out
    assert "PASSED test_steps.py::test_has_no_mark" in out
    assert "FAILED test_steps.py::test_does_not_fit" in out
    assert "more than the 1,000 B of its mark" in out and "At the peak, step" in out
    assert "never called memory_of" in out
    assert "ERROR test_steps.py::test_no_size" in out and "takes one size" in out
