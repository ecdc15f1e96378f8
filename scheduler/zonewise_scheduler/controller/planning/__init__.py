"""The planner, fed from observed objects; and what it has decided and no object shows yet."""
