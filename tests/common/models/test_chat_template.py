"""Templates are rendered as transformers renders them, byte by byte, and fail as they do there."""

from datetime import datetime
from typing import Any

import pytest
from transformers.utils.chat_template_utils import render_jinja_template

from common.models.chat_template import render

VARIABLES = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}

CONVERSATIONS: dict[str, list[dict[str, str]]] = {
    "one": [{"role": "user", "content": "Hi"}],
    "turns": [
        {"role": "system", "content": "Be  brief.\n"},
        {"role": "user", "content": " 1 < 2 & 'quoted' \"twice\" "},
        {"role": "assistant", "content": "naïve 日本 🦊\n\n<think>hm</think>done"},
        {"role": "user", "content": "{{ 7 * 7 }} {% raw %}\t\r\n"},
    ],
    "empty": [{"role": "user", "content": ""}],
}

USING_TOOLS: list[dict[str, Any]] = [
    {"role": "user", "content": "What is 1 + 2?"},
    {
        "role": "assistant",
        "content": "",
        "reasoning_content": "two numbers",
        "tool_calls": [
            {"id": "1", "type": "function", "function": {"name": "add", "arguments": {"a": 1, "b": [2.5, None, True]}}}
        ],
    },
    {"role": "tool", "tool_call_id": "1", "content": "3"},
]
TOOLS = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {"é": {}}}}}]
TOOL_TEMPLATE = """
{%- for tool in tools or [] %}{{ tool | tojson }}{{ tool.function.parameters.properties.items() | list }}{% endfor %}
{%- for message in messages %}{{ message.role }}:{{ message.content }}
{%- if message.tool_calls is defined %}
{%- for call in message.tool_calls %}{{ call.function.arguments | tojson }}{{ call.function.arguments.b[2] }}
{%- endfor %}
{%- endif %}{{ message.reasoning_content }}{{ message.thinking }}{{ message.tool_call_id }}
{%- endfor %}{{ enable_thinking is defined and enable_thinking is false }}{{ reasoning_effort }}
"""

TEMPLATES = {
    "chatml": """
{%- for message in messages %}
    {%- if loop.first and message.role != 'system' %}
        {{- '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' }}
    {%- endif %}
    {{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
""",
    "dates and tools": """
{{- bos_token }}
{%- if not tools is defined %}{%- set tools = none %}{%- endif %}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}{%- set date_string = strftime_now("%Y") %}{%- endif %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}{%- set system_message = "" %}{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}{{- "Today Date: " + date_string + "\\n\\n" }}
{%- if tools is not none %}{{ tools | tojson(indent=4) }}{%- endif %}
{{- system_message }}{{- "<|eot_id|>" }}
{%- for message in messages %}
    {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
{%- endfor %}
""",
    "namespaces and slices": """
{%- set ns = namespace(last=-1, dictionary=dict(a=1)) -%}
{%- for message in messages[::-1] -%}
  {%- set index = (messages|length - 1) - loop.index0 -%}
  {%- if ns.last < 0 and message.role == "user" and message.content is string -%}
    {%- set ns.last = index -%}
  {%- endif -%}
{%- endfor -%}
{{ ns.last }} {{ ns.dictionary.a }}
{%- for message in messages -%}
  {%- set content = message.content.split('</think>')[-1].lstrip('\\n') -%}
  {{ message.content | tojson }}{{ content }}{{ message.reasoning_content | default('none') }}
{%- endfor -%}
""",
    "loop controls": "{% for m in messages %}{% if loop.index > 2 %}{% break %}{% endif %}{% if m.role == 'system' %}"
    "{% continue %}{% endif %}{{ m.content }}|{% endfor %}",
    "answers marked": "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}"
    "{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}{{ eos_token }}",
    "blocks on lines": "  {% for m in messages %}\n  {% if m.content %}\n {{ m.content | upper }}\n  {% endif %}\n"
    "  {% endfor %}\n",
    "documents": "{{ documents is none }}{{ unknown is defined }}{{ messages | tojson(indent=2, sort_keys=true) }}",
    "macros": "{% macro say(m) %}<{{ m.role }}>{{ m.content }}{% endmacro %}{% for m in messages %}{{ say(m) }}"
    "{% endfor %}{{ range(3) | list }}{{ 'x' * 3 }}{{ dict(a=2).items() | list }}{{ dict.fromkeys('ab', 1) }}",
}

FAILING = {
    "raises": "{{ raise_exception('roles must alternate') }}",
    "syntax": "{% for m in messages %}",
    "undefined": "{{ nothing.at.all }}",
    "changes what it is given": "{% set _ = messages.append(1) %}",
    "leaves the sandbox": "{{ ''.__class__.__mro__ }}",
    "underscores in a namespace": "{% set ns = namespace(_a=1) %}",
    "underscores set later": "{% set ns = namespace() %}{% set ns._a = 1 %}",
    "too long": "{{ range(999999999) | list }}",
    "divides": "{{ 1 / 0 }}",
}

UNDEFINED = {
    "leaves the sandbox through a filter": "{{ messages | map(attribute='__class__') | first }}",
    "underscores of dict": "{{ dict.__class__ }}",
}


def theirs(template: str, messages: list[dict[str, Any]], tools: Any = None, **variables: Any) -> str:
    rendered, _ = render_jinja_template(
        [messages], tools, chat_template=template, add_generation_prompt=True, **VARIABLES, **variables
    )
    return str(rendered[0])


@pytest.mark.parametrize("template", TEMPLATES.values(), ids=TEMPLATES)
@pytest.mark.parametrize("messages", CONVERSATIONS.values(), ids=CONVERSATIONS)
def test_what_is_rendered_is_what_transformers_renders(template: str, messages: list[dict[str, str]]) -> None:
    assert render(template, messages, VARIABLES) == theirs(template, messages)


@pytest.mark.parametrize("tools", [None, TOOLS])
@pytest.mark.parametrize("variables", [{}, {"enable_thinking": False, "reasoning_effort": "low"}])
def test_tools_and_their_use_are_rendered_as_transformers_renders_them(tools: Any, variables: dict[str, Any]) -> None:
    ours = render(TOOL_TEMPLATE, USING_TOOLS, {**VARIABLES, **variables}, tools)
    assert ours == theirs(TOOL_TEMPLATE, USING_TOOLS, tools, **variables)
    assert "two numbers" in ours


@pytest.mark.parametrize("template", TEMPLATES.values(), ids=TEMPLATES)
def test_without_an_answer_to_come_it_is_rendered_as_transformers_renders_it(template: str) -> None:
    messages = CONVERSATIONS["turns"]
    (theirs,), _ = render_jinja_template([messages], chat_template=template, add_generation_prompt=False, **VARIABLES)
    assert render(template, messages, VARIABLES, asking=False) == theirs


def test_the_date_may_be_another_day() -> None:
    dates = "{{ strftime_now('%d %b %Y') }}"
    assert render(dates, CONVERSATIONS["one"], VARIABLES, now=datetime(2024, 7, 26)) == "26 Jul 2024"


def test_variables_do_not_replace_the_conversation() -> None:
    assert render("{{ messages[0].content }}", CONVERSATIONS["one"], {"messages": "else"}) == "Hi"


@pytest.mark.parametrize("template", FAILING.values(), ids=FAILING)
def test_what_fails_there_fails_here_with_the_same_words(template: str) -> None:
    def outcome(call: Any) -> tuple[str, str]:
        try:
            return "rendered", call()
        except Exception as error:
            return type(error).__name__, str(error)

    messages = CONVERSATIONS["one"]
    expected = outcome(lambda: theirs(template, messages))
    assert expected[0] != "rendered"
    assert outcome(lambda: render(template, messages, VARIABLES)) == expected


@pytest.mark.parametrize("template", UNDEFINED.values(), ids=UNDEFINED)
def test_what_the_sandbox_leaves_undefined_there_is_empty_here(template: str) -> None:
    messages = CONVERSATIONS["one"]
    assert (render(template, messages, VARIABLES), theirs(template, messages)) == ("", "")


def test_no_conversation_is_none_to_render() -> None:
    with pytest.raises(ValueError, match="empty conversation"):
        render("hello", [], VARIABLES)


def test_old_versions_of_jinja_run_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jinja2.__version__", "3.1.5")
    with pytest.raises(ImportError, match="too old to run templates safely"):
        render("only this test renders it", CONVERSATIONS["one"], VARIABLES)
