"""Ctrl-C in a call of `lowtide.explain`: the best so far comes back; pressed again it is raised."""

import signal

import pytest
from tests.budgeting.chains import training_step

import lowtide
from lowtide.comparison.gate import explained
from lowtide.search.deadline import CTRL_C, ended_by


def test_what_was_tried_before_ctrl_c_is_told(press):
    module = training_step()
    press("lowtide.whatif.search._outcome")
    before = signal.getsignal(signal.SIGINT)
    report = lowtide.explain(module, what_if=True)
    assert signal.getsignal(signal.SIGINT) is before
    assert report.what_if.left_out
    press("lowtide.whatif.search._outcome", times=2)
    with pytest.raises(KeyboardInterrupt):
        lowtide.explain(module, what_if=True)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_plan_within_a_budget_is_kept(press):
    module = training_step()
    budget = lowtide.explain(module).ladder.arena_bytes
    press("lowtide.compiler.placing.pack_buffers")
    report = lowtide.explain(module, memory=budget)
    assert report.ladder.arena_bytes <= budget
    assert ended_by(CTRL_C) in report.caveats


def test_gates_compare_no_plan_that_ctrl_c_ended(press):
    module = training_step()
    budget = lowtide.explain(module).ladder.arena_bytes
    press("lowtide.compiler.placing.pack_buffers")
    with pytest.raises(KeyboardInterrupt):
        explained(module, memory=budget)


def test_before_there_is_a_plan_it_is_raised(press):
    press("lowtide.compiler.plan")
    with pytest.raises(KeyboardInterrupt):
        lowtide.explain(training_step(), what_if=True)
