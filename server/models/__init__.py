"""The models of this server and what it offers of them: target card, tails, bundles, drafters beside the target."""
