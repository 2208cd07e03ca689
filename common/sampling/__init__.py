"""Sampling with torch, which client and server must compute alike: logits processors, noise, and the logits that rules
see. It may not know trees, sessions or which model computed the logits."""
