"""Task families, one row each: what they loop over, which parts they draw, their code and their wording.

What may live here: the families and the three things rows are made of: `loops` (code), `sources` (parameters) and
`rows` (drawn parts, and the row itself). It may not know any text layout, tokenizer or model.
"""
