"""What the tests of comparisons share."""

import pytest
from tests.cli.conftest import Lowtide


@pytest.fixture
def lowtide_command(capsys: pytest.CaptureFixture[str]) -> Lowtide:
    return Lowtide(capsys)
