"""Tests of `training.drafts`."""
