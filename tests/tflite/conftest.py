"""An option that records what LiteRT's kernels give."""

import pytest
from tests.tflite.kernels import write_recorded


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record-litert", action="store_true", help="write recorded.npz anew")


def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.config.getoption("--record-litert", default=False):
        write_recorded()
