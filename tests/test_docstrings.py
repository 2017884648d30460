"""The docstring of a file begins with what the file is, not with a question."""

import ast
import re

import pytest
from tests.architecture import Source, sources

QUESTION = re.compile(
    r"(?:(?:at|by|for|from|in|of|on|to|with) )?"
    r"(?:how|what|when|where|whether|which|who|whom|whose|why)\b",
    re.IGNORECASE,
)


def headline(source: Source) -> str:
    """Return the first line of the docstring of a file, "" where it has none."""
    return (ast.get_docstring(source.tree) or "").partition("\n")[0]


@pytest.mark.parametrize("source", sources(), ids=lambda x: x.name)
def test_headlines_are_no_questions(source: Source) -> None:
    text = headline(source)
    assert text, f"{source.name} has no docstring"
    assert text[-1] in ".:", f"{source.name}: the first line of the docstring is one sentence"
    assert not QUESTION.match(text), f"{source.name}: begin with a noun: {text!r}"


def test_what_is_a_question() -> None:
    for text in ("What is proved.", "In which order nodes run.", "Whether it fits.", "how it is"):
        assert QUESTION.match(text), text
    for text in ("Orders of nodes.", "In place updates.", "Whole numbers.", "Return what is."):
        assert not QUESTION.match(text), text
