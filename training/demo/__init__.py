"""The demo models: generators, tokenizer, training and evaluation of the shipped target.

What may live here: everything needed to make a demo target from a seed. The generators are ahead of `models/demo`,
whose cards tell what it was trained on, until the next target ships. It may not know the client, the server, the wire
protocol or any network emulation. `tasks`, `talks`, `instance`, `render`, `check`, `split` and
`smalltalk` are standard library only; torch appears first in `architecture`, `training_loop` and what stands on them.
"""
