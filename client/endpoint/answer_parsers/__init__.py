"""What an answer's text consists of: content, reasoning and tool calls, as it grows.

`pieces` says what an answer is taken apart into. `calls` finds calls in the syntaxes of model families, one file each,
and `growing_json` reads their JSON; `thinking` and `response_template` find reasoning; `answer_format` chooses for a
checkpoint. All are pure but for the ids of calls: they know text, and may not know sessions or HTTP.
"""
