"""Python tasks and the grading of answers to them: prompts, test programs, a sandbox, pass@1."""
