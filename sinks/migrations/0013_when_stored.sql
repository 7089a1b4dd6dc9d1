-- What tells a settling in a moment which parts may hold anything that was stored since the last one. Rows are in the
-- order of hashes, so that within a part every stretch is as new as any other: one entry for each part is enough. Parts
-- that were written before have it when they are merged.

ALTER TABLE exit_classifications $on_cluster ADD INDEX IF NOT EXISTS when_stored classified_at TYPE minmax GRANULARITY 1000000;

ALTER TABLE legacy_exits $on_cluster ADD INDEX IF NOT EXISTS when_stored ingested_at TYPE minmax GRANULARITY 1000000;

ALTER TABLE recovery_actions $on_cluster ADD INDEX IF NOT EXISTS when_stored ingested_at TYPE minmax GRANULARITY 1000000;

ALTER TABLE review_events $on_cluster ADD INDEX IF NOT EXISTS when_stored ingested_at TYPE minmax GRANULARITY 1000000;

ALTER TABLE enrichments $on_cluster ADD INDEX IF NOT EXISTS when_stored ingested_at TYPE minmax GRANULARITY 1000000;
