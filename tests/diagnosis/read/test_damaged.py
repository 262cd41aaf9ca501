"""Files of every kind, damaged at random: read, or refused with one message located in the file."""

import gzip
import json
import pickle
import random

import pytest
from test_flight_recorder import entry
from test_logs import LINES
from test_nsys import export
from test_snapshot import drawn

import lockstep
from lockstep.base.documents.files import InMemory
from lockstep.base.errors import BadInput, LockstepError
from lockstep.explain.read import Known, recognise

INSERTED = (b"nan", b"-1", b"1e999", b"\0", b"[", b"}", b'"', b"9" * 30, b"null")
TRACE = {
    "distributedInfo": {"rank": 0, "world_size": 2}, "baseTimeNanoseconds": 10**18,
    "traceEvents": [
        {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": 1e6 * step + 10.0 * place, "dur": 9.0,
         "args": {"stream": 7, "correlation": 10 * step + place, "device": 0}}
        for step in range(4) for place, name in enumerate(("gemm", "ncclDevKernel_AllReduce_Sum_f32", "add"))
    ] + [
        {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 1, "tid": 1, "ts": 1e6 * step,
         "dur": 1e6} for step in range(4)
    ],
}  # fmt: skip
OPERATIONS = "rank,step,op,start_s,duration_s\n" + "".join(
    f"{rank},{step},{op},{step + at},0.2\n"
    for step in range(3)
    for rank in (0, 1)
    for at, op in ((0.0, "forward"), (0.3, "all-reduce"))
)
DUMP = {"pg_config": {"0": {"name": "0", "ranks": "[0, 1]"}}, "entries": [entry(1), entry(2, state="started")]}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The bytes of an undamaged file of each kind."""
    nsys = export(tmp_path_factory.mktemp("whole") / "nsys")
    logs = {f"log of {name}": text.encode() for name, (text, _) in LINES.items()}
    return logs | {
        "trace": json.dumps(TRACE).encode(),
        "snapshot": pickle.dumps(drawn(3)[0]),
        "dump": pickle.dumps(DUMP),
        "dump as JSON": json.dumps(DUMP).encode(),
        "operations": OPERATIONS.encode(),
        "nsys": nsys.read_bytes(),
    }


def damaged(data, chance):
    """Bytes changed, cut, left out or put in."""
    found = data
    for _ in range(chance.choice([1, 1, 2, 5, 30])):
        how, place = chance.random(), chance.randrange(len(found) + 1)
        if how < 0.4:
            found = found[:place] + bytes([chance.randrange(256)]) + found[place + 1 :]
        elif how < 0.6:
            found = found[:place]
        elif how < 0.8:
            found = found[:place] + found[place + chance.randrange(1, 20) :]
        else:
            found = found[:place] + chance.choice(INSERTED) + found[place:]
    return found


def test_undamaged_files_are_read(whole, tmp_path):
    """All of them."""
    for data in whole.values():
        (tmp_path / "run_3").write_bytes(data)
        assert lockstep.diagnose([tmp_path / "run_3"]).to_dict()


@pytest.mark.parametrize("packed", [False, True])
def test_files_in_memory_read_like_files_on_disk(whole, packed, tmp_path):
    """Read once, they are given to the verb as they are; an SQLite file is not unpacked on disk."""
    for name, data in whole.items():
        path, bytes_ = tmp_path / "run_3", gzip.compress(data) if packed and name != "nsys" else data
        path.write_bytes(bytes_)
        file = recognise(InMemory(str(path), bytes_))
        assert lockstep.diagnose([path]).to_dict() == lockstep.diagnose([file]).to_dict(), name
        read = Known(InMemory(str(path)), file.kind, file.read())
        assert lockstep.diagnose([path]).to_dict() == lockstep.diagnose([read]).to_dict(), name
        with pytest.raises(BadInput, match="twice"):
            lockstep.diagnose([read, read])


@pytest.mark.parametrize("seed", range(12))
def test_damage_is_refused_at_its_place_or_harmless(seed, whole, tmp_path):
    """Or does no harm; nothing else escapes, and every message begins with the file."""
    chance, path, refused = random.Random(seed), tmp_path / "run_3", []
    for _ in range(40):
        name = chance.choice(sorted(whole))
        data = damaged(whole[name], chance)
        path.write_bytes(gzip.compress(data) if chance.random() < 0.2 else data)
        try:
            lockstep.diagnose([path]).to_dict()
        except LockstepError as error:
            refused.append((name, error.where, str(error)))
    assert len(refused) > 5
    assert [one for one in refused if not str(one[1]).startswith(str(path))] == []
