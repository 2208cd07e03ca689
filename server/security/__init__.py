"""Security: ports, TLS, bearer tokens, certificates, and limits on calls and connections without a session."""
