"""What `outrider doctor` checks beyond this machine: the network path to a server, and the server's description."""
