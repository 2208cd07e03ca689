"""Network conditions on one machine: emulated links, and experiments that run Outrider over them."""
