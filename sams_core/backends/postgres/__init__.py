"""The Postgres backend, its schema and its grants; needs the extra `postgres`."""

from __future__ import annotations

try:
    import psycopg as _psycopg  # noqa: F401
except ImportError:
    raise ImportError("Postgres needs a driver: pip install 'sams-adapters[postgres]'") from None

from sams_core.backends.postgres.admin import Grant as Grant
from sams_core.backends.postgres.admin import grant as grant
from sams_core.backends.postgres.admin import grants as grants
from sams_core.backends.postgres.admin import install_schema as install_schema
from sams_core.backends.postgres.admin import revoke as revoke
from sams_core.backends.postgres.admin import schema_sql as schema_sql
from sams_core.backends.postgres.backend import PostgresBackend as PostgresBackend
