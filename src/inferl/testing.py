"""The contracts of algorithms, methods, sources and backends, for classes of your own."""
