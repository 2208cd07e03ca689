"""What each command of `outrider` does, one file each, without the command line's own concerns."""
