"""Methods: increments are folded into a state, and intervals are read off it."""
