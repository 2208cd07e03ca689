"""Tokenizers of any vocabulary size, with the special tokens and the form of chat template of a family.

Byte-level BPE whose merges are made up: pairs of bytes, then pairs followed by a third byte. The text that a token
stands for means nothing, but files, loading and templates are as large and as involved as those of the family. It may
not know models.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice, product

from tokenizers import Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from transformers import PreTrainedTokenizerFast

_LLAMA3_TEMPLATE = """{{- bos_token }}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}{%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}{%- set date_string = "26 Jul 2024" %}{%- endif %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content'] | trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\nToday Date: " + date_string + "\\n\\n" }}
{{- system_message + "<|eot_id|>" }}
{%- for message in messages %}
    {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' }}
    {{- message['content'] | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}"""

_QWEN3_TEMPLATE = """{%- if messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- set ns = namespace(last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if message.role == "user" and message.content is string and ns.last_query_index < index %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content if message.content is string else '' %}
    {%- if message.role == "assistant" and '</think>' in content %}
        {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
    {%- endif %}
    {%- if message.role != "system" or not loop.first %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}"""


@dataclass(frozen=True, slots=True)
class ChatForm:
    """What a family's tokenizers share. special: its tokens by their indices among the special ones, which come last.
    begin: the token before every text, if any; end: the one that ends an answer; padded: rows of the model's vocabulary
    without a token."""

    special: Mapping[str, int]
    specials: int
    begin: str | None
    end: str
    template: str
    padded: int = 0


LLAMA3 = ChatForm(
    {
        "<|begin_of_text|>": 0,
        "<|end_of_text|>": 1,
        "<|start_header_id|>": 6,
        "<|end_header_id|>": 7,
        "<|eom_id|>": 8,
        "<|eot_id|>": 9,
    },
    specials=256,
    begin="<|begin_of_text|>",
    end="<|eot_id|>",
    template=_LLAMA3_TEMPLATE,
)
QWEN3 = ChatForm(
    {"<|endoftext|>": 0, "<|im_start|>": 1, "<|im_end|>": 2},
    specials=26,
    begin=None,
    end="<|im_end|>",
    template=_QWEN3_TEMPLATE,
    padded=267,
)


def make_tokenizer(form: ChatForm, vocabulary: int) -> PreTrainedTokenizerFast:
    """vocabulary: rows of the model's, at least 600. Raises ValueError for more than the merges of three bytes give."""
    regular = vocabulary - form.padded - form.specials
    signs = sorted(ByteLevel.alphabet())
    pairs = [(first, second) for first, second in product(signs, signs)]
    triples = ((first + second, third) for first, second in pairs for third in signs)
    merges = [*pairs, *islice(triples, max(0, regular - len(signs) - len(pairs)))][: regular - len(signs)]
    if len(signs) + len(merges) != regular:
        raise ValueError(f"{vocabulary} tokens are too few or too many for this form")
    tokens = [*signs, *(left + right for left, right in merges)]
    backend = Tokenizer(BPE({token: token_id for token_id, token in enumerate(tokens)}, merges))
    backend.pre_tokenizer = ByteLevel(add_prefix_space=False)
    backend.decoder = ByteLevelDecoder()
    named = {index: name for name, index in form.special.items()}
    backend.add_special_tokens([named.get(index, f"<|reserved_{index}|>") for index in range(form.specials)])
    make: Callable[..., PreTrainedTokenizerFast] = PreTrainedTokenizerFast
    return make(
        tokenizer_object=backend,
        bos_token=form.begin,
        eos_token=form.end,
        pad_token=form.end,
        chat_template=form.template,
    )


def special_id(form: ChatForm, vocabulary: int, name: str) -> int:
    """The id of a special token in a vocabulary of so many rows."""
    return vocabulary - form.padded - form.specials + form.special[name]
