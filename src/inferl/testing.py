"""The contracts of algorithms, methods, sources and backends, for classes of your own."""

__all__: list[str] = []
