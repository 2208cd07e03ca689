"""Training draft models for a target: data, the target's features, one loop, and one file per draft kind in `recipes`.

`outrider-train KIND` runs it. Nothing here knows the demo models.
"""
