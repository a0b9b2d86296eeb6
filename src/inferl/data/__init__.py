"""Data: transitions, their place in time, and the increments that algorithms make of them."""
