"""What all command-line programs share: options, errors, terminals, interruption, findings of `doctor`."""
