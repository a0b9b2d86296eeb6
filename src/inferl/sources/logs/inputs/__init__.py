"""Inputs: from whatever may be a log to pieces of rows.

`opening` says what a log may be, with `files` for what has a path, `frames` for what is in memory or a query, and
`handles` for open files; `readers` and `lines` recognise a format and cut a file into `pieces`; `parts` reads several
files one after the other, as one log; `digests` recognise rows that were read before.
"""
