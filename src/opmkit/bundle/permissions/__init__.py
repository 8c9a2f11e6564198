"""What the operator of a bundle may do: its RBAC rules, which of them are dangerous, and how versions differ."""
