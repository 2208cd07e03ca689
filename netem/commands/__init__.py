"""The work of the commands of `outrider-lab`, one file each. They may print; they do not parse arguments."""
