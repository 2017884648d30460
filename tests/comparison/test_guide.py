"""The guide docs/explain.md: each command on it runs, and shows what stands there."""

import pytest
from tests.comparison.guide import CONSOLE, GUIDE, masked, output_of, workplace

SLOW = ("gpt2", "--budget")
"""What marks the commands that take long."""

COMMANDS = CONSOLE.findall(GUIDE.read_text())


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        pytest.param(
            command, shown, marks=[pytest.mark.slow] if any(x in command for x in SLOW) else []
        )
        for command, shown in COMMANDS
        if not command.startswith("check")
    ],
)
def test_a_command_shows_what_the_page_says(command, shown):
    with workplace():
        found = output_of(command)
    assert masked(found) == masked(shown), "python -m tests.comparison.guide writes the page anew"


@pytest.mark.slow
def test_the_gate_of_the_page():
    with workplace():
        checks = [(output_of(x), shown) for x, shown in COMMANDS if x.startswith("check")]
    assert len(checks) == 2
    for found, shown in checks:
        assert masked(found) == masked(shown)
