"""What would it take? The smallest value of a setting at which a simulation meets a goal."""
