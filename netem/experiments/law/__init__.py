"""The experiment `law`: whether tokens under the rule `speculative` have the target's distribution."""
