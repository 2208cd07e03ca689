"""What stays on this machine: private spans of a prompt, and answers that the draft alone decodes."""
