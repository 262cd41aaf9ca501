"""The strict loader: what it reads, what it refuses, and that every refusal names the file and the line."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict

from lockstep.base.documents import MAX_DEPTH, read_json, read_yaml, validated
from lockstep.base.errors import BadInput


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")
    tp: int
    pp: int = 1


class Outer(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str = "x"
    layouts: list[Inner] = []
    best: str | Inner | None = None


def written(folder: Path, text: str | bytes, name: str = "file.yaml") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_scalars_follow_yaml_1_2(tmp_path: Path) -> None:
    text = "a: 50e9\nb: 3e-6\nc: NO\nd: 12:30\ne: on\nf: 010\ng: '5'\nh: ~\ni: true\nj: .inf\nk: 2026-01-02\nl: 0x1F\n"
    data, _ = read_yaml(written(tmp_path, text))
    assert data == {
        "a": 50e9, "b": 3e-6, "c": "NO", "d": "12:30", "e": "on", "f": 10, "g": "5", "h": None, "i": True,
        "j": ".inf", "k": "2026-01-02", "l": "0x1F",
    }  # fmt: skip


def test_files_may_declare_schema_1(tmp_path: Path) -> None:
    assert read_yaml(written(tmp_path, "schema: 1\na: 2\n"))[0] == read_yaml(written(tmp_path, "a: 2\n"))[0] == {"a": 2}


@pytest.mark.parametrize("said", ["0", "2", "'1'", "1.0", "true", "~", "[1]", "{a: 1}"])
def test_another_schema_is_refused_at_its_line(said: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="this Lockstep reads schema 1, not ") as caught:
        read_yaml(written(tmp_path, f"a: 2\nschema: {said}\n"))
    assert caught.value.where.endswith(":2")


def test_every_key_and_item_has_its_line(tmp_path: Path) -> None:
    data, locate = read_yaml(written(tmp_path, "name: a\nlayouts:\n  - tp: 1\n\n  - tp: 2\n    pp: 3\n"))
    assert data["layouts"][1] == {"tp": 2, "pp": 3}
    lines = [locate(*path).rpartition(":")[2] for path in (("name",), ("layouts", 0, "tp"), ("layouts", 1, "pp"))]
    assert lines == ["1", "3", "6"]
    assert locate("layouts", 1, "no such key").endswith(":5")


BAD_YAML = {
    "duplicate key": ("a: 1\nb: 2\na: 3\n", 3, "given twice (first on line 1)"),
    "syntax": ("a: 1\nb: [1, 2\n", 3, "not valid YAML"),
    "tab": ("a:\n\t- b\n", 2, "not valid YAML"),
    "anchor": ("a: &x 1\nb: 2\n", 1, "anchors and aliases"),
    "alias": ("a: 1\nb: *x\n", 2, "anchors and aliases"),
    "tag": ("a: 1\nb: !!python/object:os.system ls\n", 2, "tag"),
    "second document": ("a: 1\n---\nb: 2\n", 2, "second document"),
    "list at the top": ("- a\n- b\n", 1, "does not hold a mapping"),
    "text at the top": ("hello\n", 1, "does not hold a mapping"),
    "empty": ("", 1, "is empty"),
    "only a comment": ("# nothing\n", 1, "is empty"),
    "deep": ("[" * 100_000, 1, "nested deeper"),
    "list as key": ("a: 1\n? [b]\n: 2\n", 2, "a key must be a plain word"),
    "not UTF-8": (b"a: 1\nb: \xff\n", 2, "not UTF-8"),
}


@pytest.mark.parametrize(("text", "line", "message"), BAD_YAML.values(), ids=BAD_YAML.keys())
def test_bad_yaml_is_refused_with_its_line(tmp_path: Path, text: str | bytes, line: int, message: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(BadInput) as caught:
        read_yaml(path)
    assert caught.value.where == f"{path}:{line}"
    assert message in caught.value.message


BAD_JSON = {
    "duplicate key": ('{"a": 1,\n"b": {"c": 1,\n"c": 2}}', ":3", "given twice"),
    "syntax": ('{"a": 1,\n}', "", "not valid JSON"),
    "NaN": ('{"a": NaN}', "", "NaN is not a JSON number"),
    "overflow": ('{"a": 1,\n"b": 1e999}', ":2", "too large"),
    "deep": ("[" * 200_000, "", "nested deeper"),
    "deep objects": ('{"a":' * 60 + "1" + "}" * 60, ":1", "nested deeper"),
    "list": ("[]", ":1", "does not hold a mapping"),
    "empty": ("", ":1", "not valid JSON"),
    "long integer": ('{"a":' + "1" * 6000 + "}", "", "not valid JSON"),
}


@pytest.mark.parametrize(("text", "line", "message"), BAD_JSON.values(), ids=BAD_JSON.keys())
def test_bad_json_is_refused_with_its_line(tmp_path: Path, text: str, line: str, message: str) -> None:
    path = written(tmp_path, text, "file.json")
    with pytest.raises(BadInput) as caught:
        read_json(path)
    assert str(caught.value.where).startswith(f"{path}{line}")
    assert message in caught.value.message


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    for path, message in ((tmp_path / "none.yaml", "no such file"), (tmp_path, "folder"), ("\0", "cannot be read")):
        with pytest.raises(BadInput, match=message):
            read_yaml(path)
    with pytest.raises(BadInput, match="larger than the 256 KiB"):
        read_yaml(written(tmp_path, "a: " + "x" * 300_000))


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@settings(max_examples=60, derandomize=True, deadline=None)
@given(document=st.dictionaries(st.text(max_size=6), PLAIN, max_size=5), indent=st.sampled_from([None, 1]))
def test_json_written_by_the_standard_library_is_read_back(
    document: dict[str, object], indent: int | None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = written(tmp_path_factory.mktemp("json"), json.dumps(document, indent=indent), "file.json")
    assert read_json(path)[0] == document


@settings(max_examples=100, derandomize=True, deadline=None)
@given(text=st.text(st.sampled_from("ab:-[]{},'\"#&*!|>? \n\t1.e~%@"), max_size=40))
def test_any_text_is_read_or_refused(text: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = written(tmp_path_factory.mktemp("any"), text)
    for read in (read_yaml, read_json):
        where = str(path)
        try:
            assert isinstance(read(path)[0], dict)
        except BadInput as error:
            where = str(error.where)
        assert where.startswith(str(path))


def test_the_deepest_allowed_nesting_is_read(tmp_path: Path) -> None:
    text = '{"a":' * MAX_DEPTH + "1" + "}" * MAX_DEPTH
    for read, name in ((read_json, "file.json"), (read_yaml, "file.yaml")):
        read(written(tmp_path, text.replace(":", ": "), name))


BAD_SCHEMA = {
    "typo": ("layouts:\n  - tp: 1\n  - tpp: 2\n", 3, "unknown key 'layouts.1.tpp'; did you mean tp or pp?"),
    "typo inside a union": ("name: a\nbest:\n  tp: 1\n  ppp: 2\n", 4, "did you mean pp?"),
    "missing": ("name: a\nlayouts:\n  - pp: 1\n", 3, "key 'layouts.0.tp' is missing"),
    "wrong type": ("layouts:\n  - tp: many\n", 2, "got 'many'"),
    "mapping for a list": ("layouts: 3\n", 1, "valid list"),
}


@pytest.mark.parametrize(("text", "line", "message"), BAD_SCHEMA.values(), ids=BAD_SCHEMA.keys())
def test_schema_problems_are_located_and_explained(tmp_path: Path, text: str, line: int, message: str) -> None:
    path = written(tmp_path, text)
    data, locate = read_yaml(path)
    with pytest.raises(BadInput) as caught:
        validated(Outer, data, locate)
    assert caught.value.where == f"{path}:{line}"
    assert message in caught.value.message
    assert "pydantic" not in str(caught.value)
