"""Tests of `training.draft_models`."""
