"""The wire that both ends share: generated stubs, their conversion, channel settings and credentials.

Only this folder touches generated code. It may not know sessions' lifecycles, drafters, models or the target.
"""
