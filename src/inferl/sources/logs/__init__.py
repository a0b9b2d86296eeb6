"""Logs: how `inferl.sources.table` reads one.

A row passes through them in this order: `inputs` opens whatever may be a log and cuts it into pieces; `columns` says
which column is what; `decoding` turns columns into numbers, with `features` for what a state may be and `policies` for
the ratios of a target policy; `episodes` finds rows that do not fit those before them, numbers the episodes, and joins
each row with its next state. `table` leads through all this, `progress` is how far it has come, and `faults` are the
messages about bad rows.
"""
