"""Sizes on the command line that are none: one line that says what one looks like."""

import json

import pytest


@pytest.mark.parametrize(
    "size", ["0.5B", "1.5", "-1MB", "1e3MB", "MiB", "", "NaN", "inf", "9" * 30]
)
@pytest.mark.parametrize(
    "command",
    [("plan", "--budget"), ("plan", "--capacity"), ("compile", "--memory"), ("run", "--memory")],
)
def test_what_is_no_size(lowtide, small, command, size):
    assert lowtide(command[0], small, command[1], size) == 1
    assert "such as 512MiB, 1.5GB or 123, found" in lowtide.err
    assert lowtide.err.count("\n") == 1 and not lowtide.out


def test_a_size_may_have_a_space(lowtide, small):
    assert lowtide("plan", small, "--budget", "1 MiB", "--json") == 0
    assert json.loads(lowtide.out)["budget"]["bytes"] == 1 << 20
