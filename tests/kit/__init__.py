"""What the tests share: real registries, token servers, scripted faults and container engines."""
