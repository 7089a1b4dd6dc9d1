-- What is open, recounted from the stored rows alone. The lifecycle app derives the same from what it reads; a test
-- compares the two. -9e18 microseconds stands for no instant, which a tuple that is folded cannot hold.

CREATE TABLE IF NOT EXISTS obligation_queues $on_cluster
(
    table_digest String COMMENT 'sha256 of the canonical content of the decision table',
    queue String COMMENT 'queue that owns the obligations of exits that ask for no decision',
    owner String COMMENT 'who owns the queue',
    deadline_micros Int64 COMMENT 'time from the end of the run to the deadline, in microseconds',
    recorded_at DateTime64(6, 'UTC') COMMENT 'when it was recorded; the newest of several copies counts'
)
ENGINE = $replacing(recorded_at)
ORDER BY table_digest
COMMENT 'By decision table: where obligations wait whose exit names no queue';

-- Most of what ever asked for something is closed, and cheaply seen to be: decided and not opened again, with nothing
-- owed, or every component added. Whatever else there is to know of the others is found out of them alone. Rows that
-- were stored twice do no harm here, since nothing is counted.
CREATE VIEW IF NOT EXISTS v_unsettled_runs $on_cluster AS
SELECT DISTINCT tenant, run_id
FROM
(
    SELECT tenant, run_id
    FROM exit_classifications
    WHERE notEmpty(obligations)
    UNION ALL
    SELECT tenant, run_id
    FROM exit_classifications
    WHERE kind = 'human_queue' AND (tenant, event_id) NOT IN
    (
        SELECT tenant, assumeNotNull(event_id)
        FROM review_events
        WHERE event_id != '' AND event IN ('decided', 'opened')
        GROUP BY tenant, event_id
        HAVING min(event) = 'decided' AND max(event) = 'decided'
    )
    UNION ALL
    SELECT partials.tenant AS tenant, partials.run_id AS run_id
    FROM
    (
        SELECT
            tenant,
            event_id,
            run_id,
            arrayMap(x -> ifNull(x.1, ''), JSONExtract(ifNull(envelope, '{}'), 'omitted', 'Array(Tuple(component Nullable(String)))')) AS omitted
        FROM exit_classifications
        WHERE kind = 'partial'
    ) AS partials
    LEFT ANY JOIN
    (
        SELECT tenant, assumeNotNull(event_id) AS event_id, groupUniqArray(ifNull(component, '')) AS added
        FROM enrichments
        WHERE state = 'completed' AND event_id != ''
        GROUP BY tenant, event_id
    ) AS enriched ON enriched.tenant = partials.tenant AND enriched.event_id = partials.event_id
    WHERE NOT hasAll(enriched.added, partials.omitted)
        OR (partials.tenant, partials.event_id) IN (SELECT tenant, ifNull(event_id, '') FROM enrichments WHERE reverses_result)
        OR (partials.tenant, partials.run_id) IN (SELECT tenant, ifNull(run_id, '') FROM enrichments WHERE reverses_result)
)
COMMENT 'Runs of which something may be open, or was reversed; no run with an open item is missing';

CREATE VIEW IF NOT EXISTS v_run_exits $on_cluster AS
WITH (
    SELECT mapFromArrays(groupArray(concat(table_digest, ' ', classifier_version)), groupArray(toUnixTimestamp64Micro(activated_at)))
    FROM active_tables FINAL
) AS activations
SELECT *, rank = max(rank) OVER (PARTITION BY tenant, run_id) AS is_latest
FROM
(
    SELECT
        tenant,
        event_id,
        run_id,
        segment,
        agent_id,
        workflow,
        occurred_at,
        kind,
        reason_code,
        obligations,
        ifNull(envelope, '{}') AS envelope,
        queue,
        deadline,
        review_packet_id,
        table_digest,
        (ifNull(segment, 0), toUnixTimestamp64Micro(occurred_at), event_id) AS rank
    FROM exit_classifications FINAL
    WHERE identity IN (SELECT identity FROM exit_classifications WHERE (tenant, run_id) IN (SELECT tenant, run_id FROM v_unsettled_runs))
    ORDER BY
        identity ASC,
        tenant ASC,
        event_id ASC,
        activations[concat(table_digest, ' ', classifier_version)] DESC,
        classified_at DESC,
        table_digest ASC,
        classifier_version ASC
    LIMIT 1 BY identity, tenant, event_id
)
COMMENT 'Current exits, as in v_classifications, of the runs of which something may be open; a run stands at its latest segment';

CREATE VIEW IF NOT EXISTS v_exit_notes $on_cluster AS
WITH
    companions AS
    (
        SELECT
            'review_event' AS type, tenant, record_id, ifNull(event_id, '') AS named, ifNull(run_id, '') AS run, ifNull(segment, 0) AS part,
            at, ifNull(event, 'unknown') AS what, CAST(NULL, 'Nullable(String)') AS target, false AS reverses,
            ifNull(decision, '') AS said, ifNull(queue, '') AS to_queue, deadline AS until, ifNull(reviewer, '') AS who
        FROM review_events FINAL
        UNION ALL
        SELECT
            'recovery_action' AS type, tenant, record_id, ifNull(event_id, '') AS named, ifNull(run_id, '') AS run, ifNull(segment, 0) AS part,
            at, ifNull(action, 'unknown') AS what, operation_id AS target, false AS reverses,
            '' AS said, '' AS to_queue, CAST(NULL, 'Nullable(DateTime64(6, \'UTC\'))') AS until, '' AS who
        FROM recovery_actions FINAL
        UNION ALL
        SELECT
            'enrichment' AS type, tenant, record_id, ifNull(event_id, '') AS named, ifNull(run_id, '') AS run, ifNull(segment, 0) AS part,
            at, ifNull(state, 'unknown') AS what, CAST(ifNull(component, ''), 'Nullable(String)') AS target, ifNull(reverses_result, false) AS reverses,
            '' AS said, '' AS to_queue, CAST(NULL, 'Nullable(DateTime64(6, \'UTC\'))') AS until, '' AS who
        FROM enrichments FINAL
    ),
    subjects AS
    (
        SELECT tenant, event_id, run_id, kind, occurred_at, envelope, rank, subject
        FROM v_run_exits
        ARRAY JOIN [(event_id, '', toInt64(0)), ('', run_id, rank.1)] AS subject
    )
SELECT
    subjects.tenant AS tenant,
    subjects.event_id AS event_id,
    subjects.run_id AS run_id,
    subjects.kind AS kind,
    subjects.rank AS rank,
    subjects.envelope AS envelope,
    companions.type AS type,
    companions.record_id AS record_id,
    ifNull(toUnixTimestamp64Micro(companions.at), toUnixTimestamp64Micro(subjects.occurred_at)) AS moment,
    greatest(moment, toUnixTimestamp64Micro(subjects.occurred_at)) AS counted_at,
    companions.what AS what,
    companions.target AS target,
    companions.reverses AS reverses,
    companions.said AS decision,
    companions.to_queue AS queue,
    companions.until AS deadline,
    companions.who AS reviewer
FROM companions
INNER JOIN subjects ON subjects.tenant = companions.tenant
    AND subjects.subject = if(companions.named != '', (companions.named, '', toInt64(0)), ('', companions.run, companions.part))
WHERE companions.named != '' OR companions.run != ''
COMMENT 'What became of those exits, one row per companion record and event; what is undated counts as of the end of the run';

CREATE VIEW IF NOT EXISTS v_open_partials $on_cluster AS
WITH notes AS
(
    SELECT
        tenant,
        event_id,
        arraySort(groupArray((moment, record_id, ifNull(target, ''), what))) AS enrichments,
        max(reverses) AS reverses_result
    FROM v_exit_notes
    WHERE type = 'enrichment' AND kind = 'partial'
    GROUP BY tenant, event_id
)
SELECT
    exits.tenant AS tenant,
    exits.event_id AS event_id,
    exits.run_id AS run_id,
    exits.segment AS segment,
    exits.agent_id AS agent_id,
    exits.workflow AS workflow,
    exits.kind AS kind,
    exits.reason_code AS reason_code,
    exits.occurred_at AS opened_at,
    JSONExtract(exits.envelope, 'omitted', 'Array(Tuple(component Nullable(String), retryable Bool))') AS omitted,
    arrayMap(x -> x.3, arrayFilter(x -> x.4 = 'completed', notes.enrichments)) AS added,
    arraySort(arrayDistinct(arrayFilter(x -> NOT has(added, x), arrayMap(x -> ifNull(x.1, ''), omitted)))) AS missing,
    arrayFilter(name -> (arrayLast(x -> x.3 = name, notes.enrichments) AS last).3 = name AND last.4 = 'failed', missing) AS failed,
    arrayFilter(name -> (arrayLast(x -> x.3 = name, notes.enrichments) AS newest).3 = name AND newest.4 = 'superseded', missing) AS superseded,
    arrayFilter(name -> NOT arrayExists(x -> ifNull(x.1, '') = name AND x.2, omitted), missing) AS final,
    notes.reverses_result AS reverses_result,
    greatest(0, dateDiff('second', opened_at, now64(6, 'UTC'))) AS age_s
FROM v_run_exits AS exits
LEFT JOIN notes ON notes.tenant = exits.tenant AND notes.event_id = exits.event_id
WHERE exits.is_latest AND exits.kind = 'partial' AND notEmpty(missing)
COMMENT 'Partials that still lack a component: which, and which enrichment failed or was superseded';

CREATE VIEW IF NOT EXISTS v_reversals $on_cluster AS
SELECT tenant, event_id, run_id, ifNull(target, '') AS component, record_id, fromUnixTimestamp64Micro(moment, 'UTC') AS at
FROM v_exit_notes
WHERE type = 'enrichment' AND kind = 'partial' AND reverses
COMMENT 'Enrichments that showed an earlier partial to be wrong, open or not';

CREATE VIEW IF NOT EXISTS v_open_reviews $on_cluster AS
WITH
    toInt64(-9000000000000000000) AS none,
    steps AS
    (
        SELECT
            tenant,
            event_id,
            arraySort(groupArray((
                moment,
                record_id,
                type,
                counted_at,
                if(type = 'review_event', what, 'decided'),
                if(type = 'review_event', decision, what),
                queue,
                ifNull(toUnixTimestamp64Micro(deadline), -9000000000000000000),
                reviewer
            ))) AS taken
        FROM v_exit_notes
        WHERE type = 'review_event' OR (type = 'recovery_action' AND (
            what IN ('approved', 'rejected', 'overrode', 'resubmitted', 'closed', 'ignored')
            OR (what = 'compensated' AND has(JSONExtract(envelope, 'allowed_decisions', 'Array(String)'), 'compensate'))
            OR (what = 'reconciled' AND has(JSONExtract(envelope, 'allowed_decisions', 'Array(String)'), 'reconcile'))
        ))
        GROUP BY tenant, event_id
    ),
    deeds AS
    (
        SELECT tenant, run_id, groupArray((rank, what, ifNull(concat('=', target), ''))) AS done
        FROM v_exit_notes
        WHERE type = 'recovery_action' AND what IN ('compensated', 'reconciled')
        GROUP BY tenant, run_id
    ),
    stated AS
    (
        SELECT
            tenant,
            run_id,
            event_id,
            rank,
            duty,
            ifNull(concat('=', duty.2), '') AS operation,
            min(operation) OVER (PARTITION BY tenant, run_id) = max(operation) OVER (PARTITION BY tenant, run_id) AS is_single,
            rank = max(rank) OVER (PARTITION BY tenant, run_id, duty.1, operation) AS is_owner
        FROM v_run_exits
        ARRAY JOIN arrayDistinct(obligations) AS duty
    ),
    owed AS
    (
        SELECT stated.tenant AS tenant, stated.event_id AS event_id, arraySort(x -> (x.1, ifNull(x.2, '')), groupArray(stated.duty)) AS duties
        FROM stated
        LEFT JOIN deeds ON deeds.tenant = stated.tenant AND deeds.run_id = stated.run_id
        WHERE stated.is_owner AND NOT arrayExists(
            deed -> deed.1 >= stated.rank
                AND (deed.3 = stated.operation OR (deed.3 = '' AND stated.is_single))
                AND (deed.2 = 'compensated' OR stated.duty.1 = 'reconcile'),
            deeds.done
        )
        GROUP BY tenant, event_id
    ),
    courses AS
    (
        SELECT
            exits.tenant AS tenant,
            exits.event_id AS event_id,
            exits.run_id AS run_id,
            exits.segment AS segment,
            exits.agent_id AS agent_id,
            exits.workflow AS workflow,
            exits.kind AS kind,
            exits.reason_code AS reason_code,
            exits.is_latest AND exits.kind = 'human_queue' AS asks,
            if(exits.kind = 'human_queue', ifNull(exits.queue, ''), if(queues.queue != '', queues.queue, 'effects')) AS first_queue,
            if(exits.kind = 'human_queue', JSONExtractString(exits.envelope, 'owner'), queues.owner) AS first_owner,
            ifNull(exits.review_packet_id, concat('rp-', lower(hex(substring(SHA256(concat(exits.tenant, '\0', exits.event_id)), 1, 16))))) AS review_packet_id,
            owed.duties AS owed_duties,
            arrayFold(
                (a, x) -> CAST(
                    (
                        if(x.5 = 'opened' AND a.4, x.4, a.1),
                        if(x.5 IN ('opened', 'reassigned') AND x.7 != '', x.7, a.2),
                        multiIf(
                            x.5 IN ('opened', 'reassigned') AND x.8 != none, x.8,
                            x.5 IN ('resumed', 'decided') AND a.9 != none AND a.3 != none, a.3 + x.4 - a.9,
                            a.3
                        ),
                        multiIf(x.5 = 'decided', true, x.5 = 'opened', false, a.4),
                        multiIf(x.5 = 'decided', x.6, x.5 = 'opened', '', a.5),
                        multiIf(x.5 IN ('decided', 'reassigned') OR (x.5 = 'opened' AND a.4), false, x.5 = 'claimed' AND NOT a.4, true, a.6),
                        multiIf(
                            x.5 = 'opened' AND a.4, '',
                            x.5 = 'reassigned', x.9,
                            (x.5 = 'decided' OR (x.5 = 'claimed' AND NOT a.4)) AND x.9 != '', x.9,
                            a.7
                        ),
                        multiIf(
                            x.5 = 'decided' OR (x.5 = 'opened' AND a.4) OR (x.5 = 'reassigned' AND x.8 != none), false,
                            x.5 = 'expired' AND NOT a.4, true,
                            a.8
                        ),
                        multiIf(
                            x.5 IN ('resumed', 'decided') OR (x.5 = 'opened' AND a.4), none,
                            x.5 = 'paused' AND a.9 = none, x.4,
                            x.5 IN ('opened', 'reassigned') AND x.8 != none AND a.9 != none, x.4,
                            a.9
                        ),
                        multiIf(
                            x.5 = 'opened' AND a.4, 0,
                            (x.5 IN ('resumed', 'decided') OR (x.5 IN ('opened', 'reassigned') AND x.8 != none)) AND a.9 != none, a.10 + x.4 - a.9,
                            a.10
                        )
                    ),
                    'Tuple(Int64, String, Int64, Bool, String, Bool, String, Bool, Int64, Int64)'
                ),
                steps.taken,
                CAST(
                    (
                        toUnixTimestamp64Micro(exits.occurred_at),
                        first_queue,
                        multiIf(
                            exits.kind = 'human_queue', ifNull(toUnixTimestamp64Micro(exits.deadline), none),
                            queues.queue != '', toUnixTimestamp64Micro(exits.occurred_at) + queues.deadline_micros,
                            none
                        ),
                        false, '', false, '', false, none, 0
                    ),
                    'Tuple(Int64, String, Int64, Bool, String, Bool, String, Bool, Int64, Int64)'
                )
            ) AS course
        FROM v_run_exits AS exits
        LEFT JOIN steps ON steps.tenant = exits.tenant AND steps.event_id = exits.event_id
        LEFT JOIN owed ON owed.tenant = exits.tenant AND owed.event_id = exits.event_id
        LEFT JOIN (SELECT * FROM obligation_queues FINAL) AS queues ON queues.table_digest = exits.table_digest
    )
SELECT
    tenant,
    event_id,
    run_id,
    segment,
    agent_id,
    workflow,
    kind,
    reason_code,
    fromUnixTimestamp64Micro(course.1, 'UTC') AS opened_at,
    course.2 AS queue,
    if(queue = first_queue, first_owner, '') AS owner,
    review_packet_id,
    if(course.3 = none, NULL, fromUnixTimestamp64Micro(course.3, 'UTC')) AS deadline,
    if(course.9 = none, NULL, fromUnixTimestamp64Micro(course.9, 'UTC')) AS paused_since,
    course.10 AS paused_us,
    multiIf(course.9 != none, 'paused', course.4, 'decided', course.6, 'claimed', 'open') AS state,
    course.7 AS reviewer,
    course.8 AS expired,
    asks AND NOT course.4 AS decision_owed,
    if(course.4 AND course.5 = 'accept_effect', [], owed_duties) AS duties,
    toUnixTimestamp64Micro(now64(6, 'UTC')) AS until,
    greatest(0, intDiv(if(course.9 = none, until, least(until, course.9)) - course.1 - course.10, 1000000)) AS age_s,
    expired OR (course.3 != none AND course.3 + if(course.9 = none, 0, greatest(0, until - course.9)) < until) AS overdue
FROM courses
WHERE decision_owed OR notEmpty(duties)
COMMENT 'Reviews that wait for a decision or for what an obligation asks, one per event; paused time counts for neither age nor deadline';
