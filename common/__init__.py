"""What client, server, training and the laboratory share. It imports no other package of this project."""
