"""What a terminal shows and what a person types at it. May not know how an answer comes about."""
