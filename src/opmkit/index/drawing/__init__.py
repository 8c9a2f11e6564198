"""Update graphs of catalogs as drawings: mermaid and Graphviz text, SVG, and a page for a browser."""
