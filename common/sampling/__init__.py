"""How logits become tokens, with torch: what client and server must compute alike. It may not know trees, sessions or
what computed the logits."""
