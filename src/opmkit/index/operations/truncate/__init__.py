"""``deprecatetruncate``: deprecate bundles and remove the versions below them."""
