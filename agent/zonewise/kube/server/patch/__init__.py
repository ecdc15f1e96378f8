"""The ways to change an object in part: merge patch, JSON patch, strategic merge patch. All are pure."""
