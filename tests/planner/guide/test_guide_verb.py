"""`guide` on the command line: keys, tables, exit codes."""

from cli_runner import LLAMA, run

KEYS = ("verdict", "feasible", "layout", "step_time_s", "slower_frac", "optimum", "rules", "differences", "assumptions")
RULE = ("rule", "question", "answer", "because", "numbers", "source", "layout")


def test_the_answer_keeps_its_keys() -> None:
    session = run("guide", *LLAMA, "--json")
    assert (session.code, session.err) == (0, "")
    answer = session.json()
    assert set(KEYS) <= set(answer)
    for rule in answer["rules"]:
        assert set(RULE) <= set(rule)
    for each in answer["differences"]:
        assert {"word", "rules", "optimum", "step_time_s", "saved_frac"} <= set(each)


def test_the_terminal_shows_every_rule() -> None:
    out = run("guide", *LLAMA).out
    for words in (
        "Does the model fit in one device?",
        "Shard, or pipeline?",
        "Is the step bound by the network?",
        "Layouts",
        "planner",
    ):
        assert words in out


def test_no_layout_exits_with_1() -> None:
    session = run("guide", "llama3-405b", "--cluster", "dgx-h100", "--batch", "8", "--json")
    assert session.code == 1
    assert session.json()["feasible"] is False
    assert session.json()["optimum"] is None


def test_bad_input_names_its_flag() -> None:
    session = run("guide", "llama3-8b", "--cluster", "dgx-h100", "--batch", "many")
    assert (session.code, session.out) == (2, "")
    assert session.err.startswith("error: --batch")
