"""Forward passes over all sessions: scheduling, cost, the target, server drafting and draft state. May not know who is
admitted or how frames arrive.
"""
