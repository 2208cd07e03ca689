"""Judging an answer: its code by tests, in a separate process with limits, or its words by a known result.

What may live here: finding the code in an answer and judging it. It may not know how tests or answers were made. The
separate process and its limits guard against endless loops, excessive memory and crashes, not against malicious code.
The process sets its limits itself, because code between fork and exec is unsafe beside torch's threads.
"""

from __future__ import annotations

import ast
import math
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence

FENCE = re.compile(r"```(?:python)?\n(.*?)(?:\n```|\Z)", re.DOTALL)
TIME_LIMIT_SECONDS = 5.0
MEMORY_LIMIT_BYTES = 512 * 2**20

ALL_HELD = 86
"""How the process ends where all tests held. An answer that ends it before them ends it otherwise."""

LIMITED_RUN = f"""\
import resource, sys
program, memory, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
exec(compile(program, "answer", "exec"), {{"__name__": "__main__"}})
sys.exit({ALL_HELD})
"""


def code_of(answer: str) -> str:
    """The first fenced block of an answer, or the whole answer where there is none."""
    found = FENCE.search(answer)
    return found.group(1) if found else answer


def function_name(code: str) -> str | None:
    """The name of the last function at the top level of `code`; None where it has none or does not parse."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError):
        return None
    names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    return names[-1] if names else None


def passes(answer: str, tests: Sequence[str], time_limit: float = TIME_LIMIT_SECONDS) -> bool:
    """True if the answer's last function satisfies every `assert candidate(...) == ...` within `time_limit` s.

    The process may use that much processor time, rounded up to whole seconds, and `MEMORY_LIMIT_BYTES`.
    """
    code = code_of(answer)
    name = function_name(code)
    if name is None:
        return False
    program = "\n".join([code, f"candidate = {name}", *tests])
    limits = (str(MEMORY_LIMIT_BYTES), str(math.ceil(time_limit)))
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = subprocess.run(
                [sys.executable, "-I", "-S", "-c", LIMITED_RUN, program, *limits],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=time_limit,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return False
    return done.returncode == ALL_HELD


def ends_in_number(answer: str, result: Sequence[str], wrong: Sequence[str] = ()) -> bool:
    """True if the last number of the answer is the one number of `result`."""
    return re.findall(r"\d+", answer)[-1:] == list(result)


def concludes(answer: str, result: Sequence[str], wrong: Sequence[str] = ()) -> bool:
    """True if the last sentence holds every part of `result` as whole words, no part of `wrong`, no other number
    where the result has numbers, and a denial only where the result is one."""
    last = re.split(r"(?<=[.!?])\s+|\n+", answer.strip())[-1]
    expected = " ".join(result)
    numbers = set(re.findall(r"\d+", expected))
    return (
        all(has_words(last, part) for part in result)
        and not any(has_words(last, part) for part in wrong)
        and (not numbers or set(re.findall(r"\d+", last)) == numbers)
        and has_words(last, "not") == has_words(expected, "not")
    )


def has_words(text: str, part: str) -> bool:
    """Whether the text holds `part` as whole words; a sentence may begin with it."""
    return re.search(rf"(?<!\w){re.escape(part)}(?!\w)", text, re.IGNORECASE) is not None


def ends_in_text(answer: str, result: Sequence[str], wrong: Sequence[str] = ()) -> bool:
    """True if the one text of `result` is the whole answer or its end after an empty line."""
    return f"\n\n{answer.rstrip()}".endswith(f"\n\n{result[0]}")


# How the result of each category is found in an answer; categories without a result are not named.
RESULT_CHECKS: dict[str, Callable[[str, Sequence[str], Sequence[str]], bool]] = {
    "math": ends_in_number,
    "reading": concludes,
    "rewriting": ends_in_text,
}
