"""Packages load a name when it is asked for, and know no others."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from types import ModuleType

import pytest

PACKAGES = ("lowtide.ir", "lowtide.client.executable")


@pytest.mark.parametrize("name", PACKAGES)
def test_each_public_name_is_found(name: str) -> None:
    package = import_module(name)
    for public in package.__all__:
        found = getattr(package, public)
        assert not isinstance(found, ModuleType)
        assert getattr(package, public) is found
        assert public in vars(package)  # The next time it is found without a function.


@pytest.mark.parametrize("name", PACKAGES)
def test_another_name_is_an_error_that_says_where(name: str) -> None:
    package = import_module(name)
    with pytest.raises(AttributeError, match=f"module '{name}' has no attribute 'nothing'"):
        _ = package.nothing
    with pytest.raises(ImportError):
        exec(f"from {name} import nothing")


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_by_itself_loads_none_of_its_files(name: str) -> None:
    script = f"import sys, {name}; print([x for x in sys.modules if x.startswith('{name}.')])"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
