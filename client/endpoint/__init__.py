"""`outrider serve`: OpenAI's HTTP interface to one server, and a page.

`asked` and `told` are pure: bodies that come in and go out. `teller`, `desk` and `service` make answers of them, and
know no HTTP; `gate`, `app` and `sse` are HTTP, and know no sessions. The page (`page`, `static`) is shown what is
provisional too (`showing`), and how the link is (`monitor`).
"""
