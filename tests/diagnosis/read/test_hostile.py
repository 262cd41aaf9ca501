"""Files that were made to mislead: each is refused with one message, located in the file, and quickly."""

import copy
import gzip
import json
import pickle
import sqlite3

import pytest
from test_damaged import DUMP, OPERATIONS, TRACE
from test_nsys import export
from test_snapshot import drawn

import lockstep
from lockstep.base.errors import BadInput

HEADING = "rank,step,op,start_s,duration_s"


def trace(event=None, **head):
    """A trace with one more kernel, and another head."""
    data = copy.deepcopy(TRACE) | head
    data["traceEvents"] += [data["traceEvents"][0] | event] if event else []
    return json.dumps(data)


def steps(*starts_us):
    """A trace whose annotated steps begin at these moments, one second long."""
    data = copy.deepcopy(TRACE)
    data["traceEvents"] = [one for one in data["traceEvents"] if one["cat"] == "kernel"] + [
        {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 1, "tid": 1, "ts": at, "dur": 1e6}
        for step, at in enumerate(starts_us)
    ]
    return json.dumps(data)


def head(**said):
    """A trace with another head of its run."""
    return trace(distributedInfo={"rank": 0, "world_size": 2} | said)


TRACES = {
    "device": (trace({"args": {"stream": 7, "device": 10**9}}), "ran on device 1000000000"),
    "rank below 0": (head(rank=-1), "rank is -1"),
    "rank between": (head(rank=0.5), "rank is 0.5"),
    "rank of no run": (head(rank=2), "its rank is 2, of a run with 2 ranks"),
    "no ranks": (head(world_size=0), "of a run with 0 ranks"),
    "steps backwards": (steps(3e6, 2e6, 1e6, 0), "do not follow one another"),
    "steps at once": (steps(0, 0, 0), "do not follow one another"),
    "steps years apart": (steps(0, 1e15), "too far apart"),
    "events years apart": (trace({"ts": -1e15}), "too far apart"),
    "no time passes": (json.dumps({"traceEvents": [TRACE["traceEvents"][0] | {"dur": 0}]}), "no time passes"),
    "two documents": (trace() + trace(), "goes on after its end, at byte"),
    "another traceEvents": (trace()[:-1] + ', "traceEvents": [3]}', "event 17 is not an object"),
    "kinds of event as list": (trace({"cat": ["kernel"]}), "event 17 is damaged"),
    "gzip and junk": (gzip.compress(trace().encode()) + b"junk", "cut off or damaged"),
    "a bomb": (gzip.compress(b'{"traceEvents":["' + b"a" * (80 << 20)), "larger than the 64 MiB allowed"),
}
TABLES = {
    "long field": (f"0,0,{'a' * 200_000},0,1", ":2", "larger than field limit"),
    "rank of no cluster": ("1e21,0,a,0,1", ":2", "rank is 1e+21"),
    "rank between": ("0.5,0,a,0,1", ":2", "rank is 0.5"),
    "step of no run": ("0,1e300,a,0,1", ":2", "step is 1e+300"),
    "times of no clock": ("0,0,a,1e308,1e308", ":2", "no seconds of a run"),
    "no name": ("0,0,,0,1", ":2", "op is empty"),
    "no time passes": ("0,0,a,0,0\n1,0,a,0,0", "", "no time passes"),
}
EXPORTS = {
    "endless names": (
        "DROP TABLE StringIds; CREATE VIEW StringIds AS WITH RECURSIVE c(id, value) AS "
        "(SELECT 1, 'a' UNION ALL SELECT id + 1, value FROM c) SELECT * FROM c", "without kernels",
    ),
    "all of time": (
        "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = -9223372036854775808, end = 9223372036854775807 "
        "WHERE rowid = 1", "too far apart",
    ),
    "time as a real": ("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = 1e300 WHERE rowid = 1", "too far apart"),
    "a moment as text": ("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 'soon' WHERE rowid = 1", "soon"),
}  # fmt: skip


def refused(path, data, where=""):
    """The message; its place is the file's."""
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    with pytest.raises(BadInput) as raised:
        lockstep.diagnose([path])
    assert raised.value.where == f"{path}{where}"
    assert str(path) not in raised.value.message
    return raised.value.message


@pytest.mark.parametrize("name", TRACES)
def test_hostile_traces_are_refused_quickly(name, tmp_path):
    """Numbers that no run has, steps that time does not have, documents that go on."""
    data, why = TRACES[name]
    assert why in refused(tmp_path / "trace", data)


@pytest.mark.parametrize("name", TABLES)
def test_hostile_operation_tables_are_refused_at_their_line(name, tmp_path):
    """With the line, where one is at fault."""
    rows, where, why = TABLES[name]
    assert why in refused(tmp_path / "table", f"{HEADING}\n{rows}\n", where)


@pytest.mark.parametrize("name", EXPORTS)
def test_hostile_nsys_exports_are_refused_quickly(name, tmp_path):
    """Of Nsight Systems, with views that never end and numbers that no clock shows."""
    statements, why = EXPORTS[name]
    path = export(tmp_path / "export")
    base = sqlite3.connect(path)
    base.executescript(statements)
    base.close()
    assert why in refused(path, path.read_bytes())


def test_non_text_names_in_an_nsys_export_are_accepted(tmp_path):
    """Are as good as any others."""
    path = export(tmp_path / "export")
    base = sqlite3.connect(path)
    base.executescript("UPDATE StringIds SET value = NULL; UPDATE NVTX_EVENTS SET text = x'ff00'")
    base.close()
    assert lockstep.diagnose([path]).measured_s > 0


@pytest.mark.parametrize(("size", "why"), [(-(10**12), "an event of -1000000000000 bytes"), (10**400, "OverflowError")])
def test_hostile_snapshot_sizes_are_refused(size, why, tmp_path):
    """That no memory has."""
    data = copy.deepcopy(drawn(3)[0])
    data["device_traces"][0][0]["size"] = size
    assert why in refused(tmp_path / "snapshot", pickle.dumps(data))


@pytest.mark.parametrize(
    ("name", "said", "why"),
    [
        ("dump_3", {"rank": -4}, "states rank -4"),
        ("dump_" + "9" * 30, {}, "states rank 999"),
        ("dump", {}, "does not state its rank"),
    ],
)
def test_hostile_ranks_of_flight_recorder_dumps_are_refused(name, said, why, tmp_path):
    """Of a flight recorder: in the file, else in its name."""
    assert why in refused(tmp_path / name, json.dumps(DUMP | said))


def test_a_log_without_elapsed_time_is_refused(tmp_path):
    """Says nothing of its steps."""
    line = (
        " iteration {i}/ 100 | consumed samples: {i} | elapsed time per iteration (ms): 0.0 | global batch size: 8 |\n"
    )
    assert "takes no time" in refused(tmp_path / "log", "".join(line.format(i=i) for i in range(9)))


def test_inconsistent_files_are_refused_together(tmp_path):
    """A rank in two files, of one kind or of two, and a file that a folder has again."""
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text(trace())
    two.write_text(trace({"ts": 5.0}))
    with pytest.raises(BadInput, match=r"is of rank 0, as .*one is; give one file per rank"):
        lockstep.diagnose([one, two])
    two.write_text(OPERATIONS)
    with pytest.raises(BadInput, match="give one file per rank"):
        lockstep.diagnose([one, two])
    with pytest.raises(BadInput, match="is passed twice"):
        lockstep.diagnose([tmp_path, one])
