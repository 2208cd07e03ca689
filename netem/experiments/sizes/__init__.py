"""`sizes`: memory and time of both ends for targets in their true shapes, with random weights.

`measure.py` runs the experiment. Each process that is measured is started by `server.py` or is a function of
`client.py`; `checkpoints.py`, `chat_tokenizer.py` and `draft_models.py` make what they load, `rows.py` is pure.
"""
