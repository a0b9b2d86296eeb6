"""Logs: how `inferl.sources.table` reads one.

The modules, in the order in which a row passes through them: `inputs` says what a log may be, with `files` for what has
a path and `frames` for the rest; `readers` and `lines` open one file and cut it into pieces; `parts` reads several one
after the other, as one log; `digests` recognise rows that were read before; `columns` says which column is what;
`decoding`, with `values` and `ratios`, turns columns into numbers (`formula`, `design`, `encoding`, `states`, `ages`:
what features may be; `policies` and `policy_tables`: what a target policy may be; `propensities` and `behaviour`: a
behaviour policy that is fitted); `admission` finds rows that do not fit those before them; `labelling` numbers the
episodes; `pairing` joins each row with its next state. `faults` are the messages about bad rows.
"""
