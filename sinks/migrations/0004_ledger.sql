CREATE TABLE IF NOT EXISTS ingest_ledger $on_cluster
(
    source LowCardinality(String) COMMENT 'where it was read: file, or the topic',
    partition LowCardinality(String) COMMENT 'partition of the source; of a file the sha256 of its bytes',
    offset Int64 COMMENT 'position in the partition, from 0',
    next_offset Int64 COMMENT 'position of the message after it',
    tenant LowCardinality(String) COMMENT 'tenant; empty for a dead letter',
    event_id String COMMENT 'event id, or the record id of a companion; empty for a dead letter',
    record_type LowCardinality(String) COMMENT 'terminal_event, or the type of the companion; empty for a dead letter',
    content_digest String COMMENT 'sha256 over everything of the record; empty for a dead letter',
    disposition LowCardinality(String) COMMENT 'what became of it: classified, stored (a companion), duplicate, conflicting, dead_lettered, filtered',
    recorded_at DateTime64(6, 'UTC') COMMENT 'when the ledger row was written; the newest of several copies counts'
)
ENGINE = $replacing(recorded_at)
ORDER BY (source, partition, offset)
$ttl_recorded_at
COMMENT 'One narrow row per message that was read. Read it through v_ledger and v_ledger_ranges';

CREATE TABLE IF NOT EXISTS dead_letters $on_cluster
(
    source LowCardinality(String) COMMENT 'where it was read: file, or the topic',
    partition LowCardinality(String) COMMENT 'partition of the source; of a file the sha256 of its bytes',
    offset Int64 COMMENT 'position in the partition, from 0',
    timestamp Nullable(DateTime64(6, 'UTC')) COMMENT 'timestamp of the message at its source',
    key Nullable(String) COMMENT 'key of the message',
    raw String CODEC(ZSTD(1)) COMMENT 'the bytes of the message, secret ranges masked at equal length',
    headers Map(String, String) COMMENT 'headers of the message',
    reason_code LowCardinality(String) COMMENT 'stable code of what is wrong',
    field_path String COMMENT 'where; empty for the whole message',
    message String COMMENT 'what is wrong and what to do, in words',
    masked Bool COMMENT 'whether bytes were masked; such a letter is redriven from its source, never from this copy',
    tries UInt32 COMMENT 'how often it was tried',
    replay_count UInt32 COMMENT 'how often it was redriven',
    recorded_at DateTime64(6, 'UTC') COMMENT 'when it was recorded; the newest of several copies counts'
)
ENGINE = $replacing(recorded_at)
ORDER BY (source, partition, offset)
$ttl_recorded_at
COMMENT 'Messages that are no valid record, whole. Read it through v_dead_letters';
