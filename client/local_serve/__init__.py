"""A running `outrider serve` answers the same user's `outrider run` and `outrider chat`, with what it has loaded.

Both ends connect by a Unix socket that only this user can open. `messages` defines what they send; `running` finds a
running `outrider serve` and `request` asks it, with the standard library alone. `run_client` and `chat_client` are the
ends of `outrider run` and `outrider chat`; `listener` and `chat_server` are the end of `outrider serve`.
"""
