"""`make fuzz`: a given number of malformed frames in this process, then over gRPC to a real server. Exits with 1 on a
failure."""

import argparse
import sys
import time
from pathlib import Path

from tests.fuzz.runner import FuzzError, Report, Runner, replay

_MOST_GROWTH = 16 << 20  # bytes of resident memory, from the end of the warm-up
_MOST_NEW_OBJECTS = 2000


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--frames", type=int, default=1_000_000, help="malformed ones, in this process")
    parser.add_argument("--wire", type=int, default=20_000, help="malformed ones, over gRPC to a real outriderd")
    parser.add_argument("--seed", default="0", help="what they follow from")
    parser.add_argument("--out", type=Path, default=Path("runs/fuzz"), help="where a failure is written down")
    parser.add_argument("--replay", type=Path, help="play the frames of a failure again")
    arguments = parser.parse_args()
    if arguments.replay:
        replay(arguments.replay)
        _say("nothing happened")
        return
    try:
        _fuzz(arguments.seed, arguments.frames, arguments.out)
        if arguments.wire:
            from tests.fuzz.wire import fuzz_over_grpc

            _say(fuzz_over_grpc(arguments.wire, arguments.seed))
    except FuzzError as failure:
        _say(f"failed: {failure}")
        sys.exit(1)


def _fuzz(seed: str, frames: int, out: Path) -> None:
    began = time.perf_counter()

    def progress(done: int) -> None:
        _say(f"{done} malformed frames, {time.perf_counter() - began:.0f} s")

    report = Runner(seed, out).run(frames, progress)
    _say(_table(report, time.perf_counter() - began))
    _check_memory(report)


def _check_memory(report: Report) -> None:
    assert report.before is not None
    assert report.after is not None
    grown = report.after.resident - report.before.resident
    more = report.after.objects - report.before.objects
    if grown > _MOST_GROWTH or more > _MOST_NEW_OBJECTS:
        raise FuzzError(f"memory grew by {grown / 1e6:.1f} MB and {more} objects")


def _table(report: Report, seconds: float) -> str:
    lines = [f"{report.mutated} malformed frames among {report.frames} in {seconds:.0f} s, none did harm"]
    for name, outcomes in report.outcomes.items():
        counts = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common())
        lines.append(f"  {name}: {counts}; slowest {report.slowest[name] * 1000:.1f} ms")
    lines.append(f"  {report.repeated} frames that took long were played again, alone")
    lines.append(f"  {report.answers} answers of honest clients beside them, each the target's own")
    if report.before is not None and report.after is not None:
        resident = [memory.resident / 1e6 for memory in (report.before, report.after)]
        objects = [memory.objects for memory in (report.before, report.after)]
        lines.append(f"  resident memory {resident[0]:.1f} MB after the warm-up, {resident[1]:.1f} MB at the end")
        lines.append(f"  Python objects {objects[0]} after the warm-up, {objects[1]} at the end")
    return "\n".join(lines)


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
