"""The checks of `doctor` that concern the local machine: Python, packages, clock, device, folders.

Each check returns a finding and raises nothing. It may not know servers, targets or drafts.
"""

import importlib.metadata
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from common.counted import counted, format_bytes
from common.programs.findings import Finding

_OLDEST_PYTHON = (3, 11)
PACKAGES = ("grpcio", "numpy", "protobuf", "rich", "safetensors", "tokenizers", "torch", "transformers", "typer")
_PROGRAM = "outrider"
_DAY = 86_400


def check_python() -> Finding:
    wanted = ".".join(map(str, _OLDEST_PYTHON))
    fix = "" if sys.version_info >= _OLDEST_PYTHON else f"install Python {wanted} or newer"
    return Finding("python", platform.python_version(), fix)


def check_packages(names: Sequence[str] = PACKAGES) -> Finding:
    versions, missing = [], []
    for name in (_PROGRAM, *names):
        try:
            versions.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            missing.append(name)
    return Finding("packages", ", ".join(versions), f"install {', '.join(missing)} with pip" if missing else "")


def check_clock(now: float, installed: float | None = None) -> Finding:
    """Whether the clock can be right: with a wrong one, certificates seem invalid. `now` and `installed`, by default
    the modification time of this file, in seconds since 1970."""
    begun = Path(__file__).stat().st_mtime if installed is None else installed
    today = time.strftime("%Y-%m-%d %H:%M", time.gmtime(now))
    if now >= begun - _DAY:
        return Finding("clock", f"{today} UTC")
    came = time.strftime("%Y-%m-%d", time.gmtime(begun))
    return Finding("clock", f"it says {today} UTC, but this program came here on {came}", "set this machine's clock")


def check_device(device: str, dtype: str) -> Finding:
    """Whether this device computes in this dtype, and how much memory it has."""
    import torch

    from common.models.errors import CheckpointError
    from common.models.placement import parse_device, parse_dtype

    if device.startswith("cuda") and not torch.cuda.is_available():
        return Finding("device", f"{device} cannot be used: {_why_no_cuda()}", _fix_for_cuda())
    try:
        chosen, number = parse_device(device), parse_dtype(dtype)
    except CheckpointError as error:
        return Finding("device", f"{device} in {dtype} cannot be used", str(error).rstrip("."))
    try:
        square = torch.ones((8, 8), device=chosen, dtype=number)
        (square @ square).sum().item()
    except (RuntimeError, TypeError) as error:  # TypeError: mps has no float64
        reason = str(error).splitlines()[0]
        return Finding(
            "device", f"{device} does not compute in {dtype}: {reason}", "choose another --device or --dtype"
        )
    if chosen.type == "cpu":
        return Finding("device", f"cpu computes in {dtype}, {counted(torch.get_num_threads(), 'thread')}")
    if chosen.type != "cuda":  # mps, whose memory is the processor's
        return Finding("device", f"{device} computes in {dtype}")
    free, total = torch.cuda.mem_get_info(chosen)
    name = f"{torch.cuda.get_device_name(chosen)}, {format_bytes(free)} of {format_bytes(total)} free"
    if number is torch.bfloat16 and not torch.cuda.is_bf16_supported(including_emulation=False):
        return Finding("device", f"{name}; it only emulates bfloat16", "use --dtype float16", is_minor=True)
    return Finding("device", f"{name}, computes in {dtype}")


def check_folder(subject: str, directory: Path, wanted: int, fix: str) -> Finding:
    """Whether `directory` can be written and has room for `wanted` more bytes; `fix` is the remedy beside making
    room."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
        free = shutil.disk_usage(directory).free
    except OSError as error:
        return Finding(subject, f"{directory} cannot be written ({error.strerror})", fix)
    detail = f"{directory} has {format_bytes(free)} free"
    if free < wanted:
        return Finding(subject, f"{detail}, but {format_bytes(wanted)} are to come", f"make room there, or {fix}")
    return Finding(subject, detail)


def _why_no_cuda() -> str:
    import torch

    if torch.version.cuda is None:
        return "the torch that is installed is built without CUDA"
    if shutil.which("nvidia-smi") is None:
        return "there is no NVIDIA driver on this machine"
    return "no GPU answers the NVIDIA driver"


def _fix_for_cuda() -> str:
    import torch

    if torch.version.cuda is None:
        return "install a torch that has CUDA (see pytorch.org), or use --device cpu"
    return "run `nvidia-smi` and install or fix the driver, or use --device cpu"
