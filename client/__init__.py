"""The client, `outrider`: drafts ahead, shows what is committed, and never waits for the link.

`drafting` decides and knows no time; `conversation` drives it on a stream and a clock; `assembly` puts the parts
together; `commands` are what a person runs. May import `common`; may not import the server, the lab or training.
"""
