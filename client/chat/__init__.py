"""`outrider chat`: a conversation line by line.

One file for each concern: the transcript, settings, input, commands, display.
"""
