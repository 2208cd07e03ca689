"""The sessions of this server: admission, quotas, leases, accounting, and what each is sent. No torch, no gRPC."""
