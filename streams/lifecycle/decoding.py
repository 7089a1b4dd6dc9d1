"""From the bytes of a companion topic to a redacted record, without waiting for a registry that does not answer.

The app reads topics to be quick. What it cannot decode now it takes from the store later, so an outage of the registry
costs seconds and nothing else, as long as nobody waits for it message by message.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from schemas.redaction import Redactor
from schemas.wire import SchemaSource, decode
from schemas.writer import Writer
from streams.clock import Clock
from streams.registry import RegistryUnavailable


@dataclass
class RestingSchemas:
    """Another source of schemas, which is left alone for ``rest_s`` seconds after it was out of reach."""

    inner: SchemaSource
    clock: Clock
    rest_s: float = 10.0
    _until: float = field(default=float("-inf"), init=False)

    def by_fingerprint(self, fingerprint: int) -> Writer | None:
        """Return the schema with this fingerprint."""
        return self.inner.by_fingerprint(fingerprint)

    def by_id(self, schema_id: int) -> Writer | None:
        """Return the schema under this id. Raises RegistryUnavailable, at once while the source rests."""
        if self.clock.monotonic() < self._until:
            raise RegistryUnavailable("the registry was out of reach a moment ago")
        try:
            return self.inner.by_id(schema_id)
        except RegistryUnavailable:
            self._until = self.clock.monotonic() + self.rest_s
            raise


def decoder(schemas: SchemaSource, redactor: Redactor) -> Callable[[bytes], dict[str, Any]]:
    """Decodes and redacts one message. Raises MessageError, and RegistryUnavailable where ``schemas`` do."""
    return lambda data: redactor.redact(decode(data, schemas=schemas))[0]
