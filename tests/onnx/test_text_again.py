"""Nodes on text that are run again: what their attributes say is worked out once."""

import numpy as np
import pytest
from tests.onnx.models import FLOAT, helper, model, tensor

from lowtide.onnx import InferenceSession
from lowtide.onnx.host import strings
from lowtide.onnx.host.registry import NodeCall

STRING = 8
QUICK = {"effort": "fast", "cache": False, "threads": 1, "compiler": "here"}
LEARNED = "ai.onnx.ml"


def words(*rows):
    found = np.empty((len(rows), len(rows[0])), object)
    found[:] = rows
    return found


FIRST = words(["b", "a", "b"], ["", "a", "c"])
SECOND = words(["c", "a", "a"])
COUNTED = {
    "min_gram_length": 1,
    "max_gram_length": 2,
    "max_skip_count": 1,
    "ngram_counts": [0, 3],
    "ngram_indexes": [3, 1, 0, 2, 4],
    "pool_strings": ["a", "b", "c", "b", "a", "a", "c"],
    "weights": [0.5, 2.0, 3.0, 4.0, 5.0],
}
NODES = [
    ("OneHotEncoder", LEARNED, {"cats_strings": ["c", "a"]}),
    ("LabelEncoder", LEARNED, {"keys_strings": ["a", "b"], "values_floats": [1.5, 2.5]}),
    ("TfIdfVectorizer", "", {**COUNTED, "mode": "TF"}),
    ("TfIdfVectorizer", "", {**COUNTED, "mode": "IDF"}),
    ("TfIdfVectorizer", "", {**COUNTED, "mode": "TFIDF"}),
]


def of_text(op, domain, attributes, kind=FLOAT):
    node = helper.make_node(op, ["x"], ["y"], domain=domain, **attributes)
    proto = model([node], [tensor("x", STRING, None)], [tensor("y", kind, None)])
    proto.opset_import.append(helper.make_opsetid(LEARNED, 3))
    proto.ir_version = 10
    return proto


def held_to_a_new_session(proto, feeds):
    session = InferenceSession(proto, **QUICK)
    for x in (*feeds, *feeds):
        found = session.run(None, {"x": x})[0]
        expected = InferenceSession(proto, **QUICK).run(None, {"x": x})[0]
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
        try:
            import onnxruntime
        except ImportError:
            continue
        other = onnxruntime.InferenceSession(proto.SerializeToString())
        np.testing.assert_array_equal(found, other.run(None, {"x": x})[0])


@pytest.mark.parametrize(("op", "domain", "attributes"), NODES)
def test_other_text_in_the_same_session_is_what_a_new_one_gives(op, domain, attributes):
    held_to_a_new_session(of_text(op, domain, attributes), [FIRST, SECOND])


@pytest.mark.parametrize(
    ("op", "domain", "attributes"),
    [
        (
            "Tokenizer",
            "com.microsoft",
            {"separators": ["[ ,]+", "(-)|;"], "mincharnum": 1, "pad_value": "#", "mark": 0},
        ),
        (
            "StringNormalizer",
            "",
            {"stopwords": ["A"], "is_case_sensitive": 0, "case_change_action": "UPPER",
             "locale": "C"},
        ),
    ],
)  # fmt: skip
def test_other_texts_are_parted_and_normalized_alike(op, domain, attributes):
    texts = [np.array(x, object) for x in (["a b,c-d;e", " x"], ["a", "Bb -", "--,"])]
    held_to_a_new_session(of_text(op, domain, attributes, STRING), texts)


def test_a_category_that_is_not_there_is_an_error_in_each_run():
    session = InferenceSession(
        of_text("OneHotEncoder", LEARNED, {"cats_strings": ["c", "a"], "zeros": 0}), **QUICK
    )
    for _ in range(2):
        with pytest.raises(Exception, match="'b' is none of the 2 categories"):
            session.run(None, {"x": FIRST})
        np.testing.assert_array_equal(session.run(None, {"x": SECOND})[0][0, 1], [0, 1])


def test_a_pool_of_words_is_read_once(monkeypatch):
    made, read = [], []
    places, attribute = strings._places, NodeCall.attribute
    monkeypatch.setattr(strings, "_places", lambda call: made.append(1) or places(call))
    session = InferenceSession(of_text(*NODES[2]), **QUICK)
    session.run(None, {"x": FIRST})

    def noted(call, name, *rest):
        read.append(name)
        return attribute(call, name, *rest)

    monkeypatch.setattr(NodeCall, "attribute", noted)
    session.run(None, {"x": SECOND})
    assert made == [1]
    assert not {"pool_strings", "ngram_indexes", "ngram_counts", "weights"}.intersection(read)
