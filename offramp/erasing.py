"""What ``erase`` does and shows: the evidence of a run or an actor goes, what counts stays."""

import time
from dataclasses import dataclass, field
from typing import Any

from offramp import console, streaming
from offramp.errors import CheckFailedError
from offramp.session import Session
from sinks.erasure import Found, Subject, erase, find
from streams.topics import DAY_MS, Topic


@dataclass
class Erasing:
    """Erases the evidence of a subject, and counts it."""

    session: Session
    subject: Subject
    dry_run: bool
    found: Found | None = None
    changed: list[str] = field(default_factory=list)
    files_are_gone: bool = True

    def run(self) -> None:
        """Do it. Raises CheckFailedError if nothing of the subject is stored, StoreError."""
        with self.session.existing_store("erase") as store:
            self.found = find(store, self.subject)
            if self.found.nothing:
                raise CheckFailedError(f"nothing is stored of {self._named()}; is the name written as it is stored?")
            if not self.dry_run:
                self.changed = list(erase(store, self.subject, self.session.clock.now_micros()))
                self.files_are_gone = store.drop_replaced_files(self.changed, time.sleep)

    def _named(self) -> str:
        tenant, run_id, actor = self.subject
        return f"actor {actor} of tenant {tenant}" if run_id is None else f"run {run_id} of tenant {tenant}"

    def as_json(self) -> dict[str, Any]:
        """Everything, in plain JSON values."""
        found = self._done()
        return {
            "dry_run": self.dry_run,
            "records": dict(found.records),
            "erased": dict(found.still),
            "changed": self.changed,
            "files_are_gone": self.files_are_gone,
            "approvals_elsewhere": found.approvals,
            "left_in_topics": {topic.name: _days(topic) for topic in self._topics()},
        }

    def show(self) -> None:
        """Print how many records of each type went."""
        found = self._done()
        verb = "to erase" if self.dry_run else "erased"
        rows = [(kind, count, found.still[kind]) for kind, count in found.records.items() if count]
        columns = [("record", "code"), ("stored", "right"), (verb, "right")]
        console.table(f"{self._named()}: {sum(found.still.values()):,} {verb}", columns, rows)

    def say_rest(self) -> None:
        """Say what is not erased, and what a dry run is."""
        found = self._done()
        if found.approvals:
            console.say(f"{console.counted(found.approvals, 'event')} of other people's runs name this actor as an "
                        "approver, and stay; erase those runs if they must go")  # fmt: skip
        topics = ", ".join(f"{topic.name} {_days(topic):g} days" for topic in self._topics())
        if topics:
            console.say(f"what was written to topics stays there as long as they keep it: {topics}")
        if not self.files_are_gone:
            console.say("files that held it are still there; the engine deletes them within minutes of running")
        if self.dry_run:
            console.say("dry run: nothing was written")

    def _topics(self) -> list[Topic]:
        """Topics that may hold evidence, if there is a broker."""
        settings = self.session.settings
        topics = streaming.topics(settings)
        return [topic for topic in topics if topic is not topics.exit_alerts] if settings.kafka.servers else []

    def _done(self) -> Found:
        assert self.found is not None  # noqa: S101 -- run comes first
        return self.found


def _days(topic: Topic) -> float:
    return int(topic.settings["retention.ms"]) / DAY_MS
