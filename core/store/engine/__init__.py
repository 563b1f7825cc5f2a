"""Engine: the promises of a database connection, and the engines that implement them.

Only the engine begins and commits transactions.
"""

from core.store.engine.port import Connection, Database, Distribution, Row
