"""The committed stubs equal those generated from the .proto."""

import sys
from pathlib import Path
from subprocess import run

ROOT = Path(__file__).resolve().parents[3]
FOLDER = Path("common/rpc/generated")
PROTO = FOLDER / "outrider" / "v1" / "outrider.proto"


def test_the_stubs_are_current(tmp_path: Path) -> None:
    outs = [f"--{kind}_out={tmp_path}" for kind in ("python", "pyi", "grpc_python")]
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{FOLDER}={ROOT / 'proto'}", *outs, str(PROTO)]
    run(command, check=True, cwd=tmp_path)
    made = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*.py*"))
    assert len(made) == 3
    for path in made:
        assert (ROOT / path).read_text() == (tmp_path / path).read_text(), f"run `make proto`: {path} is stale"
