"""Images in the storage of container engines, moved as whole archives."""
