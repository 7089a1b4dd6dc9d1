-- One row per run: its exit beside what the legacy dispatcher did, and what became of it. Written by a settling, which
-- goes over the stored rows; whoever reads wants the row as it was settled last. The key starts with a hash of what the
-- row is about, so that a settling that goes through the hashes in order leaves parts that do not overlap, and FINAL
-- has next to nothing to merge.

CREATE TABLE IF NOT EXISTS comparisons $on_cluster
(
    tenant String COMMENT 'tenant',
    subject String COMMENT 'run that it is about; else the event that legacy exits name and nobody has seen',
    unseen Bool COMMENT 'whether the subject is an event that nobody has seen',
    event_id String COMMENT 'terminal event that ended the latest segment of the run; empty if there is none',
    segment Nullable(Int64) COMMENT 'latest segment of the run',
    superseded UInt32 COMMENT 'events of the run that this one supersedes',
    agent_id LowCardinality(String) COMMENT 'agent; empty if there is no event',
    agent_version LowCardinality(Nullable(String)) COMMENT 'version of the agent',
    workflow LowCardinality(Nullable(String)) COMMENT 'workflow',
    occurred_at DateTime64(6, 'UTC') COMMENT 'when the run ended; if there is no event, when the legacy exit was decided, or else stored',
    pairing LowCardinality(String) COMMENT 'whether both sides are there: paired, legacy_missing, event_missing',
    kind LowCardinality(String) COMMENT 'exit kind that is proposed: completed, refusal, fallback, partial, human_queue; empty if there is no event',
    reason_code LowCardinality(String) COMMENT 'stable code of the reason',
    rule_id LowCardinality(String) COMMENT 'row of the decision table that decided',
    verified Bool COMMENT 'whether the completion was verified by its predicate',
    prohibited Array(LowCardinality(String)) COMMENT 'kinds that the invariants rule out for these facts',
    facts Array(LowCardinality(String)) COMMENT 'names of the facts that hold, sorted',
    fact_bits UInt64 COMMENT 'the same facts as a bit set; the bit of a fact is fixed by the classifier version',
    table_digest LowCardinality(String) COMMENT 'sha256 of the canonical content of the decision table',
    classifier_version LowCardinality(String) COMMENT 'version of the classifier',
    evidence_gaps Array(String) COMMENT 'missing evidence that would have earned a better exit',
    obligations UInt64 COMMENT 'number of duties left open',
    findings Array(LowCardinality(String)) COMMENT 'codes of oddities that had no say in the exit',
    ambiguous Bool COMMENT 'whether it goes to people because an effect may or may not have happened',
    packet_completeness Nullable(Float32) COMMENT 'share of what a reviewer needs that the packet has, 0 to 1',
    legacy_kind LowCardinality(String) COMMENT 'what the label mapping makes of the legacy exit: completed, refusal, fallback, partial, human_queue, error, unmapped; empty if there is none',
    legacy_label LowCardinality(Nullable(String)) COMMENT 'the dispatcher''s own name for the exit',
    legacy_http_status Nullable(Int64) COMMENT 'HTTP status that it answered with',
    legacy_error_class LowCardinality(Nullable(String)) COMMENT 'error class that it reported',
    legacy_retries Nullable(Int64) COMMENT 'how often it retried',
    legacy_queue LowCardinality(Nullable(String)) COMMENT 'queue that it opened a ticket in',
    legacy_user_visible Nullable(Bool) COMMENT 'whether the user saw this exit',
    legacy_decided_at Nullable(DateTime64(6, 'UTC')) COMMENT 'when it decided',
    legacy_records UInt32 COMMENT 'legacy exits of the run''s latest segment; the one decided last is shown',
    legacy_contested Bool COMMENT 'whether these map to different kinds',
    dispatcher LowCardinality(Nullable(String)) COMMENT 'name of the dispatcher',
    dispatcher_version LowCardinality(Nullable(String)) COMMENT 'its version',
    mapping_digest LowCardinality(String) COMMENT 'sha256 of the canonical content of the label mapping',
    verdict LowCardinality(String) COMMENT 'agree, disagree, unmapped (no rule of the mapping holds), unpaired (one side is missing)',
    disagreement LowCardinality(String) COMMENT 'name of the disagreement; empty unless they disagree',
    owner LowCardinality(String) COMMENT 'who owns this disagreement; empty unless they disagree',
    harm LowCardinality(String) COMMENT 'harm that the legacy exit did or hid; empty if none is known',
    actions Array(LowCardinality(String)) COMMENT 'what operators did, in order of time',
    decisions Array(LowCardinality(String)) COMMENT 'what reviewers decided, in order of time',
    overrode Bool COMMENT 'whether a reviewer went against the agent''s proposal',
    recovery LowCardinality(String) COMMENT 'what operators and reviewers say of the proposed exit: supports, contradicts, silent',
    reversed Bool COMMENT 'whether a later enrichment showed an earlier partial to be wrong',
    gone Bool COMMENT 'whether nothing stands behind this row any more, because the event came',
    settled_at DateTime64(6, 'UTC') COMMENT 'when it was settled; each settling has a later one, and the latest counts',
    identity UInt64 MATERIALIZED cityHash64(tenant, subject) CODEC(NONE) COMMENT 'hash of tenant and subject, for lookups'
)
ENGINE = $replacing(settled_at)
PRIMARY KEY identity
ORDER BY (identity, tenant, subject, unseen)
$ttl_occurred_at
SETTINGS index_granularity = 1024$merge_limit
COMMENT 'One row per run: its exit beside the legacy exit. Read it through v_comparison';

CREATE TABLE IF NOT EXISTS settlings $on_cluster
(
    grounds String COMMENT 'sha256 of what decides besides the rows: label mapping, rules, order of the decision tables',
    mapping_id LowCardinality(String) COMMENT 'name of the label mapping',
    mapping_version LowCardinality(String) COMMENT 'its version',
    mapping_digest String COMMENT 'sha256 of its canonical content',
    through DateTime64(6, 'UTC') COMMENT 'rows stored before that are settled',
    whole_at DateTime64(6, 'UTC') COMMENT 'when every run was last settled, touched or not',
    runs UInt64 COMMENT 'runs of the last settling',
    recorded_at DateTime64(6, 'UTC') COMMENT 'when it was done; the same as settled_at of its rows'
)
ENGINE = $replacing(recorded_at)
ORDER BY grounds
$ttl_recorded_at
COMMENT 'How far runs are settled. Read it through v_settlings';

-- Written first by a settling that does not settle every run, so that its statements look this up instead of finding it
-- out anew. The newest settling that touches a run has its row, so that there are never more rows than runs.
CREATE TABLE IF NOT EXISTS touched_runs $on_cluster
(
    hash UInt64 COMMENT 'hash of tenant and run, or of tenant and an event that nobody has seen',
    recorded_at DateTime64(6, 'UTC') COMMENT 'the settling that settles it; the same as settled_at of its rows'
)
ENGINE = $replacing(recorded_at)
ORDER BY hash
$ttl_recorded_at
COMMENT 'What a settling has to settle';

CREATE VIEW IF NOT EXISTS v_settlings $on_cluster AS
SELECT grounds, mapping_id, mapping_version, mapping_digest, through, whole_at, runs, recorded_at
FROM settlings FINAL
ORDER BY recorded_at DESC
COMMENT 'How far runs are settled, by which label mapping, the last one first';

CREATE VIEW IF NOT EXISTS v_comparison $on_cluster AS
SELECT
    stored.tenant AS tenant,
    if(stored.unseen, '', stored.subject) AS run_id,
    if(stored.unseen, stored.subject, '') AS missing_event_id,
    stored.event_id AS event_id,
    stored.segment AS segment,
    stored.superseded AS superseded,
    stored.agent_id AS agent_id,
    stored.agent_version AS agent_version,
    stored.workflow AS workflow,
    if(stored.pairing = 'event_missing', NULL, stored.occurred_at) AS occurred_at,
    stored.occurred_at AS moment,
    stored.pairing AS pairing,
    stored.kind AS kind,
    stored.reason_code AS reason_code,
    stored.rule_id AS rule_id,
    stored.verified AS verified,
    stored.prohibited AS prohibited,
    stored.facts AS facts,
    stored.fact_bits AS fact_bits,
    stored.table_digest AS table_digest,
    stored.classifier_version AS classifier_version,
    stored.evidence_gaps AS evidence_gaps,
    stored.obligations AS obligations,
    stored.findings AS findings,
    stored.ambiguous AS ambiguous,
    stored.packet_completeness AS packet_completeness,
    stored.legacy_kind AS legacy_kind,
    stored.legacy_label AS legacy_label,
    stored.legacy_http_status AS legacy_http_status,
    stored.legacy_error_class AS legacy_error_class,
    stored.legacy_retries AS legacy_retries,
    stored.legacy_queue AS legacy_queue,
    stored.legacy_user_visible AS legacy_user_visible,
    stored.legacy_decided_at AS legacy_decided_at,
    stored.legacy_records AS legacy_records,
    stored.legacy_contested AS legacy_contested,
    stored.dispatcher AS dispatcher,
    stored.dispatcher_version AS dispatcher_version,
    stored.mapping_digest AS mapping_digest,
    stored.verdict AS verdict,
    stored.disagreement AS disagreement,
    stored.owner AS owner,
    stored.harm AS harm,
    stored.actions AS actions,
    stored.decisions AS decisions,
    stored.overrode AS overrode,
    stored.recovery AS recovery,
    stored.reversed AS reversed,
    stored.settled_at AS settled_at
FROM comparisons AS stored FINAL
WHERE NOT stored.gone
COMMENT 'One row per run, at its latest segment: its exit beside the legacy exit, as settled last; a missing event has no occurred_at, its moment is that of the legacy exit';

CREATE VIEW IF NOT EXISTS v_disagreements $on_cluster AS
SELECT *
FROM v_comparison
WHERE verdict = 'disagree'
COMMENT 'Runs whose exit and legacy exit disagree, each difference by name, with its owner';

CREATE VIEW IF NOT EXISTS v_recovery $on_cluster AS
SELECT
    kind,
    reason_code,
    countIf(recovery = 'supports') AS supports,
    countIf(recovery = 'contradicts') AS contradicts,
    countIf(recovery = 'silent') AS silent
FROM v_comparison
WHERE pairing != 'event_missing'
GROUP BY kind, reason_code
ORDER BY kind ASC, reason_code ASC
COMMENT 'What operators and reviewers say of the proposed exits, in runs';

CREATE VIEW IF NOT EXISTS v_coverage $on_cluster AS
SELECT
    tenant,
    agent_id,
    agent_version,
    workflow,
    toDate32(hour) AS day,
    fromUnixTimestamp64Micro(toUnixTimestamp64Micro(moment) - positiveModulo(toUnixTimestamp64Micro(moment), 3600000000), 'UTC') AS hour,
    count() AS runs,
    countIf(pairing != 'event_missing') + sum(superseded) AS events,
    sum(superseded) AS superseded_events,
    countIf(pairing = 'paired') AS paired,
    countIf(pairing = 'legacy_missing') AS legacy_missing,
    countIf(pairing = 'event_missing') AS event_missing,
    countIf(legacy_kind = 'unmapped') AS unmapped,
    countIf(legacy_contested) AS contested,
    countIf(notEmpty(evidence_gaps)) AS gaps
FROM v_comparison
GROUP BY tenant, agent_id, agent_version, workflow, hour
ORDER BY tenant ASC, agent_id ASC, agent_version ASC, workflow ASC, hour ASC
COMMENT 'What was seen and what was not, per agent, version, workflow and hour; of a missing event nothing is known but the tenant';

CREATE VIEW IF NOT EXISTS v_readiness $on_cluster AS
SELECT
    kind AS stage,
    reason_code,
    count() AS runs,
    countIf(pairing = 'paired') AS paired,
    countIf(verdict = 'agree') AS agree,
    countIf(verdict = 'disagree') AS disagree,
    countIf(verdict = 'unmapped') AS unmapped,
    countIf(recovery = 'supports') AS supports,
    countIf(recovery = 'contradicts') AS contradicts,
    countIf(recovery = 'silent') AS silent,
    countIf(has(prohibited, kind)) AS prohibited_exits,
    countIf(notEmpty(evidence_gaps)) AS gaps
FROM v_comparison
WHERE kind IN ('refusal', 'fallback', 'partial', 'human_queue')
GROUP BY kind, reason_code
ORDER BY kind ASC, reason_code ASC
COMMENT 'Per stage of enforcement and reason: the counts that readiness is computed from, in runs';
