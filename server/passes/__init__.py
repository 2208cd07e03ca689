"""One forward pass over all sessions: what it computes, what it costs, and the work beside it. May not know who is
admitted or how frames arrive.
"""
