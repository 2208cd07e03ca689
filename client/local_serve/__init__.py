"""A running `outrider serve` answers this user's `outrider run` and `chat`, with everything loaded already.

They speak over a Unix socket that only this user can open: one request, then events, a JSON object a line each; a chat
says more behind its request. `running` and `ask` are imported before anything is loaded and know the standard library
alone; `served_client` is a chat's end, `listener` and `served_conversation` are `outrider serve`'s.
"""
