"""The search for a topology assignment: the level and domains that fit, then the pods of each leaf."""
