"""Training drafts for a target: data, the target's features, one loop, and one file per kind of draft in `recipes`.

`outrider-train KIND` runs it. Nothing here knows the demo models.
"""
