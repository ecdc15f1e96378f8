"""The parts of a machine as immutable values. The JSON of `zonewise show` mirrors them field by field."""
