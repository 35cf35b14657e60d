"""What this process counts of itself, for Prometheus and for the log. Knows no row, no loop and no request."""
