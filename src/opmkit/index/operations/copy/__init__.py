"""Copy packages and the packages that they depend on from one index to another."""
