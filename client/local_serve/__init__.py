"""A running `outrider serve` answers this user's `outrider run` on the same machine, with everything loaded already.

They speak over a Unix socket that only this user can open: one request, then events, a JSON object a line each.
`running` and `ask` are imported before anything is loaded and know the standard library alone; `listener` is
`outrider serve`'s end.
"""
