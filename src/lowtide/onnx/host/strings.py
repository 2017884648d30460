"""Text: joining, parting, matching and normalizing it, and counting runs of words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from lowtide.frontend.graphs.dtypes import element_type_of
from lowtide.ir.literal import DTYPES, Array
from lowtide.onnx.host.registry import NodeCall, host
from lowtide.onnx.values import Value


def _objects(values: Sequence[Any], sizes: tuple[int, ...]) -> Array:
    found = np.empty(len(values), object)
    found[:] = values
    return found.reshape(sizes)


@host("StringConcat")
def concat(call: NodeCall) -> Sequence[Value]:
    """Give each text of one input followed by that of the other."""
    return [np.asarray(call.input(0) + call.input(1), object)]


@host("StringSplit")
def split(call: NodeCall) -> Sequence[Value]:
    """Give the parts of each text, filled up with empty ones, and how many there are."""
    x = call.input(0)
    delimiter = call.attribute("delimiter", "") or None
    most = call.attribute("maxsplit", -1)
    parts = [text.split(delimiter, most) if text or delimiter else [] for text in x.reshape(-1)]
    counts = [len(part) for part in parts]
    width = max(counts, default=0)
    filled = [text for part in parts for text in [*part, *[""] * (width - len(part))]]
    return [_objects(filled, (*x.shape, width)), np.array(counts, np.int64).reshape(x.shape)]


@host("RegexFullMatch")
def full_match(call: NodeCall) -> Sequence[Value]:
    """Give whether a pattern matches all of each text."""
    x = call.input(0)
    pattern = re.compile(call.attribute("pattern"))
    found = [pattern.fullmatch(text) is not None for text in x.reshape(-1)]
    return [np.array(found, bool).reshape(x.shape)]


_CASES: Final[dict[str, Callable[[str], str]]] = {
    "LOWER": str.lower,
    "UPPER": str.upper,
    "NONE": str,
}


@host("StringNormalizer")
def normalize(call: NodeCall) -> Sequence[Value]:
    """Give texts without stop words, in small or capital letters, or one empty text."""
    x = call.input(0)
    change = _CASES[call.attribute("case_change_action", "NONE")]
    key: Callable[[str], str] = str if call.attribute("is_case_sensitive", 0) else str.lower
    if "stopped" not in call.kept:
        call.kept["stopped"] = {key(word) for word in call.attribute("stopwords", [])}
    stopped = call.kept["stopped"]
    kept = [change(word) for word in x.reshape(-1) if key(word) not in stopped] or [""]
    return [_objects(kept, (1, len(kept)) if x.ndim == 2 else (len(kept),))]


@host("com.microsoft.Tokenizer")
def tokenize(call: NodeCall) -> Sequence[Value]:
    """Give the tokens of each text, filled up with a word: what is between separators, or matches.

    Where nothing has tokens the new dimension has no elements, and no texts stay as they are.
    Raises GraphError for no pattern, and for both kinds of them.
    """
    x = call.input(0)
    if "tokens" not in call.kept:
        call.kept["tokens"] = _tokens_of(call)
    tokens: Callable[[str], list[str]] = call.kept["tokens"]
    if not x.size:
        return [x]
    rows = [tokens(text) for text in x.reshape(-1)]
    if call.attribute("mark", 0) and any(rows):
        rows = [[_START, *row, _END] for row in rows]
    width = max([len(row) for row in rows], default=0)
    word = call.attribute("pad_value")
    filled = [token for row in rows for token in [*row, *[word] * (width - len(row))]]
    return [_objects(filled, (*x.shape, width))]


_START, _END = "\x02", "\x03"


def _tokens_of(call: NodeCall) -> Callable[[str], list[str]]:
    """What makes the tokens of a text, those that are too short left out."""
    separators = call.attribute("separators", None) or []
    pattern = call.attribute("tokenexp", "")
    least = call.attribute("mincharnum")
    if bool(separators) == bool(pattern):
        raise call.error("expected one of the attributes separators and tokenexp")
    if separators == [""] or pattern == ".":
        return lambda text: list(text) if least <= 1 else []
    if pattern:
        whole = re.compile(pattern, re.ASCII)
        return lambda text: [x.group() for x in whole.finditer(text) if len(x.group()) >= least]
    steps = [re.compile(x, re.ASCII) for x in separators]

    def parted(text: str) -> list[str]:
        parts = [text]
        for step in steps:
            parts = [piece for part in parts for piece in _between(step, part)]
        return [part for part in parts if len(part) >= max(least, 1)]

    return parted


def _between(separator: re.Pattern[str], text: str) -> list[str]:
    """The pieces of a text between what a pattern matches, groups of it left out."""
    if not separator.groups:
        return separator.split(text)
    ends = [(x.start(), x.end()) for x in separator.finditer(text)]
    starts = [0, *[end for _, end in ends]]
    return [text[i:j] for i, j in zip(starts, [*[x for x, _ in ends], len(text)], strict=True)]


@host("Cast")
def cast(call: NodeCall) -> Sequence[Value]:
    """Give numbers as text, or text as numbers."""
    x, target = np.asarray(call.input(0)), call.attribute("to")
    if target == 8:
        return [_objects([_as_text(value) for value in x.reshape(-1)], x.shape)]
    dtype = DTYPES[element_type_of(target)]
    numbers = [float(value) if dtype.kind in "fV" else int(float(value)) for value in x.reshape(-1)]
    return [np.array(numbers).reshape(x.shape).astype(dtype)]


def _as_text(value: Any) -> str:
    if isinstance(value, np.floating):
        return format(float(value), f".{8 if value.dtype.itemsize < 8 else 17}g")
    return str(value)


@host("Equal")
def equal(call: NodeCall) -> Sequence[Value]:
    """Give whether texts are the same."""
    return [np.asarray(call.input(0) == call.input(1), bool)]


@host("TfIdfVectorizer")
def tf_idf(call: NodeCall) -> Sequence[Value]:
    """Give how often runs of words of a pool are in each row, weighted or not."""
    x = np.asarray(call.input(0))
    rows = x.reshape(-1, x.shape[-1]) if x.ndim else x.reshape(1, 1)
    if "pool" not in call.kept:
        call.kept["pool"] = _places(call)
    places, width, by_place = call.kept["pool"]
    lengths = call.attribute("min_gram_length"), call.attribute("max_gram_length")
    skips = call.attribute("max_skip_count", 0)
    result = np.zeros((len(rows), width), np.float32)
    for number, row in enumerate(rows.tolist()):
        for gram in _runs(row, *lengths, skips):
            place = places.get(gram)
            if place is not None:
                result[number, place] += 1
    mode = call.attribute("mode")
    found = result if mode == "TF" else (result > 0 if mode == "IDF" else result) * by_place
    return [found.reshape((*x.shape[:-1], width))]


def _places(call: NodeCall) -> tuple[dict[tuple[Any, ...], int], int, Array]:
    """The place in a row of each run of words, how many there are, and the weight of each."""
    words = call.attribute("pool_strings", None) or call.attribute("pool_int64s", [])
    places = call.attribute("ngram_indexes")
    grams = _pool(words, call.attribute("ngram_counts"))
    by_place = np.ones(max(places) + 1, np.float32)
    by_place[places] = call.attribute("weights", None) or [1.0] * len(grams)
    return {gram: places[i] for i, gram in enumerate(grams)}, len(by_place), by_place


def _pool(words: Sequence[Any], starts: Sequence[int]) -> list[tuple[Any, ...]]:
    """The runs of words, those of one word first, then those of two."""
    found: list[tuple[Any, ...]] = []
    for length, start in enumerate(starts, 1):
        end = starts[length] if length < len(starts) else len(words)
        found += [tuple(words[i : i + length]) for i in range(start, end, length)]
    return found


def _runs(row: Sequence[Any], shortest: int, longest: int, skips: int) -> Iterator[tuple[Any, ...]]:
    """The runs of words in a row; words of one may lie up to so many skips apart, evenly."""
    for length in range(shortest, longest + 1):
        for step in range(1, 2 if length == 1 else skips + 2):
            # The last of a run is the first to come to the row's end.
            yield from zip(*[row[i * step :] for i in range(length)], strict=False)
