"""Experiments on `outrider serve` and its server as processes, with requests by OpenAI's own client over links that
break."""
