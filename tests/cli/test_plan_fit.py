"""`lowtide plan`, `compile` and `run` within a budget of memory."""

import json

import numpy as np
import pytest
from tests.budgeting.chains import training_step

import lowtide as api
from lowtide.cli.exit_codes import ExitCode
from lowtide.evaluator import evaluate, value_leaves
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.options import Options
from lowtide.testing.check_pass import seeded_arguments


@pytest.fixture
def step(tmp_path):
    path = tmp_path / "step.hlo"
    path.write_text(str(training_step(layers=6)))
    return path


@pytest.fixture
def arena(lowtide, step):
    """What the plan without a budget takes."""
    assert lowtide("plan", step, "--json", "--effort", "fast") == ExitCode.DONE
    return json.loads(lowtide.out)["ladder"]["arena_bytes"]


def test_a_budget_is_kept_and_reported(lowtide, step, arena, tmp_path):
    budget = arena * 3 // 4
    plan = tmp_path / "plan.json"
    options = ("--budget", budget, "--effort", "fast", "--json", "-o", plan)
    assert lowtide("plan", step, *options) == ExitCode.DONE
    document = json.loads(lowtide.out)
    found = document["budget"]
    assert document["ladder"]["arena_bytes"] <= budget == found["bytes"]
    assert found["feasible"] and 0 < found["extra_seconds_bound"] <= found["extra_seconds"]
    assert any("recomputation only" in x for x in document["caveats"])
    assert json.loads(plan.read_text())["budget"] == found
    assert lowtide("verify", plan) == ExitCode.DONE


def test_a_certificate_within_a_budget_is_held_against_the_module(lowtide, step, arena, tmp_path):
    budget, certificate = arena * 3 // 4, tmp_path / "step.certificate.json"
    assert lowtide("plan", step, "--budget", budget, "-o", certificate) == ExitCode.DONE
    for more in ((), ("--budget", budget)):
        assert lowtide("verify", certificate, step, *more, "--json") == ExitCode.OVER_BUDGET
        verdict = json.loads(lowtide.out)
        assert 0 < verdict["bound"] < verdict["size"]
    assert lowtide("verify", certificate, step, "--budget", budget + 1) == ExitCode.NOT_VERIFIED
    assert f"it is for a budget of {budget:,} bytes" in lowtide.out
    other = tmp_path / "other.hlo"
    other.write_text(str(training_step(layers=6, rows=65)))
    assert lowtide("verify", certificate, other) == ExitCode.NOT_VERIFIED
    assert "the module without a budget has another text" in lowtide.out
    assert lowtide("verify", certificate, "--budget", budget) == ExitCode.BAD_INPUT
    assert (
        "--budget, --stage, --effort and --reoptimize are for certificates with MODULE"
        in lowtide.err
    )


def test_a_certificate_has_the_size_of_the_report(lowtide, step, arena, tmp_path):
    """Its size is the extra seconds, in ticks; its bound is a part of theirs, by one node alone."""
    certificate = tmp_path / "step.certificate.json"
    for share in (0.9, 0.75, 0.6):
        options = ("--budget", int(arena * share), "--effort", "fast", "-o", certificate, "--json")
        assert lowtide("plan", step, *options) == ExitCode.DONE
        found = json.loads(lowtide.out)["budget"]
        assert lowtide("verify", certificate, "--json") in (ExitCode.DONE, ExitCode.OVER_BUDGET)
        verdict = json.loads(lowtide.out)
        assert verdict["size"] == pytest.approx(found["extra_seconds"] * 1e13, abs=20)
        assert 0 < verdict["bound"] <= found["extra_seconds_bound"] * 1e13 + 20
        assert found["extra_seconds_bound"] > 0


def test_a_certificate_of_a_budget_that_is_too_small(lowtide, step, tmp_path):
    certificate = tmp_path / "step.certificate.json"
    options = ("--budget", "1546", "--effort", "fast", "-o", certificate)
    assert lowtide("plan", step, *options) == ExitCode.OVER_BUDGET
    assert "which is proved: the step of" in lowtide.err
    for module in ((), (step,)):
        assert lowtide("verify", certificate, *module) == ExitCode.DONE
        assert lowtide.out == "valid and optimal: no plan fits\n"
    assert lowtide("plan", step, "--budget", "0B", *options[2:]) == ExitCode.BAD_INPUT
    assert "no certificate for a budget of 0 bytes" in lowtide.err


def test_a_certificate_of_another_stage_and_effort(lowtide, step, arena, tmp_path):
    certificate = tmp_path / "step.certificate.json"
    way = ("--stage", "simplified", "--effort", "fast")
    for budget in ((), ("--budget", arena * 3 // 4)):
        assert lowtide("plan", step, *way, *budget, "-o", certificate) == ExitCode.DONE
        assert lowtide("verify", certificate, step, *way) in (ExitCode.DONE, ExitCode.OVER_BUDGET)
        assert lowtide("verify", certificate, step) == ExitCode.NOT_VERIFIED
    assert lowtide("verify", certificate, "--effort", "fast") == ExitCode.BAD_INPUT
    assert lowtide("verify", certificate, step, "--effort", "most") == ExitCode.BAD_INPUT


def test_of_the_cost_of_a_variant_nothing_is_proved(lowtide, tmp_path):
    wide, certificate = tmp_path / "wide.hlo", tmp_path / "wide.certificate.json"
    wide.write_text(str(training_step(layers=3, rows=4096)))
    assert lowtide("plan", wide, "--json", "--effort", "fast") == ExitCode.DONE
    budget = json.loads(lowtide.out)["ladder"]["arena_bytes"] // 3
    way = ("--budget", budget, "--effort", "fast")
    assert lowtide("plan", wide, *way, "-o", certificate, "--json") == ExitCode.DONE
    variant = json.loads(lowtide.out)["budget"]["variant"]
    assert variant
    assert lowtide("verify", certificate, wide, *way) in (ExitCode.DONE, ExitCode.OVER_BUDGET)
    assert f"it is a plan of {variant}, of whose cost nothing is proved" in lowtide.out


def test_the_screen_tells_cost_and_bound(lowtide, step, arena):
    assert lowtide("plan", step, "--budget", arena * 3 // 4, "--effort", "fast") == ExitCode.DONE
    assert "more time: no recomputation within the budget has less" in lowtide.out
    assert lowtide("plan", step, "--budget", arena, "--effort", "fast") == ExitCode.DONE
    assert "0.000% more time" in lowtide.out


def test_what_does_not_fit_is_status_2_with_the_reason(lowtide, step):
    assert lowtide("plan", step, "--budget", "100B", "--effort", "fast") == ExitCode.OVER_BUDGET
    assert "what it returns takes 1,536 bytes: donating arguments" in lowtide.err
    assert lowtide("plan", step, "--budget", "1546", "--effort", "fast") == ExitCode.OVER_BUDGET
    assert "which is proved: the step of" in lowtide.err
    assert "the smallest budget known to do is" in lowtide.err


def test_the_frontier_is_written_as_a_page(lowtide, step, tmp_path):
    page = tmp_path / "frontier.html"
    options = ("--pareto", "--effort", "fast", "--json", "--html", page)
    assert lowtide("plan", step, *options) == ExitCode.DONE
    pareto = json.loads(lowtide.out)["pareto"]
    sizes = [x["bytes"] for x in pareto["points"]]
    assert len(sizes) > 3 and sizes == sorted(sizes, reverse=True)
    bounds = [x["extra_seconds"] for x in pareto["bound"]]
    times = [x["extra_seconds"] for x in pareto["points"]]
    assert all(low <= high * (1 + 1e-9) for low, high in zip(bounds, times, strict=True))
    text = page.read_text()
    assert text.count("<circle") >= 2 * len(sizes) and "http" not in text


def test_xla_is_a_baseline(lowtide, step, arena):
    options = ("--budget", arena * 3 // 4, "--remat", "xla", "--effort", "fast", "--json")
    assert lowtide("plan", step, *options) == ExitCode.DONE
    assert json.loads(lowtide.out)["budget"]["extra_seconds"] > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--budget", "ten"], "expected a size such as 512MiB, 1.5GB or 123, found 'ten'"),
        (["--budget", "1MB", "--assigner", "xla"], "leave out --assigner"),
        (["--budget", "1MB", "--compare"], "leave out --strategy, --compare"),
        (["--remat", "xla"], "give --budget SIZE, too"),
        (["--budget", "1MB", "--remat", "xlb"], "there are: frontier, xla"),
    ],
)
def test_options_that_do_not_fit(lowtide, step, options, message):
    assert lowtide("plan", step, *options) == ExitCode.BAD_INPUT
    assert message in lowtide.err


def test_native_code_keeps_to_a_budget(lowtide, step, tmp_path, monkeypatch):
    monkeypatch.setenv("LOWTIDE_CACHE", str(tmp_path / "cache"))
    module = parse_hlo(step.read_text())
    options = Options(threads=1)
    plain = api.compile(module, options=options)
    budget = plain.arena_bytes * 3 // 4
    small = api.compile(module, memory=budget, options=options)
    assert small.arena_bytes <= budget
    assert small.memory["budget"]["extra_seconds"] > 0
    arguments = seeded_arguments(module, 0)
    expected = value_leaves(evaluate(module, arguments))
    for found in (
        small(*arguments),
        api.compile(module, memory=budget, options=options)(*arguments),
    ):
        for a, b in zip(expected, found, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3)
    again = api.compile(module, memory=plain.arena_bytes, options=options)
    assert again.making.was_cached and again.arena_bytes == plain.arena_bytes
    with pytest.raises(api.OverMemoryError, match="the smallest budget known to do is"):
        api.compile(module, memory=1290, options=options)
    command = ("run", step, "--memory", budget, "--threads", 1, "--sanitize")
    assert lowtide(*command) == ExitCode.DONE


def test_a_target_with_a_link_stores_values_with_its_host(lowtide, tmp_path):
    path = tmp_path / "step.hlo"
    path.write_text(str(training_step(12, 8192, 1024)))
    options = ("--target", "cuda:sm_90", "--effort", "fast")
    assert lowtide("plan", path, *options, "--json") == ExitCode.DONE
    document = json.loads(lowtide.out)
    budget = document["ladder"]["arena_bytes"] * 7 // 10
    written = tmp_path / "plan.txt"
    options = (*options, "--memory", budget)
    assert lowtide("plan", path, *options, "--json") == ExitCode.DONE
    document = json.loads(lowtide.out)
    (space,) = document["memory_spaces"]
    assert document["budget"]["host_bytes"] == space["arena_bytes"] > 0
    assert document["ladder"]["arena_bytes"] <= budget
    assert any("values of the entry in the host's memory" in x for x in document["caveats"])
    assert lowtide("plan", path, *options, "-o", written) == ExitCode.DONE
    assert "copied there and back beside computation" in lowtide.out


@pytest.mark.parametrize("name", ["cuda:sm_1", "gpu"])
def test_a_target_that_is_not_known(lowtide, step, name):
    assert lowtide("plan", step, "--target", name) == ExitCode.BAD_INPUT
    assert f"no target '{name}'" in lowtide.err or f"no '{name}'" in lowtide.err


def test_a_target_is_of_modules(lowtide, tmp_path):
    packing = tmp_path / "one.csv"
    packing.write_text("id,lower,upper,size\n1,0,2,64\n")
    assert lowtide("plan", packing, "--target", "cuda") == ExitCode.BAD_INPUT
    assert "--target are for modules" in lowtide.err
    assert lowtide("plan", packing, "--target", "tflm") == ExitCode.BAD_INPUT
    assert "for .tflite models" in lowtide.err
