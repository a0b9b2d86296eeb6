"""How often intervals hold the truth: studies, too long for a test run."""
