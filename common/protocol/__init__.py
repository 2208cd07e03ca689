"""The sans-I/O heart: messages, the token tree, rules and both session machines.

Standard library and numpy only. No torch, grpc or asyncio, and no clock: time is an argument.
"""
