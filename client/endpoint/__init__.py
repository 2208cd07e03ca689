"""`outrider serve`: OpenAI's HTTP interface to one server, and a page.

`openai_requests` and `openai_responses` are pure: bodies that come in and go out. `stream_emitter`, `conversation_pool`
and `service` make answers of them, and know no HTTP; `access_checks`, `app` and `sse` are HTTP, and know no sessions.
The page (`page`, `static`) shows provisional text too (`live_answer`), and the state of the link (`monitor`).
"""
