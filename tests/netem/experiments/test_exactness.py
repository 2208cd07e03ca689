import gzip
import json
from collections import Counter

import pytest

from common.protocol.errors import MisuseError
from netem.experiments.exactness import make_report, read_prompts
from netem.experiments.references import NEAR_TIE, Reference, verdict

REFERENCE = Reference(prompt=(1,), answer=(5, 6, 7), gaps=(1.0, NEAR_TIE / 2, 1.0))


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        ((5, 6, 7), "identical"),
        ((5, 9, 9), "near-tie"),
        ((9, 6, 7), "different"),
        ((5, 6, 9), "different"),
        ((5, 6), "different"),
        ((5, 6, 7, 8), "different"),
    ],
)
def test_only_a_near_tie_excuses_a_difference(tokens, expected):
    assert verdict(REFERENCE, tokens) == expected


def test_prompts_alternate_between_both_sets(tmp_path):
    (tmp_path / "eval").mkdir()
    bench = [json.dumps({"turns": [f"bench {i}", "second"]}) for i in range(8)]
    (tmp_path / "eval" / "spec_bench_question.jsonl").write_text("\n".join(bench))
    with gzip.open(tmp_path / "eval" / "HumanEval.jsonl.gz", "wt") as stream:
        stream.write("\n".join(json.dumps({"prompt": f"code {i}"}) for i in range(8)))
    assert read_prompts(tmp_path, 4) == ["bench 0", "code 0", "bench 4", "code 1"]


@pytest.mark.parametrize("count", [200, 500])
def test_prompts_are_of_all_categories_alike(tmp_path, count):
    (tmp_path / "eval").mkdir()
    bench = [json.dumps({"turns": [f"bench {i // 80}"]}) for i in range(480)]
    (tmp_path / "eval" / "spec_bench_question.jsonl").write_text("\n".join(bench))
    with gzip.open(tmp_path / "eval" / "HumanEval.jsonl.gz", "wt") as stream:
        stream.writelines(json.dumps({"prompt": "code"}) + "\n" for _ in range(164))
    counted = Counter(read_prompts(tmp_path, count))
    assert counted.total() == count
    assert counted.pop("code") == min(164, count // 2)
    assert len(counted) == 6
    assert max(counted.values()) - min(counted.values()) <= 1


def test_missing_prompts_are_named(tmp_path):
    with pytest.raises(MisuseError, match=r"spec_bench_question\.jsonl cannot be read; --data names"):
        read_prompts(tmp_path, 4)


@pytest.mark.parametrize(
    ("bench", "code", "named"),
    [
        (b"no json", gzip.compress(b'{"prompt": "code"}'), "spec_bench_question.jsonl is broken"),
        (b'{"turns": []}', gzip.compress(b'{"prompt": "code"}'), "spec_bench_question.jsonl is broken"),
        (b'{"turns": ["bench"]}', gzip.compress(b'{"prompt": "code"}')[:-12], r"HumanEval.jsonl.gz is broken"),
        (b'{"turns": ["bench"]}', gzip.compress(b'{"text": "code"}'), r"HumanEval.jsonl.gz is broken"),
        (b'{"turns": ["bench"]}', b"no gzip", r"HumanEval.jsonl.gz is broken"),
        (b'{"turns": ["bench"]}', gzip.compress(b'{"prompt": 5}'), r"HumanEval.jsonl.gz is broken"),
    ],
)
def test_broken_prompts_are_named(tmp_path, bench, code, named):
    (tmp_path / "eval").mkdir()
    (tmp_path / "eval" / "spec_bench_question.jsonl").write_bytes(bench)
    (tmp_path / "eval" / "HumanEval.jsonl.gz").write_bytes(code)
    with pytest.raises(MisuseError, match=named):
        read_prompts(tmp_path, 4)


def test_only_differences_are_faults():
    counted = Counter(identical=3, tokens=8, passes=4)
    tally = {
        ("tiny", "eager"): counted + Counter({"near-tie": 1}),
        ("lookup", "patient"): counted + Counter(different=1),
    }
    report = make_report(tally, 4)
    assert report.rows[0] == ["tiny", "eager", "4", "3", "1", "0", "2.00"]
    (fault,) = report.faults
    assert fault.startswith("1 answers with lookup, patient differ")
