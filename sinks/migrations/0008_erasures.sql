-- What was erased on request. The rows whose evidence went stay, with their digests and exits, so that the books still
-- close and the same message, delivered again, is still known. Who asked about whom is not kept here.

CREATE TABLE IF NOT EXISTS erasures $on_cluster
(
    erasure String COMMENT 'the request, by its time in microseconds since the epoch',
    record_type LowCardinality(String) COMMENT 'terminal_event, the type of a companion, conflict, or dead_letter',
    tenant String COMMENT 'tenant; empty for a dead letter',
    record_id String COMMENT 'event id or record id; of a conflict its content digest, of a dead letter source, partition and offset',
    recorded_at DateTime64(6, 'UTC') COMMENT 'when it was requested'
)
ENGINE = $replacing(recorded_at)
ORDER BY (record_type, tenant, record_id)
COMMENT 'Records whose evidence was erased on request. Read it through v_erasures';

CREATE VIEW IF NOT EXISTS v_erasures $on_cluster AS
SELECT
    erasure,
    record_type,
    count() AS records,
    min(recorded_at) AS erased_at
FROM erasures FINAL
GROUP BY erasure, record_type
COMMENT 'How many records of each type a request erased the evidence of';
