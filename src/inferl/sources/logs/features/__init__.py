"""Features of a log: from columns to vectors, or to the states of a table.

`formula` parses the small language; `design` codes its terms to full rank; `encoding` fits and applies it; `states` are
tables of states and feature maps; `ages` are times since the beginning of an episode.
"""
