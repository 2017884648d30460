"""`lowtide fit`: exit status, JSON, errors."""

import json

from tests.support import EXAMPLES

MODULE = EXAMPLES / "mlp.hlo.xz"


def test_fit(lowtide):
    assert lowtide("fit", MODULE, "--dim", "B=images", "--limit", "1MB") == 0
    assert "is the largest that fits" in lowtide.out
    assert lowtide("fit", MODULE, "--dim", "B=images", "--limit", "1MB", "--json") == 0
    found = json.loads(lowtide.out)
    assert found["schema"] == "lowtide.fit/1"
    assert found["next"]["size"] == found["largest"]["size"] + 1
    assert found["peak"][0]["coefficients"][1] > 0


def test_errors_are_one_line(lowtide):
    assert lowtide("fit", MODULE, "--dim", "B=imags", "--limit", "1MB") == 1
    assert lowtide.err.startswith("error: no argument 'imags'; did you mean 'images'?")
    assert lowtide.err.count("\n") == 1
    assert lowtide("fit", MODULE, "--dim", "B=images", "--limit", "much") == 1
    assert lowtide("explain", MODULE, "--try", "donate:x") == 1
    assert lowtide.err.startswith("error: no change 'donate:x'") and lowtide.err.count("\n") == 1
    assert lowtide("explain", MODULE, "--try", "x", "--what-if") == 1
    assert "give one of the two" in lowtide.err
