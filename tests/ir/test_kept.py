"""Results that are kept with a computation, and the collector while graphs change."""

import gc

from lowtide.builder import Builder
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir.collection import without_collection
from lowtide.ir.kept import forget_kept, kept

TEXT = "HloModule m\n\nENTRY main {\n  x = f32[4] parameter(0)\n  ROOT y = f32[4] sine(x)\n}\n"


def test_results_hold_until_the_computation_changes() -> None:
    module = parse_hlo(TEXT)
    computation = module.entry
    runs: list[str] = []

    def sizes(key: str) -> int:
        def count() -> int:
            runs.append(key)
            return len(computation.instructions)

        return kept(computation, key, count)

    assert [sizes("a"), sizes("a"), sizes("b")] == [2, 2, 2]
    assert runs == ["a", "b"]
    builder = Builder.inside(computation, lambda _: None)
    builder.emit(computation.root.opcode, [builder.value(computation.root)])
    assert [sizes("a"), sizes("a")] == [3, 3]
    assert runs == ["a", "b", "a"]
    forget_kept(module)
    assert sizes("a") == 3
    assert runs == ["a", "b", "a", "a"]


def test_what_was_made_without_the_collector_is_old() -> None:
    assert gc.isenabled()
    with without_collection():
        made: list[list[int]] = [[] for _ in range(50_000)]
        assert gc.get_count()[0] > len(made)
    assert gc.isenabled()
    assert gc.get_count()[0] < len(made)
    assert not gc.get_freeze_count()
