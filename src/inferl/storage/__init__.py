"""Storage: dataclasses in one versioned file, without code."""
