"""`sizes`: memory and time of both ends for targets in their true shapes, with random weights.

`measure.py` runs the experiment. `ends.py` starts each process that is measured: `outriderd serve`, or a function of
`client.py`. `checkpoints.py`, `chat_tokenizer.py` and `draft_models.py` make what they load; `rows.py` is pure, and
`scaling.py` makes the tables of docs/scaling.md.
"""
