"""`lowtide plan` with memory graphs."""

import json
import lzma
import os
import random
import subprocess
import sys

import pytest
from tests.scheduling.small_graphs import Oracle, SmallGraph, small_graph

from lowtide.cli.exit_codes import ExitCode


@pytest.fixture
def graph(tmp_path):
    """A graph that has more than one order, and its file."""
    found = small_graph(random.Random(3), 9, 9)
    path = tmp_path / "small.json.xz"
    path.write_bytes(lzma.compress(json.dumps(found.document()).encode()))
    return found, path


def test_the_order_is_one_of_least_peak(lowtide, graph):
    found, path = graph
    assert lowtide("plan", path, "--json") == ExitCode.DONE
    document = json.loads(lowtide.out)
    least = Oracle(found).least_peak()
    assert document["schema"] == "lowtide.graph/1"
    assert document["peak_bytes"] == document["bound_bytes"] == least
    assert document["optimal"] is True
    assert Oracle(found).peak(document["order"]) == least


def test_the_screen_tells_peak_and_bound(lowtide, graph):
    found, path = graph
    assert lowtide("plan", path, "--limit", "2") == ExitCode.DONE
    shown = lowtide.out
    least = Oracle(found).least_peak()
    assert f"{least:,} bytes" in shown
    assert "so no order needs less" in shown


def test_a_capacity_below_the_bound_is_refused_for_good(lowtide, graph):
    found, path = graph
    least = Oracle(found).least_peak()
    assert lowtide("plan", path, "--capacity", str(least - 1)) == ExitCode.OVER_BUDGET
    assert f"every order needs {least:,} bytes, above {least - 1:,}" in lowtide.err
    assert lowtide("plan", path, "--capacity", str(least)) == ExitCode.DONE


def test_the_order_is_written_to_a_file(lowtide, graph, tmp_path):
    _, path = graph
    assert lowtide("plan", path, "-o", tmp_path / "o.json") == ExitCode.DONE
    assert sorted(json.loads((tmp_path / "o.json").read_text())["order"]) == list(range(9))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--strategy", "offsets:best_fit"], "are for packings, not for graphs"),
        (["--stage", "input"], "are not for memory graphs"),
        (["-o", "order.csv"], "the order of a graph is written as .json"),
        (["--effort", "much"], "no effort 'much'"),
    ],
)
def test_options_of_other_inputs_are_refused(lowtide, graph, options, message):
    assert lowtide("plan", graph[1], *options) == ExitCode.BAD_INPUT
    assert message in lowtide.err


def test_a_malformed_graph_names_the_field(lowtide, tmp_path):
    path = tmp_path / "bad.json"
    path.write_text('{"name": "g", "nodes": [{}], "buffers": []}')
    assert lowtide("plan", path) == ExitCode.BAD_INPUT
    assert "nodes[0]: no field 'name'" in lowtide.err


def test_a_budget_is_kept_by_running_nodes_again(lowtide, tmp_path):
    """Of a chain whose first value is needed last, that value is made twice."""
    sizes, readers = (10, 40, 40, 40, 10), ((1, 4), (2,), (3,), (4,), ())
    buffers = [
        {"bytes": x, "producer": i, "consumers": list(c), "live_out": i == 4, "may_reuse": []}
        for i, (x, c) in enumerate(zip(sizes, readers, strict=True))
    ]
    path = tmp_path / "chain.json"
    path.write_text(json.dumps(SmallGraph([0] * 5, [[]] * 5, buffers).document()))
    assert lowtide("plan", path, "--budget", "80B", "--pareto", "--json") == ExitCode.DONE
    document = json.loads(lowtide.out)
    assert document["sequence"] == [0, 1, 2, 3, 0, 4]
    assert document["budget"]["peak_bytes"] == 80
    assert document["budget"]["extra_seconds"] == 1.0
    assert 0.999 <= document["budget"]["extra_seconds_bound"] <= 1.0
    assert [x["bytes"] for x in document["pareto"]["points"]] == [90, 80]
    assert lowtide("plan", path, "--budget", "89%", "--json") == ExitCode.DONE
    assert json.loads(lowtide.out)["budget"]["bytes"] == 80
    assert lowtide("plan", path, "--budget", "79B") == ExitCode.OVER_BUDGET
    assert "which is proved: n2 takes 80 bytes" in lowtide.err
    options = ("--budget", "0B", "-o", tmp_path / "none.certificate.json")
    assert lowtide("plan", path, *options) == ExitCode.BAD_INPUT
    assert "no certificate for a budget of 0 bytes" in lowtide.err
    assert lowtide("plan", path, "--budget", "89B", "--remat", "xla") == ExitCode.DONE
    assert "1 nodes run again" in lowtide.out


def test_solvers_come_with_the_package_or_are_kept_for_later_processes(graph, tmp_path):
    """A search without a budget compiles nothing; one within a budget keeps what it compiled."""
    _, path = graph
    environment = {**os.environ, "LOWTIDE_CACHE": str(tmp_path / "cache")}
    command = [sys.executable, "-m", "lowtide", "plan", str(path)]
    kept = tmp_path / "cache" / "solvers"
    subprocess.run(command, check=True, env=environment, capture_output=True)
    assert not list(kept.rglob("*"))
    subprocess.run([*command, "--budget", "1B"], check=False, env=environment, capture_output=True)
    assert list(kept.rglob("*"))


def test_ctrl_c_while_a_budget_is_searched_writes_what_there_is(lowtide, graph, monkeypatch):
    def interrupted(*_args, **_kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("lowtide.remat.frontier.LevelSearch", interrupted)
    assert lowtide("plan", graph[1], "--budget", "1GB", "--json") == ExitCode.INTERRUPTED
    assert json.loads(lowtide.out)["budget"]["feasible"]
