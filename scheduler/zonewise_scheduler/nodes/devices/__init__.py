"""The devices of ResourceSlices that nodes provide, and those that ResourceClaims hold (KEP-4381)."""
