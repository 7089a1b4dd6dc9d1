-- Where dead letters were redriven to, and what became of them there: the ledger knows each redriven message by its place.

ALTER TABLE dead_letters $on_cluster ADD COLUMN IF NOT EXISTS erased Bool DEFAULT false COMMENT 'whether bytes, key and headers were erased on request; such a letter cannot be redriven';

CREATE TABLE IF NOT EXISTS redrives $on_cluster
(
    source LowCardinality(String) COMMENT 'source of the dead letter',
    partition LowCardinality(String) COMMENT 'its partition',
    offset Int64 COMMENT 'its offset',
    topic LowCardinality(String) COMMENT 'topic that it was redriven to',
    topic_partition LowCardinality(String) COMMENT 'partition that it was redriven to',
    topic_offset Int64 COMMENT 'offset that it got there',
    replay_count UInt32 COMMENT 'how often its message was redriven, this time included',
    recorded_at DateTime64(6, 'UTC') COMMENT 'when the broker had confirmed it'
)
ENGINE = $replacing(recorded_at)
ORDER BY (source, partition, offset, topic, topic_partition, topic_offset)
$ttl_recorded_at
COMMENT 'One row per dead letter and redrive. Read it through v_dead_letter_states';

CREATE VIEW IF NOT EXISTS v_dead_letter_states $on_cluster AS
WITH
    arrived AS
    (
        SELECT source, partition, offset, disposition, tenant, event_id, record_type
        FROM ingest_ledger FINAL
        WHERE source IN (SELECT topic FROM redrives)
    ),
    sent AS
    (
        SELECT
            redrive.source AS source,
            redrive.partition AS partition,
            redrive.offset AS offset,
            count() AS redrives,
            max(redrive.recorded_at) AS redriven_at,
            groupUniqArray(arrived.disposition) AS fates,
            argMax((redrive.topic, redrive.topic_partition, redrive.topic_offset), redrive.recorded_at) AS redriven_to,
            anyIf((arrived.tenant, arrived.record_type, arrived.event_id), arrived.event_id != '') AS record
        FROM (SELECT * FROM redrives FINAL) AS redrive
        LEFT JOIN arrived ON arrived.source = redrive.topic AND arrived.partition = redrive.topic_partition AND arrived.offset = redrive.topic_offset
        GROUP BY redrive.source, redrive.partition, redrive.offset
    )
SELECT
    letter.source AS source,
    letter.partition AS partition,
    letter.offset AS offset,
    letter.timestamp AS timestamp,
    letter.reason_code AS reason_code,
    letter.field_path AS field_path,
    letter.message AS message,
    length(letter.raw) AS bytes,
    letter.masked AS masked,
    letter.tries AS tries,
    letter.replay_count AS replay_count,
    letter.recorded_at AS recorded_at,
    multiIf(
        letter.erased, 'erased',
        has(sent.fates, 'classified'), 'classified',
        has(sent.fates, 'stored'), 'stored',
        has(sent.fates, 'duplicate'), 'duplicate',
        has(sent.fates, 'conflicting'), 'conflicting',
        has(sent.fates, 'filtered'), 'filtered',
        has(sent.fates, 'dead_lettered'), 'dead_again',
        sent.redrives > 0, 'waiting',
        'dead'
    ) AS state,
    sent.redrives AS redrives,
    if(sent.redrives > 0, sent.redriven_at, NULL) AS redriven_at,
    sent.redriven_to.1 AS redriven_topic,
    sent.redriven_to.2 AS redriven_partition,
    sent.redriven_to.3 AS redriven_offset,
    sent.record.1 AS tenant,
    sent.record.2 AS record_type,
    sent.record.3 AS event_id
FROM (SELECT * FROM dead_letters FINAL) AS letter
LEFT JOIN sent ON sent.source = letter.source AND sent.partition = letter.partition AND sent.offset = letter.offset
COMMENT 'Dead letters without their bytes, and what became of them: dead, waiting (redriven and not read yet), dead_again (a letter of its own at the place that it was redriven to), erased, or what the redriven message became';
