"""The values tested overflow and are NaN on purpose."""

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield
