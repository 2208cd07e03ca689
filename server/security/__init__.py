"""Who may connect and call, and what a stranger can use up: ports, tokens, certificates, pools of calls."""
