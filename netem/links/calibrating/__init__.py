"""Measures rate, delay and loss of an emulated link, to compare them with its profile."""
