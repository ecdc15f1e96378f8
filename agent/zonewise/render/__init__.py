"""The picture of a machine for people: text for a terminal, or SVG. Pure functions: a Machine in, a string out."""
