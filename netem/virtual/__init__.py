"""Runs on a virtual clock: the real engine, conversation, drafters and target, with a time that only stated costs,
links and timers advance. The time of the computation itself does not count, so any number of clients and links can be
measured on any machine."""
