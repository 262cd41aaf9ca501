"""The fit's derivatives: one pass over many curves is as good as a pass over each."""

from dataclasses import replace

import numpy as np
import pytest

from lockstep.hardware import efficiency
from lockstep.validation import llm_foundry, nemo, vtrain
from lockstep.validation.fit import HIGHEST, LOWEST, NAMES, START, calibration, fit, log_errors, main


@pytest.mark.parametrize("device", list(START))
def test_a_pass_over_many_curves_is_that_of_each(device: str) -> None:
    curve = efficiency(device)
    constants = np.array([getattr(curve, name) for name in NAMES])
    moved = constants[:, None] * (1.0 + 0.1 * np.eye(len(NAMES)))
    for cases in calibration(device).values():
        together = log_errors(cases[:2], replace(curve, **dict(zip(NAMES, moved, strict=True))))
        for column, values in zip(together.T, moved.T, strict=True):
            alone = log_errors(cases[:2], replace(curve, **dict(zip(NAMES, values.tolist(), strict=True))))
            np.testing.assert_allclose(column, alone, rtol=1e-12, atol=1e-12)


def test_every_table_of_a_fit_has_rows() -> None:
    for device in START:
        assert all(len(cases) > 0 for cases in calibration(device).values())


def test_every_second_row_of_vtrain_is_kept_for_judging() -> None:
    groups = calibration("a100")
    for table in (vtrain.SINGLE, vtrain.MULTI):
        every = [case.row for case in table.cases()]
        fitted = [case.row for case in groups[table.name]]
        kept = [row for row in every if row not in fitted]
        assert len(kept) <= len(fitted) <= len(kept) + 1
        assert [row for pair in zip(fitted, kept, strict=False) for row in pair] == every[: 2 * len(kept)]


def test_a_curve_is_fitted_to_rows_of_its_own_device_alone() -> None:
    for device in START:
        for cases in calibration(device).values():
            assert all(device in case.cluster.device.name for case in cases)
    fitted = {case.row for device in ("h100", "b200") for case in calibration(device)["nvidia_nemo"]}
    assert fitted == {case.row for case in nemo.cases()}


def test_the_curve_of_the_catalog_is_what_the_fit_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of B200 to the rows that there were: those on 64 devices of each rack of 72 came later."""
    before = tuple(case for case in nemo.cases() if case.job.devices != 256)
    monkeypatch.setattr(nemo, "cases", lambda: before)
    assert len(calibration("b200")["nvidia_nemo"]) == 15
    found, known = fit("b200"), efficiency("b200")
    assert {name: getattr(found, name) for name in NAMES} == {name: getattr(known, name) for name in NAMES}


@pytest.mark.parametrize("device", list(START))
def test_a_fit_begins_inside_its_bounds_and_its_curve_stays_there(device: str) -> None:
    curve = efficiency(device)
    for name, start, low, high in zip(NAMES, START[device], LOWEST, HIGHEST, strict=True):
        assert low < start < high
        assert low <= getattr(curve, name) <= high


def test_a_table_that_is_left_out_changes_nothing_that_is_said_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    """Rows, median and mean are of every table, fitted or not."""
    rows = {name: len(cases) for name, cases in calibration("b200").items()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["fit", "b200", "--leave-out", "vtrain"])
        main()
    title, *lines = capsys.readouterr().out.splitlines()
    assert title == "[b200.vtrain]"
    found = fit("b200")
    assert lines[: len(NAMES)] == [f"{name} = {getattr(found, name):g}" for name in NAMES]
    errors = np.expm1(log_errors(calibration("b200")["nvidia_nemo"], found))
    middle, mean = np.median(abs(errors)), errors.mean()
    assert lines[len(NAMES) :] == [
        f"# {'nvidia_nemo':20} {rows['nvidia_nemo']:4d} rows, median |error| {middle:.3f}, mean {mean:+.3f}"
    ]


ENDS = {
    "matmul_max_frac": (0.40, 0.95),
    "matmul_bytes_factor": (0.0, 3.0),
    "stream_frac": (0.70, 0.95),
    "attention_forward_frac": (0.15, 0.80),
    "attention_backward_frac": (0.10, 0.70),
    "launch_s": (2e-6, 50e-6),
    "recompute_host_s": (1e-5, 5e-3),
    "step_s": (1e-3, 0.1),
}
"""Between these a device is one that somebody has seen."""


@pytest.mark.parametrize(("factor", "worse"), [(30.0, True), (1 / 30, False)])
def test_times_that_no_device_takes_drive_every_constant_to_its_end(
    factor: float, worse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slow ones lower the shares of a rate and lengthen times, fast ones the other way round.

    What the host does hides behind kernels once it is short enough, so that nothing asks for less.
    """
    flash = [case for case in llm_foundry.cases() if "a100" in case.row][:8]
    known = [*vtrain.SINGLE.cases()[:8], *flash]
    changed = tuple(replace(case, measured=case.measured * factor) for case in known)
    monkeypatch.setattr("lockstep.validation.fit.calibration", lambda device: {"changed": changed})
    found = fit("a100")
    for name, (low, high) in ENDS.items():
        slow, fast = (low, high) if name.endswith("_frac") else (high, low)
        end = slow if worse else fast
        if name in ("launch_s", "recompute_host_s") and not worse:
            assert end <= getattr(found, name) < dict(zip(NAMES, START["a100"], strict=True))[name] / 2
        else:
            assert getattr(found, name) == pytest.approx(end, rel=0.08, abs=0.05 if end == 0 else 0), name
