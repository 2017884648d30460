"""The words of docs/glossary.md are those of the code, and its classes are named by them."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache

import pytest
from tests.architecture import PACKAGE, ROOT, Source, sources

ROOMS = (
    "ir",
    "ops",
    "passes",
    "compiler",
    "backends",
    "cost",
    "scheduling",
    "remat",
    "planning",
    "analysis",
)
"""The rooms whose classes have a word in the glossary: those in a file of the room itself."""

CONCEPTS = {"rest height", "iteration space"}
"""Words of the glossary that the prose needs and no name of the code ends with."""

FORMS = {
    *("config", "count", "entry", "field", "form", "graph", "kind", "limit", "list", "location"),
    *("map", "option", "result", "role", "row", "run", "set", "statistic", "table", "text", "time"),
}
"""Words that say of a class what form of data it is; the word before says of what."""

HELPERS = {
    "analysis": "CallRole Forward GraphCall GraphColumns Lists Selection StorageClasses",
    "backends": "Build",
    "compiler": "LateReport StageClock",
    "cost": "CacheRate Times",
    "ir": """AxisRef CloneMap DimensionLevel FileLocation Form IotaDevices NameUniquer
        PrintOptions ResultAccuracy ShardGroup Shown SourceText SplitConfig Statistics Wanted
        Whose Written""",
    "ops": "FusedUpdate Need Surrounded",
    "passes": "Checking Dumping Observing PassesUntil Timing TupleElements",
    "planning": "Placed PoolPlacement Size",
    "remat": """Arcs Base Cases CutLines ExpandedRows FirstLarge Flow Improver LargeCase LinkWait
        RematTables ReturnGraph RunTimes Stay Transferred""",
    "scheduling": """Answer BranchResult Case Divided Exhausted Forced KeptBytes Narrowed
        PropagationWork Workbench""",
}
"""Classes named after what they do for one file: nobody speaks of them outside of their room."""

INSTEAD = {
    "blob": "buffer",
    "lifespan": "live range",
    "liveness interval": "live range",
    "op node": "instruction",
    "spill": "copy",
    "subgraph": "computation",
    "callsite": "call site",
    "rematerialization": "recompute",
}
"""Words of other projects that the names of the code do not take, with ours."""

Words = tuple[str, ...]


def words(name: str) -> Words:
    """Return the words of a name in any spelling, in lower case and in the singular."""
    found = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)
    return tuple([_singular(x.lower()) for x in found])


def _singular(word: str) -> str:
    for plural, singular in (("ches", "ch"), ("sses", "ss"), ("ies", "y")):
        if word.endswith(plural):
            return word.removesuffix(plural) + singular
    return word.removesuffix("s") if len(word) > 3 and not word.endswith("ss") else word


@cache
def glossary() -> tuple[str, ...]:
    """Return the words of the glossary in order, those that stand twice twice."""
    text = (ROOT / "docs" / "glossary.md").read_text()
    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \|$", text, re.MULTILINE)
    return tuple([word.strip() for row in rows if row != "word" for word in row.split(",")])


def _names(source: Source) -> Iterator[str]:
    """Yield the names of a file: module, with its package as well, classes, functions, fields."""
    yield "_".join(source.module.split(".")[-2:])
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield node.name
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


@cache
def endings() -> frozenset[Words]:
    """Return the words that names of the code end with, one or more of each name."""
    names = {words(name) for source in sources() for name in _names(source)}
    return frozenset(name[i:] for name in names for i in range(len(name)))


def _classes(room: str) -> Iterator[ast.ClassDef]:
    """Yield the public classes of a room, but exceptions, attribute records, arrays of searches."""
    for source in sources():
        if source.path.parent != PACKAGE / room:
            continue
        for node in source.tree.body:
            if not isinstance(node, ast.ClassDef) or node.name.startswith("_"):
                continue
            bases = {x.id for x in node.bases if isinstance(x, ast.Name)}
            if "Record" not in bases and not node.name.endswith("Error"):
                yield node


def is_told(name: str, known: frozenset[Words]) -> bool:
    """Whether the name of a class ends with a known word, words for its form left out."""
    left = words(name)
    while left:
        if any(left[i:] in known for i in range(len(left))):
            return True
        left = left[:-1] if left[-1] in FORMS else ()
    return False


def test_a_word_stands_once() -> None:
    assert [word for word, count in Counter(map(words, glossary())).items() if count > 1] == []


def test_the_glossary_is_read() -> None:
    assert {"module", "call site", "kernel", "op kernel"} <= set(glossary())


@pytest.mark.parametrize("word", sorted(set(glossary())))
def test_the_code_uses_the_word(word: str) -> None:
    is_used = words(word) in endings()
    assert is_used or word in CONCEPTS, f"no name ends with {word!r}: what does the code call it?"
    assert not (is_used and word in CONCEPTS), f"{word!r} is no mere concept: the code has it"


def test_concepts_stand_in_the_glossary() -> None:
    assert set(glossary()) >= CONCEPTS


@pytest.mark.parametrize("room", ROOMS)
def test_the_glossary_has_the_word_of_each_class(room: str) -> None:
    known = frozenset(map(words, glossary()))
    without = {x.name for x in _classes(room) if not is_told(x.name, known)}
    helpers = set(HELPERS.get(room, "").split())
    assert without <= helpers, (
        f"{room}: no word of docs/glossary.md ends the names {sorted(without - helpers)}. Name"
        " them by the word that the glossary has for the thing; a new thing gets a row there; a"
        " helper that nobody speaks of outside of its room stands in HELPERS"
    )
    assert helpers <= without, f"{sorted(helpers - without)} need no place in HELPERS"


@pytest.mark.parametrize(("word", "ours"), INSTEAD.items())
def test_second_words_are_not_names(word: str, ours: str) -> None:
    assert words(ours) in frozenset(map(words, glossary())) | endings()
    assert words(word) not in endings(), f"say {ours!r} instead of {word!r}"


def test_what_is_a_word() -> None:
    assert words("CallSite") == words("call_sites") == words("call site") == ("call", "site")
    assert words("HloValue") == ("hlo", "value") and words("classes") == ("class",)
    assert words("BranchStretches") == ("branch", "stretch") and words("bias") == ("bia",)
    known = frozenset({("live", "range"), ("value",)})
    assert is_told("LiveRanges", known) and is_told("ValueKind", known)
    assert not is_told("Lifespan", known) and not is_told("RangeTree", known)
