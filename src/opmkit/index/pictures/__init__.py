"""Update graphs for people: mermaid, Graphviz, SVG and an HTML page."""
