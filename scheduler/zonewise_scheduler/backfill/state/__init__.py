"""The planner's state and the events that change it; nothing here decides."""
