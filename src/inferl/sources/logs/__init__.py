"""Logs: how `inferl.sources.table` reads one, in the order in which a row passes.

readers and lines open a log and cut it into pieces; digests know rows again that were read before a stop; columns says
which column is what; decoding, with values and ratios, makes numbers of them; admission finds rows that do not fit
those before them; labelling numbers the episodes; pairing brings each row together with its next state. faults are the
words for what is wrong with a row.
"""
