-- The newest hour first, in the order of the groups themselves: the engine then keeps no more groups than a page shows.
-- Hours are counted from 1890, before any instant that is stored, since whole numbers are grouped faster than instants.
-- Of evidence gaps only their number is read.

CREATE OR REPLACE VIEW v_coverage $on_cluster AS
SELECT
    stored.tenant AS tenant,
    stored.agent_id AS agent_id,
    stored.agent_version AS agent_version,
    stored.workflow AS workflow,
    toDate32(hour) AS day,
    fromUnixTimestamp64Micro((toInt64(hours) - 700000) * 3600000000, 'UTC') AS hour,
    count() AS runs,
    toUInt64(runs - event_missing + superseded_events) AS events,
    sum(stored.superseded) AS superseded_events,
    toUInt64(runs - legacy_missing - event_missing) AS paired,
    countIf(stored.pairing = 'legacy_missing') AS legacy_missing,
    countIf(stored.pairing = 'event_missing') AS event_missing,
    countIf(stored.legacy_kind = 'unmapped') AS unmapped,
    sum(stored.legacy_contested) AS contested,
    countIf(stored.evidence_gaps.size0 > 0) AS gaps
FROM comparisons AS stored FINAL
WHERE NOT stored.gone
GROUP BY
    toUInt32(intDiv(toUnixTimestamp64Micro(stored.occurred_at) + 2520000000000000, 3600000000)) AS hours,
    tenant,
    agent_id,
    agent_version,
    workflow
ORDER BY hours DESC, tenant ASC, agent_id ASC, agent_version ASC, workflow ASC
COMMENT 'What was seen and what was not, per agent, version, workflow and hour, the newest hour first; of a missing event nothing is known but the tenant';
