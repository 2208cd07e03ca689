"""`outrider serve`: OpenAI's HTTP interface to one server, Ollama's for apps that speak that alone, and a page.

`openai_requests`, `openai_messages`, `openai_responses`, `ollama` and `ollama_models` are pure: bodies that come in and
go out. `answer_parsers` take answers apart. `stream_emitter`, `answer_on_conversation`, `conversation_pool`, `service`
and `answers` make answers of requests, and know no HTTP; `access_checks`, `app`, `ollama_paths`, `sse` are HTTP,
knowing no sessions. The page (`page`, `static`) shows provisional text too (`live_answer`), and the state of the link
(`monitor`).
"""
