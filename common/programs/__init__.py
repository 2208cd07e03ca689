"""What every program shares at its edge: options, errors, terminals, interruption, doctors' findings."""
