"""Dumps of the flight recorder: who never came, who called something else, and what all ended is no hang."""

import json
import pickle

import pytest

from lockstep.base.errors import BadInput
from lockstep.explain.read import find
from lockstep.explain.read.flight_recorder import hangs


def entry(number, op="all_reduce", size=1024, state="completed", group="0"):
    """One collective as PyTorch dumps it."""
    title = "undefined" if int(group) else "default_pg"
    return {
        "process_group": (group, title), "collective_seq_id": number, "profiling_name": f"nccl:{op}",
        "input_sizes": [[size]], "input_dtypes": ["Float"], "state": state, "is_p2p": False,
        "frames": [{"filename": "/x/torch/distributed/c10d.py", "line": 1, "name": "all_reduce"},
                   {"filename": "train.py", "line": 42, "name": "step"}],
    }  # fmt: skip


def dump(tmp_path, rank, entries, packed=pickle.dumps):
    """A file of one rank of four."""
    data = {"version": "2.4", "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}},
            "entries": entries}  # fmt: skip
    path = tmp_path / f"trace_{rank}"
    path.write_bytes(packed(data) if packed is pickle.dumps else packed(data).encode())
    return path


@pytest.mark.parametrize("packed", [pickle.dumps, json.dumps], ids=["pickle", "json"])
def test_the_missing_rank_is_named(packed, tmp_path):
    """And those that wait for it, the call, and the ranks without a dump."""
    for rank in (0, 1, 2):
        last = [] if rank == 1 else [entry(3, size=77, state="started")]
        dump(tmp_path, rank, [entry(1), entry(2), *last], packed)
    known = find([tmp_path])
    assert {one.kind.name for one in known} == {"flight-recorder"}
    (found,) = hangs([one.read() for one in known])
    assert (found.number, found.op, found.sizes) == (3, "all_reduce", ((77,),))
    assert (found.missing, found.waiting, found.mismatched, found.unseen) == ((1,), (0, 2), (), (3,))
    assert found.frame == "train.py:42 step"


@pytest.mark.parametrize(
    ("other", "mismatched"),
    [
        (entry(2, op="all_gather", state="started"), (2,)),
        (entry(2, size=512, state="started"), (2,)),
    ],
)
def test_a_rank_that_called_another_collective_is_named(other, mismatched, tmp_path):
    """Another operation, or other sizes of one that needs equal ones."""
    paths = [dump(tmp_path, rank, [entry(1), entry(2, state="started")]) for rank in (0, 1, 3)]
    paths.append(dump(tmp_path, 2, [entry(1), other]))
    (found,) = hangs([one.read() for one in find(paths)])
    assert (found.number, found.mismatched, found.missing) == (2, mismatched, ())


def test_uneven_gathers_are_not_a_mismatch(tmp_path):
    """Ranks may give different sizes to them."""
    paths = [dump(tmp_path, rank, [entry(1, op="all_gather", size=100 + rank)]) for rank in range(4)]
    assert hangs([one.read() for one in find(paths)]) == []


def test_partly_overwritten_ring_buffers_are_compared_where_they_overlap(tmp_path):
    """Rank 1 has forgotten the first collectives, which says nothing."""
    paths = [dump(tmp_path, 0, [entry(one) for one in range(1, 9)])]
    paths += [dump(tmp_path, rank, [entry(one) for one in range(5, 9)]) for rank in (1, 2, 3)]
    assert hangs([one.read() for one in find(paths)]) == []


def test_two_dumps_of_one_rank_are_refused(tmp_path):
    """The second one is named."""
    (tmp_path / "again").mkdir()
    paths = [dump(folder, 0, [entry(1)]) for folder in (tmp_path, tmp_path / "again")]
    with pytest.raises(BadInput, match="is of rank 0, and so is"):
        hangs([one.read() for one in find(paths)])


def test_distant_sequence_numbers_take_no_extra_time(tmp_path):
    """A hostile sequence number is not counted up to."""
    paths = [dump(tmp_path, rank, [entry(1), entry(10**15, state="started")]) for rank in (0, 1)]
    (found,) = hangs([one.read() for one in find(paths)])
    assert found.number == 10**15


def gloo(folder, rank, entries, status):
    """A file of one rank over gloo, which lists no ranks of groups and numbers its own groups."""
    data = {"version": "2.10", "pg_config": {"": {"name": "", "desc": "", "ranks": "[]"}},
            "pg_status": {str(one): {} for one in range(status)}, "entries": entries}  # fmt: skip
    (path := folder / f"rank_{rank}").write_bytes(pickle.dumps(data))
    return path


def test_numbers_of_a_ranks_own_groups_are_not_their_names(tmp_path):
    """The second group of rank 2 is the third of the others, to whose second one it does not belong."""
    paths = [gloo(tmp_path, rank, [entry(1), entry(1, group="1"), entry(1, group="2")], 3) for rank in (0, 1)]
    paths.append(gloo(tmp_path, 2, [entry(1), entry(1, group="2")], 2))
    assert hangs([one.read() for one in find(paths)]) == []


@pytest.mark.parametrize("calls", [[], None], ids=["none", "left out"])
def test_a_rank_that_called_nothing_is_missing(calls, tmp_path):
    """Of the default group, where it is not known which ranks belong to it; the dump is recognised without a call."""
    paths = [gloo(tmp_path, rank, [entry(1, state="started")], 1) for rank in (0, 2)]
    paths.append(gloo(tmp_path, 1, calls, 0))
    if calls is None:
        paths[-1].write_bytes(pickle.dumps({"version": "2.10", "pg_config": {}, "pg_status": {}}))
    (found,) = hangs([one.read() for one in find(paths)])
    assert (found.missing, found.waiting) == ((1,), (0, 2))
