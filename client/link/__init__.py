"""The link of one conversation: its stream, made anew whenever it breaks, the connection beneath, and what a client
believes of the link. May not know drafting, text or screens.
"""
