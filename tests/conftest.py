"""Options of the test run."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--fuzz-seconds",
        type=float,
        default=0.0,
        help="stop each fuzz test after this many seconds; 0 for no limit",
    )


@pytest.fixture
def fuzz_seconds(request: pytest.FixtureRequest) -> float:
    """How long a fuzz test may go on; infinity where there is no limit."""
    seconds = float(request.config.getoption("--fuzz-seconds"))
    return seconds or float("inf")
