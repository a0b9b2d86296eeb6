"""The paper's experiments, rebuilt with the public API: a study a file, on shared machinery."""
