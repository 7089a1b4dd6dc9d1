-- Alerts as they fired and were resolved: one row for each time that a rule fired for a scope, rewritten while its value
-- moves. What is only pending is in the evaluator's state, which is all that has to survive a restart of it.

CREATE TABLE IF NOT EXISTS exit_alerts $on_cluster
(
    rule LowCardinality(String) COMMENT 'id of the alert rule',
    tenant String COMMENT 'tenant that it is about; empty for all',
    agent_id LowCardinality(String) COMMENT 'agent that it is about; empty for all',
    workflow LowCardinality(String) COMMENT 'workflow that it is about; empty for all',
    queue LowCardinality(String) COMMENT 'queue that it is about; empty for all, or where queues do not apply',
    since DateTime64(6, 'UTC') COMMENT 'since when its condition holds',
    state LowCardinality(String) COMMENT 'firing or resolved',
    fired_at Nullable(DateTime64(6, 'UTC')) COMMENT 'when it began to fire',
    resolved_at Nullable(DateTime64(6, 'UTC')) COMMENT 'when it was resolved; NULL while it fires',
    value Float64 COMMENT 'what was measured last, in the unit of the threshold',
    threshold Float64 COMMENT 'what it was held against, of a rate the usual one taken into account',
    severity LowCardinality(String) COMMENT 'page or ticket',
    owner LowCardinality(String) COMMENT 'whose it is',
    runbook String COMMENT 'page that leads from the alert to a remedy',
    cause String COMMENT 'cause that the numbers point to, in words; empty if none was computed',
    contributors Array(Tuple(name String, size Float64)) COMMENT 'what adds to it and how much, the most important first',
    summary String COMMENT 'what the rule says, in words',
    rules_digest LowCardinality(String) COMMENT 'sha256 of the rule file that it was judged by',
    recorded_at DateTime64(6, 'UTC') COMMENT 'when it was last judged'
)
ENGINE = $replacing(recorded_at)
ORDER BY (rule, tenant, agent_id, workflow, queue, since)
$ttl_recorded_at
COMMENT 'One row each time that a rule fired for a scope. Read it through v_alerts';

CREATE TABLE IF NOT EXISTS alert_evaluations $on_cluster
(
    evaluator String COMMENT 'name of the evaluator; those that stand in for one another share it',
    holder String COMMENT 'process that evaluated last',
    rules_digest String COMMENT 'sha256 of the rule file that it evaluated',
    evaluated_at DateTime64(6, 'UTC') COMMENT 'moment as of which it evaluated',
    state String CODEC(ZSTD(1)) COMMENT 'where the evaluation stands, as JSON text',
    recorded_at DateTime64(6, 'UTC') COMMENT 'when it was recorded'
)
ENGINE = $replacing(recorded_at)
ORDER BY evaluator
$ttl_recorded_at
COMMENT 'Where each evaluator of alert rules stands. Read it through v_alert_evaluations';

CREATE VIEW IF NOT EXISTS v_alerts $on_cluster AS
SELECT
    rule,
    tenant,
    agent_id,
    workflow,
    queue,
    state,
    since,
    fired_at,
    resolved_at,
    value,
    threshold,
    severity,
    owner,
    runbook,
    cause,
    contributors,
    summary,
    rules_digest,
    recorded_at
FROM exit_alerts FINAL
COMMENT 'Alerts that fire, and those that were resolved, each once';

CREATE VIEW IF NOT EXISTS v_alert_evaluations $on_cluster AS
SELECT evaluator, holder, rules_digest, evaluated_at, state, recorded_at
FROM alert_evaluations FINAL
COMMENT 'Where each evaluator of alert rules stands; an alert is only as new as its last evaluation';
