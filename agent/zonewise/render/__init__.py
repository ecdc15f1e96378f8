"""The picture of a machine that a person sees: text for a terminal, or SVG. Pure: a Machine in, a string out."""
