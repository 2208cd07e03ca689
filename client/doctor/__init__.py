"""What `outrider doctor` looks at beyond this machine: the road to a server, and what it says when it is reached."""
