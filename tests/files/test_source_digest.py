"""The digest of the sources of a package."""

from lowtide.files.source_digest import source_digest


def test_names_and_contents_count_and_nothing_else(tmp_path):
    (tmp_path / "inner").mkdir()
    first = tmp_path / "a.py"
    first.write_text("x = 1\n")
    (tmp_path / "inner" / "b.py").write_text("")
    found = source_digest(tmp_path)
    assert len(found) == 12
    (tmp_path / "notes.txt").write_text("no source")
    first.touch()
    assert source_digest(tmp_path) == found
    first.write_text("x = 2\n")
    assert source_digest(tmp_path) != found
    first.write_text("x = 1\n")
    first.rename(tmp_path / "c.py")
    assert source_digest(tmp_path) != found
