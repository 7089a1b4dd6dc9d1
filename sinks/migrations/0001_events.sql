-- No PARTITION BY: replacing happens within a partition only, so a key that is not part of the identity would let a
-- repeated event live twice, and a replay of 400 days in one batch must stay one part.
-- The key starts with a hash of the identity: looking up a batch of ids then touches a few narrow blocks, however the
-- producers choose their ids and however large the store is. Hence also the small granules and the small blocks.

CREATE TABLE IF NOT EXISTS terminal_events $on_cluster
(
    tenant String COMMENT 'tenant',
    event_id String COMMENT 'identity of the event within its tenant',
    run_id String COMMENT 'run that ended',
    segment Nullable(Int64) COMMENT 'segment of the run, when it was resumed',
    agent_id LowCardinality(String) COMMENT 'agent',
    agent_version LowCardinality(Nullable(String)) COMMENT 'version of the agent',
    workflow LowCardinality(Nullable(String)) COMMENT 'workflow',
    occurred_at DateTime64(6, 'UTC') COMMENT 'when the run ended',
    trace_id Nullable(String) COMMENT 'W3C trace id',
    version UInt16 COMMENT 'version of the contract',
    event String CODEC(ZSTD(1)) COMMENT 'the whole redacted event as JSON text: every field present, instants as microseconds since the epoch',
    content_digest String COMMENT 'sha256 over everything, prose too',
    evidence_digest String COMMENT 'sha256 of the evidence without identity and prose',
    source LowCardinality(String) COMMENT 'where it was first read: file, or the topic',
    partition LowCardinality(String) COMMENT 'partition of the source; of a file the sha256 of its bytes',
    offset Int64 COMMENT 'position in the partition, from 0',
    ingested_at DateTime64(6, 'UTC') COMMENT 'when it was stored; the newest of several copies counts',
    identity UInt64 MATERIALIZED cityHash64(tenant, event_id) CODEC(NONE) COMMENT 'hash of tenant and event_id, for lookups' SETTINGS (min_compress_block_size = 2048, max_compress_block_size = 2048)
)
ENGINE = $replacing(ingested_at)
PRIMARY KEY identity
ORDER BY (identity, tenant, event_id)
$ttl_occurred_at
SETTINGS index_granularity = 256$merge_limit
COMMENT 'The evidence: one row per terminal event. Read it through v_events';

CREATE TABLE IF NOT EXISTS conflicting_events $on_cluster
(
    tenant String COMMENT 'tenant',
    event_id String COMMENT 'event id, or the record id of a companion',
    record_type LowCardinality(String) COMMENT 'terminal_event, or the type of the companion',
    content_digest String COMMENT 'sha256 over everything of the record that was kept apart',
    known_digest String COMMENT 'sha256 of the record that was already known under this identity',
    text String CODEC(ZSTD(1)) COMMENT 'the whole redacted record as JSON text',
    source LowCardinality(String) COMMENT 'where it was read: file, or the topic',
    partition LowCardinality(String) COMMENT 'partition of the source',
    offset Int64 COMMENT 'position in the partition, from 0',
    recorded_at DateTime64(6, 'UTC') COMMENT 'when it was kept apart'
)
ENGINE = $replacing(recorded_at)
ORDER BY (record_type, tenant, event_id, content_digest)
$ttl_recorded_at
COMMENT 'Records whose identity was known with other content; never an overwrite. Read it through v_conflicts';
