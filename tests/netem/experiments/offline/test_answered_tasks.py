import gzip
from dataclasses import replace

import pytest

from common.protocol.errors import MisuseError
from netem.experiments.offline.answered_tasks import before_stops, find_tasks, long_answers
from netem.experiments.one_device.compared_drafts import find_model_paths
from netem.experiments.tasks.tasks import prompt_tokens
from tests.netem.experiments.one_device.folder import write_prompts
from tests.netem.experiments.tasks.problems import LINES


def test_tasks_are_the_held_out_instances_that_have_tests(request_for, bench):
    request = request_for()
    tasks = find_tasks(request, find_model_paths(request), bench)
    assert [task.prompt for task in tasks] == ["write 0", "write 1", "write 2"]


def test_a_folder_without_tests_is_misuse(request_for, bench, tmp_path):
    write_prompts(tmp_path / "prompts.jsonl", each=1)
    paths = replace(find_model_paths(request_for()), prompts=tmp_path / "prompts.jsonl")
    with pytest.raises(MisuseError, match="no prompt with tests"):
        find_tasks(request_for(), paths, bench)


def test_humaneval_is_read_from_the_folder_of_public_data(request_for, bench, tmp_path):
    (tmp_path / "eval").mkdir()
    with gzip.open(tmp_path / "eval" / "HumanEval.jsonl.gz", "wt", encoding="utf-8") as file:
        file.write("\n".join(LINES))
    request = request_for(data=tmp_path)
    tasks = find_tasks(request, find_model_paths(request), bench)
    assert [task.name for task in tasks] == ["Own/0", "Own/1"]
    assert all(task.raw == (bench.tokenizer.chat_template is None) for task in tasks)


def test_answers_that_are_too_short_are_passed_over(request_for, bench):
    tasks = find_tasks(request_for(), find_model_paths(request_for()), bench)
    lengths = [len(bench.plain(prompt_tokens(bench.tokenizer, task), 8).rounds.tokens) for task in tasks]
    least = max(lengths)
    answered = list(long_answers(bench, tasks, 2, least, 8))
    expected = [task.name for task, length in zip(tasks, lengths, strict=True) if length >= least][:2]
    assert [each.task.name for each in answered] == expected
    assert all(len(each.own) >= least for each in answered)
    assert list(long_answers(bench, tasks, 2, 9, 8)) == []


def test_an_answer_ends_before_its_first_stop_string(bench):
    tokens = tuple(bench.tokenizer.encode("one two three four", add_special_tokens=False))
    text = bench.text(tokens)
    stop = text[len(text) // 2 :][:3]
    kept = before_stops(bench, tokens, (stop,))
    assert bench.text(kept).startswith(text[: text.index(stop)])
    assert len(kept) < len(tokens)
    assert not bench.text(kept[:-1]).startswith(text[: text.index(stop)])
    assert before_stops(bench, tokens, ("absent",)) == tokens == before_stops(bench, tokens, ())
