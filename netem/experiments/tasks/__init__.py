"""Python tasks and whether answers to them are right: prompts, the programs that judge, a sandbox for them, pass@1."""
