-- Database, roles and users of a deployment, each with the least that it needs. Safe to run again; then passwords become
-- those given. Run it as a user that may manage access, before the first `offramp init`.

CREATE DATABASE IF NOT EXISTS $database $on_cluster;

-- What people ask runs under this. A read-only user can set nothing itself, so what the program relies on stands here.
CREATE SETTINGS PROFILE OR REPLACE offramp_reader $on_cluster SETTINGS
    $reader_settings,
    cancel_http_readonly_queries_on_client_close = 1,
    max_execution_time = 300,
    max_memory_usage = 4294967296;

CREATE ROLE IF NOT EXISTS offramp_reader $on_cluster;
GRANT $on_cluster SELECT, SHOW ON $database.* TO offramp_reader;

CREATE ROLE IF NOT EXISTS offramp_writer $on_cluster;
GRANT $on_cluster SELECT, SHOW, INSERT ON $database.* TO offramp_writer;

CREATE ROLE IF NOT EXISTS offramp_migrator $on_cluster;
GRANT $on_cluster SELECT, SHOW, INSERT, CREATE TABLE, CREATE VIEW, ALTER, DROP TABLE, DROP VIEW, TRUNCATE ON $database.* TO offramp_migrator;
GRANT $on_cluster CLUSTER, REMOTE ON *.* TO offramp_migrator;

CREATE USER OR REPLACE offramp_reader $on_cluster IDENTIFIED WITH sha256_hash BY '$reader_hash' SETTINGS PROFILE 'offramp_reader';
GRANT $on_cluster offramp_reader TO offramp_reader;

CREATE USER OR REPLACE offramp_writer $on_cluster IDENTIFIED WITH sha256_hash BY '$writer_hash';
GRANT $on_cluster offramp_writer TO offramp_writer;

CREATE USER OR REPLACE offramp_migrator $on_cluster IDENTIFIED WITH sha256_hash BY '$migrator_hash';
GRANT $on_cluster offramp_migrator TO offramp_migrator;
