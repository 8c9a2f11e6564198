"""Index images: opening what they contain, building new ones, publishing them."""
