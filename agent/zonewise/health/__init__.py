"""What is wrong with the hardware of a node, and which pod it hit."""
