"""Chat templates as published models have them, shortened to what matters here. Only templates may live here."""

CHATML = (
    "{% if messages[0]['role'] != 'system' %}<|turn|>system\nYou help.<|end|>\n{% endif %}"
    "{% for m in messages %}<|turn|>{{ m['role'] }}\n{{ m['content'] }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|turn|>assistant\n{% endif %}"
)
"""Qwen2's: a line break after every end token, a system turn of its own."""

LLAMA3 = (
    "{% for m in messages %}<|turn|>{{ m['role'] }}<|turn|>\n\n{{ m['content'] | trim }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|turn|>assistant<|turn|>\n\n{% endif %}"
)

MISTRAL = (
    "{% for m in messages %}"
    "{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}"
    "{% if m['role'] == 'user' %}[INST] {{ m['content'] }} [/INST]"
    "{% elif m['role'] == 'assistant' %} {{ m['content'] }}<|end|>"
    "{% else %}{{ raise_exception('only user and assistant') }}{% endif %}{% endfor %}"
)
"""No generation prompt at all, and conversations that it refuses."""

FORGETTING = (
    "{% for m in messages %}<|turn|>{{ m['role'] }}\n"
    "{% if m['role'] == 'assistant' and loop.last %}<think>\n\n</think>\n\n{% endif %}"
    "{{ m['content'] }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|turn|>assistant\n{% endif %}"
)
"""Qwen3's: only the last answer keeps its thoughts, so the whole does not begin with its prefixes."""
