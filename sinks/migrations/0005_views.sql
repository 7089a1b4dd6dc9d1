-- Views are what people and reports read. Each deduplicates by FINAL before anything filters, so that a batch that was
-- inserted twice counts once without waiting for a merge.

CREATE VIEW IF NOT EXISTS v_events $on_cluster AS
SELECT
    tenant,
    event_id,
    run_id,
    segment,
    agent_id,
    agent_version,
    workflow,
    occurred_at,
    trace_id,
    CAST(arrayMap(x -> tuple(x.request_ref, x.goal, x.actor, x.delegated_permissions, fromUnixTimestamp64Micro(x.deadline, 'UTC'), x.prose), [JSONExtract(event, 'request', 'Tuple(request_ref Nullable(String), goal Nullable(String), actor Nullable(String), delegated_permissions Array(String), deadline Nullable(Int64), prose Nullable(String))')])[1], 'Tuple(request_ref Nullable(String), goal Nullable(String), actor Nullable(String), delegated_permissions Array(String), deadline Nullable(DateTime64(6, \'UTC\')), prose Nullable(String))') AS request,
    JSONExtract(event, 'model', 'Tuple(provider Nullable(String), model Nullable(String), stop_signal Nullable(String), stop_class Nullable(String), refusal_category Nullable(String), input_tokens Nullable(Int64), output_tokens Nullable(Int64), prose Nullable(String))') AS model,
    CAST(arrayMap(x -> tuple(x.decision_id, x.policy_id, x.policy_version, x.source, x.operation_id, x.effect, x.reason_code, fromUnixTimestamp64Micro(x.decided_at, 'UTC'), x.attempted_action, x.alternatives, x.owner, tuple(x.approval.state, x.approval.approver, x.approval.operation_id, fromUnixTimestamp64Micro(x.approval.resolved_at, 'UTC'), fromUnixTimestamp64Micro(x.approval.expires_at, 'UTC'))), JSONExtract(event, 'policy_decisions', 'Array(Tuple(decision_id Nullable(String), policy_id Nullable(String), policy_version Nullable(String), source Nullable(String), operation_id Nullable(String), effect Nullable(String), reason_code Nullable(String), decided_at Nullable(Int64), attempted_action Tuple(tool Nullable(String), arguments Nullable(String)), alternatives Array(String), owner Nullable(String), approval Tuple(state Nullable(String), approver Nullable(String), operation_id Nullable(String), resolved_at Nullable(Int64), expires_at Nullable(Int64))))')), 'Array(Tuple(decision_id Nullable(String), policy_id Nullable(String), policy_version Nullable(String), source Nullable(String), operation_id Nullable(String), effect Nullable(String), reason_code Nullable(String), decided_at Nullable(DateTime64(6, \'UTC\')), attempted_action Tuple(tool Nullable(String), arguments Nullable(String)), alternatives Array(String), owner Nullable(String), approval Tuple(state Nullable(String), approver Nullable(String), operation_id Nullable(String), resolved_at Nullable(DateTime64(6, \'UTC\')), expires_at Nullable(DateTime64(6, \'UTC\')))))') AS policy_decisions,
    CAST(arrayMap(x -> tuple(x.call_id, x.operation_id, x.tool, x.tool_version, x.access, x.required, x.attempt, x.idempotency_key, x.fencing_token, x.arguments, x.outcome, x.error_class, x.status_code, x.effect_possible, x.response, x.response_digest, fromUnixTimestamp64Micro(x.started_at, 'UTC'), x.duration_ms), JSONExtract(event, 'tool_calls', 'Array(Tuple(call_id Nullable(String), operation_id Nullable(String), tool Nullable(String), tool_version Nullable(String), access Nullable(String), required Nullable(Bool), attempt Nullable(Int64), idempotency_key Nullable(String), fencing_token Nullable(Int64), arguments Nullable(String), outcome Nullable(String), error_class Nullable(String), status_code Nullable(Int64), effect_possible Nullable(Bool), response Nullable(String), response_digest Nullable(String), started_at Nullable(Int64), duration_ms Nullable(Int64)))')), 'Array(Tuple(call_id Nullable(String), operation_id Nullable(String), tool Nullable(String), tool_version Nullable(String), access Nullable(String), required Nullable(Bool), attempt Nullable(Int64), idempotency_key Nullable(String), fencing_token Nullable(Int64), arguments Nullable(String), outcome Nullable(String), error_class Nullable(String), status_code Nullable(Int64), effect_possible Nullable(Bool), response Nullable(String), response_digest Nullable(String), started_at Nullable(DateTime64(6, \'UTC\')), duration_ms Nullable(Int64)))') AS tool_calls,
    JSONExtract(event, 'side_effects', 'Array(Tuple(operation_id Nullable(String), tool Nullable(String), status Nullable(String), target Nullable(String), reversible Nullable(Bool), count Nullable(Int64), verified_by Nullable(String)))') AS side_effects,
    CAST(arrayMap(x -> tuple(x.fallback_id, x.version, x.source, x.triggers, x.access, x.operation_id, x.inputs_digest, x.ruleset_version, x.reference_data_version, x.origin, fromUnixTimestamp64Micro(x.observed_at, 'UTC'), x.max_age_s, x.shares_failed_dependency, x.uses_model_judgement, x.preconditions_met, x.applied, x.disclosed, x.result_ref), JSONExtract(event, 'fallbacks', 'Array(Tuple(fallback_id Nullable(String), version Nullable(String), source Nullable(String), triggers Array(String), access Nullable(String), operation_id Nullable(String), inputs_digest Nullable(String), ruleset_version Nullable(String), reference_data_version Nullable(String), origin Nullable(String), observed_at Nullable(Int64), max_age_s Nullable(Int64), shares_failed_dependency Nullable(Bool), uses_model_judgement Nullable(Bool), preconditions_met Nullable(Bool), applied Nullable(Bool), disclosed Nullable(Bool), result_ref Nullable(String)))')), 'Array(Tuple(fallback_id Nullable(String), version Nullable(String), source Nullable(String), triggers Array(String), access Nullable(String), operation_id Nullable(String), inputs_digest Nullable(String), ruleset_version Nullable(String), reference_data_version Nullable(String), origin Nullable(String), observed_at Nullable(DateTime64(6, \'UTC\')), max_age_s Nullable(Int64), shares_failed_dependency Nullable(Bool), uses_model_judgement Nullable(Bool), preconditions_met Nullable(Bool), applied Nullable(Bool), disclosed Nullable(Bool), result_ref Nullable(String)))') AS fallbacks,
    JSONExtract(event, 'components', 'Array(Tuple(name Nullable(String), required Nullable(Bool), state Nullable(String), reason_code Nullable(String), retryable Nullable(Bool), can_change_result Nullable(String)))') AS components,
    JSONExtract(event, 'decision', 'Tuple(asserted Nullable(Bool), value Nullable(String), required_checks Array(String))') AS decision,
    JSONExtract(event, 'contradictions', 'Array(Tuple(subject Nullable(String), sources Array(String), resolved Nullable(Bool)))') AS contradictions,
    CAST(arrayMap(x -> tuple(x.turns, x.tool_calls, x.tokens, x.cost_micros, fromUnixTimestamp64Micro(x.deadline_at, 'UTC'), x.exhausted), [JSONExtract(event, 'budget', 'Tuple(turns Tuple(used Nullable(Int64), limit Nullable(Int64)), tool_calls Tuple(used Nullable(Int64), limit Nullable(Int64)), tokens Tuple(used Nullable(Int64), limit Nullable(Int64)), cost_micros Tuple(used Nullable(Int64), limit Nullable(Int64)), deadline_at Nullable(Int64), exhausted Array(String))')])[1], 'Tuple(turns Tuple(used Nullable(Int64), limit Nullable(Int64)), tool_calls Tuple(used Nullable(Int64), limit Nullable(Int64)), tokens Tuple(used Nullable(Int64), limit Nullable(Int64)), cost_micros Tuple(used Nullable(Int64), limit Nullable(Int64)), deadline_at Nullable(DateTime64(6, \'UTC\')), exhausted Array(String))') AS budget,
    JSONExtract(event, 'steps', 'Array(Tuple(action_key Nullable(String), confidence_before Nullable(Float64), confidence_after Nullable(Float64), advanced Nullable(Bool), checks Map(String, Float64)))') AS steps,
    JSONExtract(event, 'completion', 'Tuple(claimed Nullable(Bool), predicate_id Nullable(String), predicate_version Nullable(String), result Nullable(String), result_ref Nullable(String))') AS completion,
    JSONExtract(event, 'takeover', 'Tuple(state Nullable(String), fencing_token Nullable(Int64), acks Array(Tuple(operation_id Nullable(String), ack Nullable(String))))') AS takeover,
    JSONExtract(event, 'children', 'Array(Tuple(run_id Nullable(String), state Nullable(String)))') AS children,
    JSONExtract(event, 'extensions', 'Map(String, String)') AS extensions,
    content_digest,
    evidence_digest,
    source,
    partition,
    offset,
    ingested_at
FROM terminal_events FINAL
COMMENT 'Terminal events, each once, with their nested fields typed; the fields of an absent block are NULL';

CREATE VIEW IF NOT EXISTS v_tables $on_cluster AS
SELECT table_digest, classifier_version, table_id, table_version, table_text, activated_at
FROM active_tables FINAL
ORDER BY activated_at DESC
COMMENT 'Decision tables that decided here, the current one first';

CREATE VIEW IF NOT EXISTS v_classifications $on_cluster AS
WITH (
    SELECT mapFromArrays(groupArray(concat(table_digest, ' ', classifier_version)), groupArray(toUnixTimestamp64Micro(activated_at)))
    FROM active_tables FINAL
) AS activations
SELECT *
FROM exit_classifications FINAL
ORDER BY
    identity ASC,
    tenant ASC,
    event_id ASC,
    activations[concat(table_digest, ' ', classifier_version)] DESC,
    classified_at DESC,
    table_digest ASC,
    classifier_version ASC
LIMIT 1 BY identity, tenant, event_id
COMMENT 'The current classification of each event: that of the table that was activated last';

CREATE VIEW IF NOT EXISTS v_exits $on_cluster AS
SELECT
    tenant,
    event_id,
    run_id,
    segment,
    agent_id,
    agent_version,
    workflow,
    occurred_at,
    kind,
    reason_code,
    rule_id,
    verified,
    unproven,
    length(obligations) AS open_obligations,
    length(evidence_gaps) AS missing_evidence,
    length(findings) AS odd,
    queue,
    deadline,
    packet_completeness,
    table_id,
    table_version,
    classifier_version,
    classified_at
FROM v_classifications
COMMENT 'One flat row per event with its current exit, for counting';

CREATE VIEW IF NOT EXISTS v_ledger $on_cluster AS
SELECT
    source,
    partition,
    count() AS read,
    countIf(disposition = 'classified') AS classified,
    countIf(disposition = 'stored') AS stored,
    countIf(disposition = 'duplicate') AS duplicate,
    countIf(disposition = 'conflicting') AS conflicting,
    countIf(disposition = 'dead_lettered') AS dead_lettered,
    countIf(disposition = 'filtered') AS filtered,
    min(offset) AS first_offset,
    max(next_offset) AS end_offset,
    end_offset - first_offset - sum(next_offset - offset) AS missing_offsets,
    min(recorded_at) AS first_recorded_at,
    max(recorded_at) AS last_recorded_at
FROM ingest_ledger FINAL
GROUP BY source, partition
COMMENT 'Per partition: messages read, what became of them, and offsets in between that no ledger row accounts for';

CREATE VIEW IF NOT EXISTS v_ledger_ranges $on_cluster AS
SELECT
    source,
    partition,
    min(offset) AS first_offset,
    max(next_offset) AS end_offset,
    count() AS messages
FROM
(
    SELECT
        source,
        partition,
        offset,
        next_offset,
        sum(starts) OVER (PARTITION BY source, partition ORDER BY offset ASC) AS range
    FROM
    (
        SELECT
            source,
            partition,
            offset,
            next_offset,
            offset != lagInFrame(next_offset, 1, -1) OVER (PARTITION BY source, partition ORDER BY offset ASC ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS starts
        FROM ingest_ledger FINAL
    )
)
GROUP BY source, partition, range
ORDER BY source ASC, partition ASC, first_offset ASC
COMMENT 'Runs of offsets without a hole, per partition';

CREATE VIEW IF NOT EXISTS v_dead_letters $on_cluster AS
SELECT *
FROM dead_letters FINAL
COMMENT 'Messages that are no valid record, each once';

CREATE VIEW IF NOT EXISTS v_conflicts $on_cluster AS
SELECT *
FROM conflicting_events FINAL
COMMENT 'Records whose identity was known with other content, each content once';
