"""The findings of a doctor about this machine."""

import pytest
import torch

from common.programs.findings import Finding, Verdict
from common.programs.machine import check_clock, check_device, check_folder, check_packages, check_python

DAY = 86_400


def test_this_machine_is_well(tmp_path):
    assert check_python().verdict is Verdict.OK
    assert check_packages().verdict is Verdict.OK
    assert check_folder("cache", tmp_path / "new", 1, "").verdict is Verdict.OK


def test_packages_that_are_missing_are_named():
    finding = check_packages(("torch", "no-such-package"))
    assert (finding.verdict, finding.fix) == (Verdict.FAIL, "install no-such-package with pip")


def test_a_clock_from_before_the_program_came_here_is_wrong():
    installed = 1_700_000_000.0
    assert check_clock(installed - DAY / 2, installed).verdict is Verdict.OK
    wrong = check_clock(installed - 2 * DAY, installed)
    assert (wrong.verdict, wrong.fix) == (Verdict.FAIL, "set this machine's clock")
    assert "2023-11-12" in wrong.detail
    assert "2023-11-14" in wrong.detail


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_a_cpu_computes(dtype):
    assert check_device("cpu", dtype).detail.startswith(f"cpu computes in {dtype}")


@pytest.mark.parametrize(
    ("built_for", "driver", "says", "fix"),
    [
        (None, None, "is built without CUDA", "install a torch that has CUDA"),
        ("13.0", None, "there is no NVIDIA driver", "install or fix the driver"),
        ("13.0", "/usr/bin/nvidia-smi", "no GPU answers the NVIDIA driver", "`nvidia-smi`"),
    ],
)
def test_a_gpu_that_is_absent_says_why(monkeypatch, built_for, driver, says, fix):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", built_for)
    monkeypatch.setattr("shutil.which", lambda _: driver)
    finding = check_device("cuda", "bfloat16")
    assert finding.verdict is Verdict.FAIL
    assert says in finding.detail
    assert fix in finding.fix


@pytest.mark.parametrize(("device", "dtype", "says"), [("abacus", "float32", "abacus"), ("cpu", "float9", "float9")])
def test_what_nobody_computes_on_or_in(device, dtype, says):
    finding = check_device(device, dtype)
    assert finding.verdict is Verdict.FAIL
    assert says in finding.fix


def test_a_device_that_fails_when_it_is_used(monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("no kernel image\nis available")

    monkeypatch.setattr(torch, "ones", fail)
    assert check_device("cpu", "float32").detail == "cpu does not compute in float32: no kernel image"


@pytest.fixture
def pretended_mps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Mac's GPU that computes on this processor, and no CUDA."""
    ones = torch.ones

    def on_cpu(size: tuple[int, int], *, device: torch.device, dtype: torch.dtype) -> torch.Tensor:
        if dtype is torch.float64:
            raise TypeError("Cannot convert a MPS Tensor to float64 dtype")
        return ones(size, dtype=dtype)

    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(torch, "ones", on_cpu)


def test_a_gpu_without_cuda_computes(pretended_mps):
    assert check_device("mps", "float16") == Finding("device", "mps computes in float16")
    unfit = check_device("mps", "float64")
    assert (unfit.verdict, unfit.fix) == (Verdict.FAIL, "choose another --device or --dtype")
    assert "mps does not compute in float64: Cannot convert" in unfit.detail


def test_a_disk_that_is_full(tmp_path):
    finding = check_folder("cache", tmp_path, 10**18, "take another")
    assert "1,000,000,000.0 GB are to come" in finding.detail
    assert finding.fix == "make room there, or take another"
