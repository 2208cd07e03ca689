"""The addresses and the device on the two ends of a link between namespaces. Constants only.

Nobody but the two namespaces sees them, so they may be anything; these come from the block for benchmarks (RFC 2544),
which no real network of the person's uses.
"""

NEAR = "198.18.0.1"
FAR = "198.18.0.2"
NETMASK = "255.255.255.0"
NETWORK = "198.18.0.0/24"
DEVICE = "link"
MTU_BYTES = 1500
