"""For authors of operators: projects, generated bundles, pinned images, and trial runs in clusters."""
