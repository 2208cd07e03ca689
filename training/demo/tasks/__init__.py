"""Task families, one file per group. Each family turns a `Draw` into a `Sketch`; it knows no text layout."""
