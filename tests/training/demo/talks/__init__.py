"""Tests of the generated conversations."""
