"""The models of this server and what it offers of them: targets, their cards and tails, bundles, server drafters."""
