-- What the sql connector writes for itself, beside the statements of the settings. Values are bound.

-- has_calls
-- Whether the table of what was done is there (SQLite).
select count(*) from pragma_table_info('duly_calls')

-- has_calls_on_server
-- The same on PostgreSQL.
select count(*) from pg_catalog.pg_class where oid = to_regclass('duly_calls')

-- lock_calls
-- On PostgreSQL two first calls would make the table at once, and one of them would be refused. The second waits here.
select pg_advisory_xact_lock(hashtext('duly_calls'))

-- commit_on_disk
-- A database may be set to answer a commit before it is on the disk. What was answered would then be lost with the next crash, and its record with it.
select set_config('synchronous_commit', 'on', true) from (select current_setting('synchronous_commit') as now) as known where now = 'off'

-- now_ms
-- The clock of the database: of hosts whose clocks differ it belongs to none. The table of records is dated by it.
select cast((julianday('now') - 2440587.5) * 86400000 as integer)

-- now_ms_on_server
-- The same on PostgreSQL.
select cast(extract(epoch from clock_timestamp()) * 1000 as bigint)

-- create_calls
-- Which call was made, and what came of it: written in the transaction that makes the change.
create table duly_calls (key text primary key, tool text not null, result text, sent_ms bigint not null)

-- insert_call
-- A second sender of the same key waits here until the first has ended, and then inserts nothing.
insert into duly_calls (key, tool, result, sent_ms) values (:key, :tool, null, :sent_ms) on conflict (key) do nothing returning key

-- keep_result
update duly_calls set result = :result where key = :key

-- find_call
select result, sent_ms from duly_calls where key = :key
