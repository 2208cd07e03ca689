"""What operators see: metrics, log lines, health. May decide nothing."""
