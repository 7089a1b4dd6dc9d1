-- The columns are those of the companion models; a test compares them.

CREATE TABLE IF NOT EXISTS legacy_exits $on_cluster
(
    version UInt16 COMMENT 'version of the contract',
    record_id String COMMENT 'identity of the record within its tenant',
    tenant String COMMENT 'tenant',
    event_id Nullable(String) COMMENT 'terminal event it is about',
    run_id Nullable(String) COMMENT 'else the run it is about',
    segment Nullable(Int64) COMMENT 'segment of that run',
    dispatcher LowCardinality(Nullable(String)) COMMENT 'name of the dispatcher',
    dispatcher_version LowCardinality(Nullable(String)) COMMENT 'its version',
    label LowCardinality(Nullable(String)) COMMENT 'the dispatcher''s own name for the exit',
    http_status Nullable(Int64) COMMENT 'HTTP status that it answered with',
    error_class LowCardinality(Nullable(String)) COMMENT 'error class that it reported',
    retries Nullable(Int64) COMMENT 'how often it retried',
    queue LowCardinality(Nullable(String)) COMMENT 'queue that it opened a ticket in',
    user_visible Nullable(Bool) COMMENT 'whether the user saw this exit',
    decided_at Nullable(DateTime64(6, 'UTC')) COMMENT 'when it decided',
    extensions Map(String, String) COMMENT 'unknown fields, each as JSON text by path',
    content_digest String COMMENT 'sha256 over everything, prose too',
    source LowCardinality(String) COMMENT 'where it was first read: file, or the topic',
    partition LowCardinality(String) COMMENT 'partition of the source; of a file the sha256 of its bytes',
    offset Int64 COMMENT 'position in the partition, from 0',
    ingested_at DateTime64(6, 'UTC') COMMENT 'when it was stored; the newest of several copies counts',
    identity UInt64 MATERIALIZED cityHash64(tenant, record_id) CODEC(NONE) COMMENT 'hash of tenant and record_id, for lookups' SETTINGS (min_compress_block_size = 2048, max_compress_block_size = 2048)
)
ENGINE = $replacing(ingested_at)
PRIMARY KEY identity
ORDER BY (identity, tenant, record_id)
$ttl_ingested_at
SETTINGS index_granularity = 256$merge_limit
COMMENT 'What the legacy dispatcher decided about a run';

CREATE TABLE IF NOT EXISTS recovery_actions $on_cluster
(
    version UInt16 COMMENT 'version of the contract',
    record_id String COMMENT 'identity of the record within its tenant',
    tenant String COMMENT 'tenant',
    event_id Nullable(String) COMMENT 'terminal event it is about',
    run_id Nullable(String) COMMENT 'else the run it is about',
    segment Nullable(Int64) COMMENT 'segment of that run',
    action LowCardinality(Nullable(String)) COMMENT 'what was done',
    operation_id Nullable(String) COMMENT 'operation that it was done to',
    actor Nullable(String) COMMENT 'who did it',
    reason Nullable(String) COMMENT 'why, in words',
    at Nullable(DateTime64(6, 'UTC')) COMMENT 'when',
    extensions Map(String, String) COMMENT 'unknown fields, each as JSON text by path',
    content_digest String COMMENT 'sha256 over everything, prose too',
    source LowCardinality(String) COMMENT 'where it was first read: file, or the topic',
    partition LowCardinality(String) COMMENT 'partition of the source; of a file the sha256 of its bytes',
    offset Int64 COMMENT 'position in the partition, from 0',
    ingested_at DateTime64(6, 'UTC') COMMENT 'when it was stored; the newest of several copies counts',
    identity UInt64 MATERIALIZED cityHash64(tenant, record_id) CODEC(NONE) COMMENT 'hash of tenant and record_id, for lookups' SETTINGS (min_compress_block_size = 2048, max_compress_block_size = 2048)
)
ENGINE = $replacing(ingested_at)
PRIMARY KEY identity
ORDER BY (identity, tenant, record_id)
$ttl_ingested_at
SETTINGS index_granularity = 256$merge_limit
COMMENT 'What an operator did about a run';

CREATE TABLE IF NOT EXISTS review_events $on_cluster
(
    version UInt16 COMMENT 'version of the contract',
    record_id String COMMENT 'identity of the record within its tenant',
    tenant String COMMENT 'tenant',
    event_id Nullable(String) COMMENT 'terminal event it is about',
    run_id Nullable(String) COMMENT 'else the run it is about',
    segment Nullable(Int64) COMMENT 'segment of that run',
    review_packet_id Nullable(String) COMMENT 'review packet',
    queue LowCardinality(Nullable(String)) COMMENT 'queue that it is in',
    event LowCardinality(Nullable(String)) COMMENT 'what happened',
    decision LowCardinality(Nullable(String)) COMMENT 'decision, one of those that the packet allowed',
    overrode_proposal Nullable(Bool) COMMENT 'whether the reviewer went against the agent''s proposal',
    reason Nullable(String) COMMENT 'why, in words',
    reviewer Nullable(String) COMMENT 'who',
    deadline Nullable(DateTime64(6, 'UTC')) COMMENT 'deadline of the review',
    at Nullable(DateTime64(6, 'UTC')) COMMENT 'when',
    extensions Map(String, String) COMMENT 'unknown fields, each as JSON text by path',
    content_digest String COMMENT 'sha256 over everything, prose too',
    source LowCardinality(String) COMMENT 'where it was first read: file, or the topic',
    partition LowCardinality(String) COMMENT 'partition of the source; of a file the sha256 of its bytes',
    offset Int64 COMMENT 'position in the partition, from 0',
    ingested_at DateTime64(6, 'UTC') COMMENT 'when it was stored; the newest of several copies counts',
    identity UInt64 MATERIALIZED cityHash64(tenant, record_id) CODEC(NONE) COMMENT 'hash of tenant and record_id, for lookups' SETTINGS (min_compress_block_size = 2048, max_compress_block_size = 2048)
)
ENGINE = $replacing(ingested_at)
PRIMARY KEY identity
ORDER BY (identity, tenant, record_id)
$ttl_ingested_at
SETTINGS index_granularity = 256$merge_limit
COMMENT 'What happened to a review packet in its queue';

CREATE TABLE IF NOT EXISTS enrichments $on_cluster
(
    version UInt16 COMMENT 'version of the contract',
    record_id String COMMENT 'identity of the record within its tenant',
    tenant String COMMENT 'tenant',
    event_id Nullable(String) COMMENT 'terminal event it is about',
    run_id Nullable(String) COMMENT 'else the run it is about',
    segment Nullable(Int64) COMMENT 'segment of that run',
    component LowCardinality(Nullable(String)) COMMENT 'name of the component',
    state LowCardinality(Nullable(String)) COMMENT 'what became of it',
    reverses_result Nullable(Bool) COMMENT 'true: the earlier partial would have been different',
    at Nullable(DateTime64(6, 'UTC')) COMMENT 'when',
    extensions Map(String, String) COMMENT 'unknown fields, each as JSON text by path',
    content_digest String COMMENT 'sha256 over everything, prose too',
    source LowCardinality(String) COMMENT 'where it was first read: file, or the topic',
    partition LowCardinality(String) COMMENT 'partition of the source; of a file the sha256 of its bytes',
    offset Int64 COMMENT 'position in the partition, from 0',
    ingested_at DateTime64(6, 'UTC') COMMENT 'when it was stored; the newest of several copies counts',
    identity UInt64 MATERIALIZED cityHash64(tenant, record_id) CODEC(NONE) COMMENT 'hash of tenant and record_id, for lookups' SETTINGS (min_compress_block_size = 2048, max_compress_block_size = 2048)
)
ENGINE = $replacing(ingested_at)
PRIMARY KEY identity
ORDER BY (identity, tenant, record_id)
$ttl_ingested_at
SETTINGS index_granularity = 256$merge_limit
COMMENT 'Components that were added, or failed to be added, to an earlier partial';
