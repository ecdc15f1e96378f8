"""Free resources over time, and the policies that decide from them which waiting job starts now."""
