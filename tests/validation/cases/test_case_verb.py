"""`case` on the command line: keys, verdict, exit codes."""

from pathlib import Path

from cli_runner import run
from lockstep.check.validation.cases import names

CASE = (
    "name",
    "title",
    "model",
    "cluster",
    "configuration",
    "source",
    "stretches",
    "rows",
    "unknown",
    "assumptions",
    "ok",
)
ROW = ("quantity", "stretch", "published", "predicted", "error_frac", "source", "why")


def test_one_case_keeps_its_keys() -> None:
    session = run("case", "bloom-176b", "--json")
    assert (session.code, session.err) == (0, "")
    (found,) = session.json()["cases"]
    assert set(CASE) <= set(found)
    for row in found["rows"]:
        assert set(ROW) <= set(row)
        assert abs(row["predicted"] / row["published"] - 1 - row["error_frac"]) < 1e-12


def test_every_case_fits_on_one_line() -> None:
    session = run("case")
    assert session.code == 0
    for name in names():
        assert sum(line.split()[:1] == [name] for line in session.out.splitlines()) == 1


def test_the_terminal_shows_reasons_and_unknowns() -> None:
    out = run("case", "palm-540b").out
    for words in ("Why it misses", "Unknown", "Assumed", "Sources", "partly public"):
        assert words in out


def test_an_unknown_case_is_bad_input() -> None:
    session = run("case", "bloom")
    assert (session.code, session.out) == (2, "")
    assert session.err.startswith("error: CASE: unknown case 'bloom'")


def test_an_unexplained_miss_exits_with_1(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "title: t\nmodel: gpt2\ncluster: dgx-h100\ndevices: 8\nlayout: {dp: 8}\nsource: s\n"
        "stretches: [{seq: 1024, batch: 64}]\npublished: [{quantity: step_time_s, value: 99, source: s}]\n"
    )
    assert run("case", str(path), "--json").code == 1


def test_the_picture_is_the_same_each_time(tmp_path: Path) -> None:
    pictures = [tmp_path / name for name in ("one.svg", "two.svg")]
    for picture in pictures:
        assert run("case", "llama3-405b", "--json", "--plot", str(picture)).code == 0
    first, second = (picture.read_bytes() for picture in pictures)
    assert first == second
    assert first.lstrip().startswith(b"<?xml")
    refused = run("case", "llama3-405b", "--plot", "cases.txt")
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.startswith("error: --plot")
