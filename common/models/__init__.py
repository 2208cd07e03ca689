"""What client, server and training share on torch: checkpoints, packed passes and their K/V slots.

What may live here: loading a Hugging Face checkpoint, and running an unmodified causal LM on tokens of
several sessions with K/V in slots. It may not know sessions' lifecycles, messages, rules, drafters or the link.
"""
