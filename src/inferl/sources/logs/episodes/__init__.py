"""Episodes of a log: from decoded rows to transitions.

`admission` finds rows that do not fit those before them; `mixing` tells whether episodes come one after the other or
mixed in order of time; `arrangement` sorts rows by group; `labelling` numbers episodes, and `streams` gives them to the
evaluator; `pairing` joins each row with its next state; `endings` is what the log says about the ends.
"""
