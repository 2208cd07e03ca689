"""`torture`: answers whose links and servers are cut at random, and what is left of them."""
