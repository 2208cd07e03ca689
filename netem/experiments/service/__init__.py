"""Experiments on `outrider serve` and its server as processes, asked by OpenAI's own client over links that break."""
