"""Files that are not read are refused by what they are; nothing that is read is taken for one of them."""

import json
import pickle
import struct
import zipfile

import pytest
from test_flight_recorder import entry
from test_logs import LINES
from test_snapshot import drawn

from lockstep.base.errors import BadInput
from lockstep.explain.read import recognise
from lockstep.explain.read.file import Head
from lockstep.explain.read.others import other

SAFE = json.dumps({"weight": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
SAMPLES = {
    "a memory timeline": b"[[1796092391935952, 1796092391935953], [[0, 0, 512], [0, 64, 512]]]",
    "a file of stacks": b"train.py(4):_<module>;torch/nn/modules/linear.py(130):_forward 12\n",
    "a table of torch.profiler": b"-" * 9 + b"  \n      Name    Self CPU %      # of Calls  \n",
    "a log of torch.compile": b'V1201 02:57:47.750000 28098 torch/_dynamo/utils.py:2350] {"dynamo_start": {}}\n',
    "a file of tensors (safetensors)": struct.pack("<Q", len(SAFE)) + SAFE + b"\0" * 4,
    "an event file of TensorBoard": struct.pack("<Q", 24) + b"\x01\x02\x03\x04\x09\0\0\0\0\0\0\xf0?\x1a\rbrain.Event:2",
    "a web page": b"\n<!DOCTYPE html>\n<html></html>",
}
READ = {
    **{name: text.encode() for name, (text, _) in LINES.items()},
    "trace": json.dumps({"traceEvents": [{"name": "train.py(4): forward;step 3"}]}).encode(),
    "events alone": b"[" + json.dumps({"ph": "X", "name": "gemm"}).encode() + b"]",
    "snapshot": pickle.dumps(drawn(3)[0]),
    "dump": pickle.dumps({"entries": [entry(1)]}),
    "operations": b"rank,step,op,start_s,duration_s\n0,0,a;b,0,1\n",
}


@pytest.mark.parametrize("what", SAMPLES)
def test_a_file_that_is_not_read_is_named(what, tmp_path):
    (path := tmp_path / "file").write_bytes(SAMPLES[what])
    with pytest.raises(BadInput, match="is a") as raised:
        recognise(path)
    assert raised.value.message.startswith(f"is {what}")


def test_an_archive_is_not_tensors(tmp_path):
    with zipfile.ZipFile(path := tmp_path / "file.zip", "w") as packed:
        packed.writestr("trace.json", "{}")
    with pytest.raises(BadInput, match="unpack it"):
        recognise(path)


@pytest.mark.parametrize("name", READ)
def test_files_that_are_read_are_not_taken_for_others(name):
    assert not other(Head("file", READ[name]))


def test_a_pickle_of_something_else_is_named(tmp_path):
    (path := tmp_path / "file").write_bytes(pickle.dumps([1, 2]))
    with pytest.raises(BadInput, match="is a pickle, and neither a memory snapshot nor"):
        recognise(path).read()
