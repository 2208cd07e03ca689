"""Targets for apps: the demo's with a chat template that shows tools, and a small one that has learnt by heart what an
agent needs to hear to edit one file, because the demo target cannot call tools by itself.

Knows checkpoints and the syntax of answers. It may not know apps, servers or links.
"""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from common.protocol.errors import OutriderError

_TEMPLATE = "chat_template.jinja"
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json")

_CALL = "<tool_call>\n{call}\n</tool_call>"
"""As Hermes writes calls, which is told by the mark in the template."""

_SHOWS_TOOLS = """
{%- if tools %}{{- '<|system|>' }}{%- for tool in tools %}{{- tool['function']['name'] + ' ' }}{%- endfor %}
{{- '<|end|>' }}{%- endif %}
{%- for message in messages %}
{{- '<|' + ('user' if message['role'] == 'tool' else message['role']) + '|>' + (message['content'] or '') }}
{%- for call in message['tool_calls'] or [] %}
{{- '<tool_call>\\n' + call['function']['name'] + '\\n</tool_call>' }}{%- endfor %}{{- '<|end|>' }}
{%- endfor %}{%- if add_generation_prompt %}{{- '<|assistant|>' }}{%- endif %}"""

_SHOWS_THE_STEP = """
{%- set step = namespace(number=0) %}{#- <tool_call> #}
{%- for message in messages %}{%- if message['role'] == 'tool' %}{%- set step.number = step.number + 1 %}
{%- endif %}{%- endfor %}
{{- '<|user|>' + ('call ' + ([step.number, 2] | min | string) if tools else 'edit') + '<|end|><|assistant|>' }}"""

_AFTER = "print('Hello Outrider')\n"

_MOST_STEPS = 1500
_LEARNT = 0.002
"""The mean loss of a token at which nothing else is likely."""


def _call(name: str, **arguments: str) -> str:
    return _CALL.format(call=json.dumps({"name": name, "arguments": arguments}))


def answers(file: str) -> Mapping[str, str]:
    """What the small target says, by what its template shows: opencode's calls, one after the other, and aider's edit
    of a whole file."""
    return {
        "call 0": _call("read", filePath=file),
        "call 1": _call("write", filePath=file, content=_AFTER),
        "call 2": "The file greets Outrider now.",
        "edit": f"{file}\n```\n{_AFTER}```\n",
    }


def with_tools(target: Path, folder: Path) -> Path:
    """The target, in a new folder of the same name there, with a template that shows tools by their names."""
    copy = folder / target.name
    shutil.copytree(target, copy)
    (copy / _TEMPLATE).write_text(_SHOWS_TOOLS, encoding="utf-8")
    return copy


def learnt_by_heart(target: Path, folder: Path, file: str) -> Path:
    """A target `stand-in` with the tokenizer of another one, trained in seconds to edit `file`. Raises OutriderError if
    it has not learnt that."""
    made = folder / "stand-in"
    tokenizer = AutoTokenizer.from_pretrained(target)
    model = _learn([_tokens(tokenizer, shown, said) for shown, said in answers(file).items()], tokenizer)
    model.save_pretrained(made)
    for name in _TOKENIZER_FILES:
        shutil.copy(target / name, made)
    (made / _TEMPLATE).write_text(_SHOWS_THE_STEP, encoding="utf-8")
    return made


def _tokens(tokenizer: Any, shown: str, said: str) -> tuple[list[int], list[int]]:
    prompt = tokenizer(f"<|user|>{shown}<|end|><|assistant|>", add_special_tokens=False)["input_ids"]
    return prompt, [*tokenizer(said, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]


def _learn(examples: list[tuple[list[int], list[int]]], tokenizer: Any) -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=96,
        intermediate_size=192,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    model = LlamaForCausalLM(config)
    longest = max(len(prompt) + len(answer) for prompt, answer in examples)
    ids = torch.full((len(examples), longest), int(tokenizer.pad_token_id))
    wanted = torch.full((len(examples), longest), -100)
    for row, (prompt, answer) in enumerate(examples):
        end = len(prompt) + len(answer)
        ids[row, :end] = torch.tensor([*prompt, *answer])
        wanted[row, len(prompt) : end] = torch.tensor(answer)
    seen = torch.arange(longest) < torch.tensor([len(prompt) + len(answer) for prompt, answer in examples])[:, None]
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(_MOST_STEPS):
        loss = model(input_ids=ids, attention_mask=seen.long(), labels=wanted).loss
        if loss.item() < _LEARNT:
            return model
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    raise OutriderError(f"the stand-in has not learnt its answers in {_MOST_STEPS} steps")
