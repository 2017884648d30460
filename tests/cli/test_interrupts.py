"""Ctrl-C: ends before there is a plan, keeps the best from then on, and ends when pressed again."""

import json
import signal
from importlib import import_module

import pytest
from tests.budgeting.chains import training_step

from lowtide.cli.exit_codes import ExitCode
from lowtide.planning.deadline import Deadline


@pytest.fixture
def step(tmp_path):
    path = tmp_path / "step.hlo"
    path.write_text(str(training_step()))
    return path


@pytest.fixture
def press(monkeypatch):
    """Have Ctrl-C pressed some times when a function is called first; it runs as ever."""

    def pressed(place: str, times: int = 1) -> None:
        owner, name = place.rsplit(".", 1)
        function = getattr(import_module(owner), name)
        left = [signal.SIGINT] * times

        def first(*args, **kwargs):
            while left:
                signal.raise_signal(left.pop())
            return function(*args, **kwargs)

        monkeypatch.setattr(place, first)

    return pressed


@pytest.mark.parametrize("command", ["plan", "explain"])
@pytest.mark.parametrize("place", ["compiler.optimize", "cli.modules.read_input"])
def test_before_there_is_a_plan(lowtide, step, press, command, place):
    press(f"lowtide.{place}")
    output = ("-o", step.with_name("step.json")) if command == "plan" else ()
    assert lowtide(command, step, *output) == ExitCode.INTERRUPTED
    assert (lowtide.out, lowtide.err) == ("", "error: interrupted\n")
    assert [x.name for x in step.parent.iterdir()] == ["step.hlo"]


@pytest.mark.parametrize(
    "place", ["insert_copies", "schedule_candidates", "module_bounds", "pack_buffers"]
)
@pytest.mark.parametrize("name", ["step.json", "step.certificate.json"])
def test_while_a_plan_is_made(lowtide, step, press, place, name):
    before, output = signal.getsignal(signal.SIGINT), step.with_name(name)
    press(f"lowtide.compiler.{place}")
    assert lowtide("plan", step, "-o", output, "--json") == ExitCode.INTERRUPTED
    assert lowtide.err == "error: interrupted\n"
    assert json.loads(lowtide.out)["caveats"][0].startswith("Ctrl-C ended the search")
    assert lowtide("verify", output) in (ExitCode.DONE, ExitCode.OVER_BUDGET)
    assert signal.getsignal(signal.SIGINT) is before


def test_the_screen_says_so(lowtide, step, press):
    press("lowtide.compiler.schedule_candidates")
    assert lowtide("plan", step) == ExitCode.INTERRUPTED
    assert "\nCtrl-C ended the search: another run may give another plan.\n" in lowtide.out


def test_while_a_module_is_explained(lowtide, step, press):
    press("lowtide.compiler.schedule_candidates")
    assert lowtide("explain", step, "--json") == ExitCode.INTERRUPTED
    assert json.loads(lowtide.out)["caveats"][0].startswith("Ctrl-C ended the search")


@pytest.mark.parametrize(
    "place", ["compiler.pack_buffers", "cli.certificate_files.of_module", "cli.console._umask"]
)
def test_pressed_again(lowtide, step, press, place):
    press(f"lowtide.{place}", times=2)
    output = step.with_name("step.certificate.json")
    assert lowtide("plan", step, "-o", output) == ExitCode.INTERRUPTED
    assert (lowtide.out, lowtide.err) == ("", "error: interrupted\n")
    assert [x.name for x in step.parent.iterdir()] == ["step.hlo"]


PLACES = ["points.frontier", "planner.with_sequences", "planner.variant_of", "bounds.footprints"]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("asked", [("--budget", "1B"), ("--pareto",)])
def test_while_a_budget_is_searched(lowtide, step, press, place, asked):
    press(f"lowtide.budgeting.{place}")
    output = step.with_name("step.json")
    assert lowtide("plan", step, *asked, "-o", output, "--json") == ExitCode.INTERRUPTED
    document = json.loads(lowtide.out)
    assert "Ctrl-C ended the search: another run may give another plan" in document["caveats"]
    assert lowtide("verify", output) == ExitCode.DONE


def test_while_a_budget_is_searched_pressed_again(lowtide, step, press):
    press("lowtide.budgeting.planner.with_sequences")
    press("lowtide.budgeting.bounds.footprints")
    assert lowtide("plan", step, "--budget", "1B", "--json") == ExitCode.INTERRUPTED
    assert (lowtide.out, lowtide.err) == ("", "error: interrupted\n")


@pytest.mark.parametrize("place", PLACES)
def test_compiling_for_a_budget_ends_at_once(lowtide, step, press, place):
    press(f"lowtide.budgeting.{place}")
    output = step.with_name("step.exe")
    assert lowtide("compile", step, "--memory", "1B", "-o", output) == ExitCode.INTERRUPTED
    assert (lowtide.out, lowtide.err) == ("", "error: interrupted\n")
    assert not output.exists()


def test_other_threads_take_no_signals(lowtide, step, monkeypatch):
    monkeypatch.setattr("threading.current_thread", object)
    before = signal.getsignal(signal.SIGINT)
    from lowtide.cli.interrupts import ending_at

    with ending_at(None) as deadline:
        assert isinstance(deadline, Deadline)
        assert signal.getsignal(signal.SIGINT) is before
