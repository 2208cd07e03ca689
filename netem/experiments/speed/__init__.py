"""How fast answers come: systems over links and under load, on the virtual clock, with real time beside it."""
