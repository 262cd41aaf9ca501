"""Tables of the package are parsed once per version of the file, and always say what the file says."""

import tomllib
from importlib import resources
from pathlib import Path

import pytest

from lockstep.base.documents import shipped
from lockstep.base.documents.shipped import kept_object, shipped_table, table
from lockstep.describe.hardware import shipped as hardware

TOML = sorted(resources.files("lockstep").rglob("*.toml"))


@pytest.mark.parametrize("file", TOML, ids=lambda path: path.stem)
def test_a_kept_table_equals_the_file(file: Path) -> None:
    parsed = tomllib.loads(file.read_text(encoding="utf-8"))
    assert table(file) == parsed
    assert table(file) == parsed


def test_a_changed_file_is_parsed_again_and_an_unchanged_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.dont_write_bytecode", False)
    file = tmp_path / "rates.toml"
    parsed: list[str] = []
    loads = tomllib.loads
    monkeypatch.setattr(shipped.tomllib, "loads", lambda text: parsed.append(text) or loads(text))
    for text in ("rate = 1", "rate = 1", "rate = 2"):
        file.write_text(text)
        assert table(file) == loads(text)
    assert parsed == ["rate = 1", "rate = 2"]


def test_a_damaged_or_unwritable_copy_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.dont_write_bytecode", False)
    file = tmp_path / "rates.toml"
    file.write_text("rate = 1")
    table(file)
    (kept,) = (tmp_path / "__pycache__").iterdir()
    kept.write_bytes(kept.read_bytes()[:9])
    assert table(file) == {"rate": 1}
    monkeypatch.setattr(shipped, "cache_from_source", lambda path: str(tmp_path / "no" / "folder" / "x.pyc"))
    assert table(file) == {"rate": 1}


def test_a_table_is_named_by_its_package() -> None:
    assert "megatron-te" in shipped_table("lockstep.describe.stacks", "stacks.toml")


def test_an_object_is_made_again_when_its_sources_change_or_its_copy_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.dont_write_bytecode", False)
    source, made = tmp_path / "rates.py", list[str]()

    def asked() -> set[str]:
        return kept_object(source, [source], lambda: made.append(source.read_text()) or {made[-1]})

    for text in ("one", "one", "two"):
        source.write_text(text)
        assert asked() == {text}
    assert made == ["one", "two"]
    (copy,) = (tmp_path / "__pycache__").iterdir()
    whole = copy.read_bytes()
    for damaged in (whole[:-1], whole[:-3] + b"xyz", whole[:20]):
        copy.write_bytes(damaged)
        assert asked() == {"two"}
    assert made == ["one", *["two"] * 4]


def test_the_kept_catalog_of_hardware_is_the_one_that_its_files_give() -> None:
    kept, read = hardware.shelf(), hardware._shelf()
    assert kept == read
    assert list(kept.clusters) == list(read.clusters)
