"""Engine: what a connection to a database promises, and the engine that keeps it.

The one place that begins and commits.
"""

from core.store.engine.port import Connection, Database, Distribution, Row
