"""Two small problems in HumanEval's format, of our own."""

import json
from pathlib import Path

TRIPLE = {
    "task_id": "Own/0",
    "prompt": 'from typing import List\n\n\ndef triple(numbers: List[int]) -> List[int]:\n    """ Three times. """\n',
    "entry_point": "triple",
    "canonical_solution": "    return [3 * each for each in numbers]\n",
    "test": "\n\nMETADATA = {}\n\n\ndef check(candidate):\n    assert candidate([1, 2]) == [3, 6]\n",
}
BACK = {
    "task_id": "Own/1",
    "prompt": 'def there(text):\n    return text[1:] + text[:1]\ndef back(text):\n    """ Undo it. """\n',
    "entry_point": "back",
    "canonical_solution": "    return text[-1:] + text[:-1]\n",
    "test": "def check(candidate):\n    assert candidate(there('abc')) == 'abc'\n",
}
LINES = [json.dumps(TRIPLE), json.dumps(BACK)]


def written(folder: Path, lines: list[str]) -> Path:
    file = folder / "problems.jsonl"
    file.write_text("\n".join(lines), encoding="utf-8")
    return file
