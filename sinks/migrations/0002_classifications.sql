CREATE TABLE IF NOT EXISTS exit_classifications $on_cluster
(
    tenant String COMMENT 'tenant',
    event_id String COMMENT 'terminal event that was classified',
    run_id String COMMENT 'run that ended',
    segment Nullable(Int64) COMMENT 'segment of the run, when it was resumed',
    agent_id LowCardinality(String) COMMENT 'agent',
    agent_version LowCardinality(Nullable(String)) COMMENT 'version of the agent',
    workflow LowCardinality(Nullable(String)) COMMENT 'workflow',
    occurred_at DateTime64(6, 'UTC') COMMENT 'when the run ended',
    kind LowCardinality(String) COMMENT 'exit kind: completed, refusal, fallback, partial, human_queue',
    reason_code LowCardinality(String) COMMENT 'stable code of the reason',
    rule_id LowCardinality(String) COMMENT 'row of the decision table that decided',
    verified Bool COMMENT 'whether the completion was verified by its predicate',
    prohibited Array(LowCardinality(String)) COMMENT 'kinds that the invariants rule out for these facts',
    obligations Array(Tuple(action LowCardinality(String), operation_id Nullable(String))) COMMENT 'duties left open: reconcile or compensate an operation',
    evidence_gaps Array(String) COMMENT 'missing evidence that would have earned a better exit',
    findings Array(LowCardinality(String)) COMMENT 'codes of oddities that had no say in the exit',
    facts Array(LowCardinality(String)) COMMENT 'names of the facts that hold, sorted',
    fact_bits UInt64 COMMENT 'the same facts as a bit set; the bit of a fact is fixed by the classifier version',
    table_id LowCardinality(String) COMMENT 'name of the decision table',
    table_version LowCardinality(String) COMMENT 'its version',
    table_digest LowCardinality(String) COMMENT 'sha256 of its canonical content',
    classifier_version LowCardinality(String) COMMENT 'version of the classifier',
    unproven Bool COMMENT 'whether the invariants of the table were not proved when it decided',
    evidence_digest String COMMENT 'sha256 of the evidence without identity and prose',
    content_digest String COMMENT 'sha256 over everything of the event, prose too',
    envelope Nullable(String) CODEC(ZSTD(1)) COMMENT 'exit envelope as JSON text, instants as microseconds; NULL for completed',
    queue LowCardinality(Nullable(String)) COMMENT 'queue that owns a human_queue exit',
    deadline Nullable(DateTime64(6, 'UTC')) COMMENT 'until when a person must decide',
    review_packet_id Nullable(String) COMMENT 'review packet of a human_queue exit',
    packet_completeness Nullable(Float32) COMMENT 'share of what a reviewer needs that the packet has, 0 to 1',
    classified_at DateTime64(6, 'UTC') COMMENT 'when it was classified; the newest of several copies counts',
    identity UInt64 MATERIALIZED cityHash64(tenant, event_id) CODEC(NONE) COMMENT 'hash of tenant and event_id, for lookups' SETTINGS (min_compress_block_size = 2048, max_compress_block_size = 2048)
)
ENGINE = $replacing(classified_at)
PRIMARY KEY identity
ORDER BY (identity, tenant, event_id, table_digest, classifier_version)
$ttl_occurred_at
SETTINGS index_granularity = 1024$merge_limit
COMMENT 'One row per event, decision table and classifier version. Read it through v_classifications or v_exits';

CREATE TABLE IF NOT EXISTS active_tables $on_cluster
(
    table_digest String COMMENT 'sha256 of the canonical content of the decision table',
    classifier_version String COMMENT 'version of the classifier',
    table_id String COMMENT 'name of the decision table',
    table_version String COMMENT 'its version',
    table_text String CODEC(ZSTD(1)) COMMENT 'the whole table as the user wrote it',
    activated_at DateTime64(6, 'UTC') COMMENT 'when it last became the current one'
)
ENGINE = $replacing(activated_at)
ORDER BY (table_digest, classifier_version)
COMMENT 'Decision tables that decided here. Of an event''s classifications the one whose table was activated last is current';
