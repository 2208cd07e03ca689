"""One target over several devices: every rank is a process that runs each pass on its part of the weights and of the
K/V. Rank 0 is the daemon itself, which holds the sessions, plans, and says what to run; engine and sessions do not know
of ranks."""
