"""What a machine is made of, as immutable values. The JSON of `zonewise show` mirrors them field by field."""
