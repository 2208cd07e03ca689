"""Real apps against `outrider serve`: with a link, with one that is cut, and without one."""
