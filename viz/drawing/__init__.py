"""Pictures drawn: SVG, DOT, terminal."""
