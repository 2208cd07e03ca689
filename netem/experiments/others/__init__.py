"""Outrider beside what people have: llama.cpp's server and transformers' `generate`, over the same links."""
