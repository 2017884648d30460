"""Ctrl-C: ends before there is a plan, keeps the best from then on, and ends when pressed again."""

import json
import re
import signal

import pytest
from tests.budgeting.chains import training_step
from tests.scheduling.small_graphs import SmallGraph

from lowtide.cli.exit_codes import ExitCode
from lowtide.search.deadline import Deadline

CAVEAT = "Ctrl-C ended the search: another run may give another plan"


def says_where(text):
    """Whether an error is the one line about Ctrl-C, and names the work or the command."""
    return re.fullmatch(r"error: interrupted (while [a-z ]+ \S+|in `lowtide \w+`)\n", text)


@pytest.fixture
def step(tmp_path):
    path = tmp_path / "step.hlo"
    path.write_text(str(training_step()))
    return path


@pytest.fixture
def graph(tmp_path):
    """A chain whose first value is read last."""
    readers = ((1, 4), (2,), (3,), (4,), ())
    buffers = [
        {"bytes": 9, "producer": i, "consumers": list(x), "live_out": i == 4, "may_reuse": []}
        for i, x in enumerate(readers)
    ]
    path = tmp_path / "chain.json"
    path.write_text(json.dumps(SmallGraph([0] * 5, [[]] * 5, buffers).document()))
    return path


@pytest.mark.parametrize("command", ["plan", "explain"])
@pytest.mark.parametrize("place", ["compiler.pipeline.optimize", "cli.modules.read_input"])
def test_before_there_is_a_plan(lowtide, step, press, command, place):
    press(f"lowtide.{place}")
    output = ("-o", step.with_name("step.json")) if command == "plan" else ()
    assert lowtide(command, step, *output) == ExitCode.INTERRUPTED
    assert lowtide.out == "" and says_where(lowtide.err)
    assert [x.name for x in step.parent.iterdir()] == ["step.hlo"]


@pytest.mark.parametrize(
    "place",
    [
        "ordering.insert_copies",
        "ordering.schedule_candidates",
        "ordering.module_bounds",
        "placing.pack_buffers",
    ],
)
@pytest.mark.parametrize("name", ["step.json", "step.certificate.json"])
def test_while_a_plan_is_made(lowtide, step, press, place, name):
    before, output = signal.getsignal(signal.SIGINT), step.with_name(name)
    press(f"lowtide.compiler.{place}")
    assert lowtide("plan", step, "-o", output, "--json") == ExitCode.INTERRUPTED
    assert says_where(lowtide.err)
    assert json.loads(lowtide.out)["caveats"][0].startswith("Ctrl-C ended the search")
    assert lowtide("verify", output) in (ExitCode.DONE, ExitCode.OVER_BUDGET)
    assert signal.getsignal(signal.SIGINT) is before


def test_the_screen_says_so(lowtide, step, press):
    press("lowtide.compiler.ordering.schedule_candidates")
    assert lowtide("plan", step) == ExitCode.INTERRUPTED
    assert "\nCtrl-C ended the search: another run may give another plan.\n" in lowtide.out


def test_while_a_module_is_explained(lowtide, step, press):
    press("lowtide.compiler.ordering.schedule_candidates")
    assert lowtide("explain", step, "--json") == ExitCode.INTERRUPTED
    assert json.loads(lowtide.out)["caveats"][0].startswith("Ctrl-C ended the search")


@pytest.mark.parametrize(
    "place",
    [
        "compiler.placing.pack_buffers",
        "cli.certificate_files.of_module",
        "files.writing.is_special",
    ],
)
def test_pressed_again(lowtide, step, press, place):
    press(f"lowtide.{place}", times=2)
    output = step.with_name("step.certificate.json")
    assert lowtide("plan", step, "-o", output) == ExitCode.INTERRUPTED
    assert lowtide.out == "" and says_where(lowtide.err)
    assert [x.name for x in step.parent.iterdir()] == ["step.hlo"]


@pytest.mark.parametrize(
    ("place", "options"),
    [
        ("cli.plan_module.check_planned", ("--packing", "exact")),
        ("autopsy.assigners.flatten_call_graph", ("--assigner", "xla")),
        ("cli.certificate_files.of_module", ()),
        ("cli.console.write_file", ()),
        ("cli.plan_fit._shown", ("--budget", "1GiB")),
        ("budgeting.planner.xla_choice", ("--budget", "6000B", "--remat", "xla")),
        ("budgeting.points.xla_sequence", ("--budget", "6000B", "--remat", "xla")),
        ("budgeting.planner.with_sequences", ("--budget", "6000B", "--remat", "xla")),
    ],
)
def test_once_there_is_a_plan_it_is_written(lowtide, step, press, place, options):
    press(f"lowtide.{place}")
    is_proof = place.endswith("of_module")
    output = step.with_name("step.certificate.json" if is_proof else "step.json")
    assert lowtide("plan", step, *options, "-o", output) == ExitCode.INTERRUPTED
    assert lowtide.out and says_where(lowtide.err)
    assert lowtide("verify", output) in (ExitCode.DONE, ExitCode.OVER_BUDGET)


PLACES = [
    "points.frontier",
    "points.plain_needs",
    "planner.budget_graphs",
    "planner.plain_seconds",
    "families.with_sequences",
    "planner.variant_of",
    "bounds.footprints",
]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("asked", [("--budget", "1B"), ("--pareto",)])
def test_while_a_budget_is_searched(lowtide, step, press, place, asked):
    press(f"lowtide.budgeting.{place}")
    output = step.with_name("step.json")
    assert lowtide("plan", step, *asked, "-o", output, "--json") == ExitCode.INTERRUPTED
    document = json.loads(lowtide.out)
    assert CAVEAT in document["caveats"]
    assert lowtide("verify", output) == ExitCode.DONE


def test_while_a_budget_is_searched_pressed_again(lowtide, step, press):
    press("lowtide.budgeting.bounds.tables_of")
    press("lowtide.budgeting.bounds.footprints")
    assert lowtide("plan", step, "--budget", "1B", "--json") == ExitCode.INTERRUPTED
    assert lowtide.out == "" and says_where(lowtide.err)


@pytest.mark.parametrize("place", PLACES)
def test_compiling_for_a_budget_ends_at_once(lowtide, step, press, place):
    press(f"lowtide.budgeting.{place}")
    output = step.with_name("step.exe")
    assert lowtide("compile", step, "--memory", "1B", "-o", output) == ExitCode.INTERRUPTED
    assert lowtide.out == "" and says_where(lowtide.err)
    assert not output.exists()


RECOMPUTED = ["remat.frontier.tables_of", "remat.frontier.LevelSearch", "cli.plan_graph.deliver"]


@pytest.mark.parametrize("place", ["scheduling.settling.settled", *RECOMPUTED])
def test_while_a_budget_of_a_graph_is_searched(lowtide, graph, press, place):
    press(f"lowtide.{place}")
    assert lowtide("plan", graph, "--budget", "1B", "--json") == ExitCode.INTERRUPTED
    document = json.loads(lowtide.out)
    assert document["stopped"] == "done" and not document["budget"]["feasible"]
    assert place == RECOMPUTED[-1] or document["caveats"][0] == CAVEAT


@pytest.mark.parametrize("place", ["scheduling.settling.settled", "remat.frontier.LevelSearch"])
def test_the_screen_of_a_graph_says_so(lowtide, graph, press, place):
    press(f"lowtide.{place}")
    assert lowtide("plan", graph, "--budget", "1B") == ExitCode.INTERRUPTED
    assert f"\n{CAVEAT}.\n" in lowtide.out


def test_before_a_graph_has_an_order(lowtide, graph, press):
    press("lowtide.scheduling.search.Solver.begin")
    assert lowtide("plan", graph, "-o", graph.with_name("order.json")) == ExitCode.INTERRUPTED
    assert lowtide.out == "" and says_where(lowtide.err)
    assert [x.name for x in graph.parent.iterdir()] == [graph.name]


@pytest.mark.parametrize("place", ["scheduling.search.Solver.run", "scheduling.settling.settled"])
def test_while_a_graph_is_ordered(lowtide, graph, press, place):
    press(f"lowtide.{place}")
    output = graph.with_name("order.json")
    assert lowtide("plan", graph, "-o", output) == ExitCode.INTERRUPTED
    assert json.loads(output.read_text())["caveats"] == [CAVEAT]


@pytest.mark.parametrize("handler", [signal.SIG_IGN, None])
def test_who_ignores_it_goes_on_to_do_so(lowtide, step, press, monkeypatch, handler):
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    monkeypatch.setattr("signal.getsignal", lambda number: handler)
    press("lowtide.compiler.placing.pack_buffers", times=2)
    try:
        assert lowtide("plan", step) == ExitCode.DONE
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_take_no_signals(lowtide, step, monkeypatch):
    monkeypatch.setattr("threading.current_thread", object)
    before = signal.getsignal(signal.SIGINT)
    from lowtide.search.interrupts import ending_at

    with ending_at(None) as deadline:
        assert isinstance(deadline, Deadline)
        assert signal.getsignal(signal.SIGINT) is before
