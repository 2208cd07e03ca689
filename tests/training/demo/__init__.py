"""Tests of the training side."""
