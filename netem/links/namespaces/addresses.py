"""The addresses and the device name on both ends of a link between namespaces. Constants only.

Only the two namespaces see them. They come from the block for benchmarks (RFC 2544), which no real network uses.
"""

NEAR = "198.18.0.1"
FAR = "198.18.0.2"
NETMASK = "255.255.255.0"
NETWORK = "198.18.0.0/24"
DEVICE = "link"
MTU_BYTES = 1500
