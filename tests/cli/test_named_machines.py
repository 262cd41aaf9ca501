"""Clusters named by a device, and racks used in part: what answers say about them."""

from cli_runner import run


def test_separate_machines_of_one_device_differ_from_one_machine_with_several() -> None:
    """A number of devices says neither; the answers differ by what joins them."""
    words = ("--batch", "64", "--zero", "1", "--json")
    many = run("estimate", "gpt2", "-c", "workstation-4090", "--gpus", "4", *words).json()
    one = run("estimate", "gpt2", "-c", "rtx-4090:4", *words).json()
    assert one == run("estimate", "gpt2", "-c", "rtx-4090", "--gpus", "4", *words).json()
    assert "4 machines of one rtx-4090 each, joined by ethernet-10" in " ".join(many["assumptions"])
    assert "one machine of 4 rtx-4090, joined by pcie4" in " ".join(one["assumptions"])
    assert one["step_time_s"] < many["step_time_s"]


def test_a_partly_used_rack_is_stated_in_the_assumptions() -> None:
    answer = run(
        "estimate", "llama3-8b", "-c", "gb200-nvl72", "--gpus", "512", "--batch", "512", "--zero", "1", "--json"
    )
    assert any("64 of the 72 devices of each rack" in said for said in answer.json()["assumptions"])
    found = run("collective", "all-reduce", "--ranks", "512", "--size", "1GB", "-c", "gb200-nvl72:8", "--json")
    assert found.code == 0
