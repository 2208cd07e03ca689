"""What the commands of `outrider-lab` do, one file each. They may print; they read no arguments."""
