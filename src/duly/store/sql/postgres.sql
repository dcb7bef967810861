-- The few statements that PostgreSQL must be told in other words, and those that it alone has.
-- Format as in queries.sql; a name here takes the place of the same name there.

-- server_clock
-- Leases are counted by the clock of the server, in milliseconds (H2).
select cast(extract(epoch from clock_timestamp()) * 1000 as bigint)

-- flush_log
-- A commit that writes to the log and waits for the disk makes every commit before it durable (L2).
select pg_logical_emit_message(true, 'duly', '')

-- look_at_workflow
-- The row is locked here, and holds until the transaction ends: what is decided on it stays true (H2).
select epoch, counter, paused, active_version, name from workflow where id = :id and removed_at is null for no key update

-- refer_to_allowance
-- Part of the schema: a call and the allowance it was sent under refer to each other (A3).
alter table mutation add foreign key (allowance_id) references allowance (id)
