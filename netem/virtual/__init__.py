"""The virtual clock: the real engine, conversation, drafters and target, on a time that only stated costs, links and
timers move. What two cores take to compute it does not count, so any number of clients and links can be measured."""
