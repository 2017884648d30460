"""What is asked twice where "native" has the features of "avx2" is found, and nothing else is."""

from tests.support import asked_twice


def test_only_what_differs_in_the_target_is_asked_twice() -> None:
    cases = {
        "a.py::x[types0-native]": {"types": (1, 2), "target": "native"},
        "a.py::x[types1-avx2]": {"types": (1, 2), "target": "avx2"},
        "a.py::x[types2-avx2]": {"types": (1, 3), "target": "avx2"},
        "a.py::y[avx2]": {"target": "avx2"},
        "a.py::z[form0]": {"form": ("avx2", 8)},
        "a.py::z[form1]": {"form": ("native", 8)},
        "a.py::u[avx2-native]": {"first": "avx2", "second": "native"},
        "b.py::x[types0-avx2]": {"types": (1, 2), "target": "avx2"},
        "a.py::w[]": {"text": ""},
    }
    assert asked_twice(cases) == {"a.py::x[types1-avx2]"}
