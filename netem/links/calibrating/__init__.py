"""Measuring what an emulated link really gives, to be held against what its profile promises."""
