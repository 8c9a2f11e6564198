"""For those who ship catalogs: mirrors, signatures and attestations."""
