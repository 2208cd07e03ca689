"""Generated conversations of the demo assistant beside code: word problems, reading, rewriting, stories and chat.

What may live here: one file per category, the record that they all yield and the words that they share.
"""
