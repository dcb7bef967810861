-- The few statements that PostgreSQL must be told in other words, and those that it alone has.
-- Format as in queries.sql; a name here takes the place of the same name there.

-- server_clock
-- Leases are counted by the clock of the server, in milliseconds (H2).
select cast(extract(epoch from clock_timestamp()) * 1000 as bigint)

-- set_limits
-- How a commit waits for the disk, how long a transaction may stand still, and how long a statement may take: until the transaction ends (H2, L2).
select set_config('synchronous_commit', :commit, true), set_config('idle_in_transaction_session_timeout', :idle, true), set_config('statement_timeout', :statement, true)

-- guard_some
-- How a write is sent that must change a row: the server divides by zero otherwise, and runs nothing more of what was sent with it (R8). Without a language of its own it has nothing better to raise.
with changed as (:write returning 1) select 1 / count(*) from changed

-- guard_all
-- The same of a write that must change so many rows.
with changed as (:write returning 1) select 1 / cast(count(*) = cast(:rows as bigint) as integer) from changed

-- find_store
-- Which schema a database has; nothing before its first host has made one (H4).
select case when to_regclass('store') is not null then 'duly' when exists (select 1 from pg_tables where schemaname = current_schema()) then 'another' end

-- judge_server
-- What the promise depends on and the server decides: for `doctor` (H10).
select current_setting('server_version_num')::integer, current_setting('fsync'), current_setting('full_page_writes'),
  current_setting('synchronous_standby_names'), current_setting('max_connections')::integer,
  (select count(*) from pg_stat_activity where datname = current_database())::integer,
  (select count(*) from pg_stat_replication)::integer, cast(extract(epoch from clock_timestamp()) * 1000 as bigint)

-- list_timeouts
-- Timeouts that hold for this user and that hosts do not set by themselves, in milliseconds: they end what a host still works on; for `doctor` (H10).
select name, setting::bigint from pg_settings
where name in ('lock_timeout', 'transaction_timeout', 'idle_session_timeout') and setting <> '0' order by name

-- list_homeless
-- Workflows that are bound to a machine on which no host serves: for `doctor` (H7).
select w.name, w.machine from workflow w where w.machine is not null and w.removed_at is null
  and not exists (select 1 from host h where h.machine = w.machine and h.serves = 1) order by w.name limit 20

-- list_unserved
-- Workflows for which each host that serves lacks a tool, and what: for `doctor` (H7).
select w.name, string_agg(length(u.host) || ' ' || u.host || ' ' || u.tool, ',' order by u.host, u.tool) from unserved u join workflow w on w.id = u.workflow_id
where w.removed_at is null group by w.name order by w.name limit 20

-- list_offers
-- What each host that serves says of its tools and settings: for `doctor` (H7).
select coalesce(name, id), offers from host where serves = 1 order by 1

-- begin_inquiry
-- How the transaction of a person's own SELECT begins: it sees one moment, and writes nothing (H1).
set transaction isolation level repeatable read read only

-- limit_inquiry
-- How long a statement may take that reads a view for it.
select set_config('statement_timeout', %s, true)

-- read_view
-- Some columns of a documented view; the names are those that the server has listed itself.
select {} from {}

-- list_view_columns
-- The columns of the documented views, in their order (H1).
select table_name::text, array_agg(column_name::text order by ordinal_position) from information_schema.columns
where table_schema = current_schema() and table_name = any (%s) group by table_name

-- list_told
-- What was announced about these runs (B10; scan of journal): PostgreSQL has another word for a member of an object.
select j.id from journal j where j.source = :source and cast(j.payload as json) ->> 'run' in (select i.key from json_each(:run_ids) i) order by j.id limit :limit

-- get_store_version
-- The schema of this database.
select version from store

-- get_oldest_version
-- The oldest version whose hosts work on the schema as it is; nothing if only those of its own do (H11).
select at from upkeep where name = 'oldest schema'

-- put_oldest_version
-- Written in the transaction that changes the schema (H11).
insert into upkeep (name, at) values ('oldest schema', :oldest) on conflict (name) do update set at = excluded.at

-- limit_migration
-- No host waits long for the locks of a change, and the change waits for no host: it is tried again (H11).
set local lock_timeout = '3s'

-- lock_hosts
-- No host comes or goes while the schema is changed (H11).
lock table host in share row exclusive mode

-- count_live_hosts
-- Hosts that are at work: they know the schema as it is (H11).
select count(*)::integer from host where lease_until > extract(epoch from clock_timestamp()) * 1000

-- change_store_version
-- Written in the transaction that changes the schema.
update store set version = :version

-- put_store_version
-- Written in the transaction that makes the schema.
insert into store (version) values (:version)

-- server_timeline
-- Each promotion of a standby begins another timeline; the name of the log begins with it (H10).
select cast(('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32) as integer)

-- server_started
-- Which run of the server, and which database of it: a disk that is brought back needs a new run, a dump another database (H10).
select (extract(epoch from pg_postmaster_start_time()) * 1000)::bigint * 4096 + (select oid::bigint % 4096 from pg_database where datname = current_database())

-- before_get_timeline
-- Of two hosts that notice a promotion one waits for the other, and finds it noted (H10).
select 1 from store for no key update

-- before_get_mark
-- Of two hosts that tell of a day, or find a restored store, one waits for the other and finds it done (B1, H5).
select 1 from upkeep where name = :name for no key update

-- before_event_turn
-- Of two hosts that tidy one waits for the other: what is removed is removed, and counted, once (H5). There is no row that only they lock.
select pg_advisory_xact_lock(hashtext('duly tidy'))

-- before_run_turn
-- As before_event_turn.
select pg_advisory_xact_lock(hashtext('duly tidy'))

-- before_journal_turn
-- As before_event_turn.
select pg_advisory_xact_lock(hashtext('duly tidy'))

-- agree_on_key
-- Hosts that seal with different keys would take each other's rows for forged ones (H12).
update store set key_name = :name where key_name is null or key_name = :name

-- replace_key
-- A key is replaced while no host is at work (H12).
update store set key_name = :name where key_name = :old_name
  and not exists (select 1 from host where lease_until > extract(epoch from clock_timestamp()) * 1000)

-- create_own
-- Part of the schema: which version it has; and of each connection of a host how many of its writes are committed (H10). The counters of a host that is evicted go with it, which waits for its open transactions (H2).
create table store (version integer not null, key_name text);
create table slot (
  host            text collate "C" not null references host (id) on delete cascade,
  number          integer not null,
  session         bigint not null,
  commit_seq      bigint not null,
  primary key (host, number)
) with (fillfactor = 50)

-- enter_slot
-- A new connection of a host: it waits until the transaction of the one before it has ended, refuses what comes of that later, and reads how many writes are committed (H10).
insert into slot (host, number, session, commit_seq) select id, :number, 1, 0 from host where id = :host
on conflict (host, number) do update set session = slot.session + 1 returning session, commit_seq

-- list_slots
-- How many writes of each connection of a host are committed (H10).
select number, commit_seq from slot where host = :host

-- move_slot
-- The first statement of every write of a host; a host that was evicted has no row (H2).
update slot set commit_seq = commit_seq + 1 where host = :host and number = :number and session = :session returning commit_seq

-- ring
-- Tells other hosts where to look; in a transaction of its own, for a commit with a notification waits for all others (H9).
select pg_notify('duly', :told)

-- flush_log
-- A commit that writes to the log and waits for the disk makes every commit before it durable (L2).
select pg_logical_emit_message(true, 'duly', '')

-- look_at_workflow
-- The row is locked here, and holds until the transaction ends: what is decided on it stays true (H2).
select epoch, counter, paused, active_version, name, holder from workflow where id = :id and removed_at is null for no key update

-- look_at_mutation
-- The row is locked here: what is decided on it stays true (H5).
select 1 from mutation where id = :id for no key update

-- get_journal_event
-- The row is locked here: of two hosts that move an event one waits for the other (H8).
select id, topic, source, payload, correlation_id, causation_id, depth, status, opened, undelivered, error, created_at, processed_at
from journal where id = :id for no key update

-- before_event_records
-- What becomes of an event follows from all its records, so no two transactions may change them at once (B4).
select 1 from journal where id = :event_id for no key update

-- before_overdue_deferred_events
-- Of two hosts that put overdue events on the bus one waits for the other; each fires once (B2).
select 1 from counter where name = 'journal' for no key update

-- before_get_subscription
-- Two hosts may register the same subscriber at the same moment (B13).
select 1 from counter where name = 'subscription' for no key update

-- before_topic_lanes
-- An event is opened for the subscribers that are there: none of them goes before its records are written, or they would wait for ever (B13).
select 1 from subscription where topic = :topic and leaving = 0 order by subscriber_id for key share

-- before_leave_subscription
-- A subscriber goes after every event that is just being opened for it, and closes that record too (B13).
select 1 from subscription where subscriber_id = :subscriber_id for update

-- before_get_blob
-- Of two writers of the same bytes, and a host that tidies, one waits for the other and sees what became of them (K15).
select 1 from blob where workflow_id = :workflow_id and digest = :digest for no key update

-- before_use_blob
-- As before_get_blob: whether a blob is whole holds until the transaction ends.
select 1 from blob where workflow_id = :workflow_id and digest = :digest for no key update

-- before_next_leaving_blob
-- Of two hosts that remove parts one waits, and then sees what is left.
select 1 from blob where status = 'leaving' order by workflow_id, digest limit 1 for no key update

-- before_find_subscription_holder
-- Of two hosts that want a subscriber one waits for the other (H8).
select 1 from subscription where subscriber_id = :subscriber_id for no key update

-- before_running_of_holder
-- Of two hosts that give back what a gone one was telling, one waits, and finds it given back (H8).
select 1 from delivery where status = 'running' and coalesce(holder, '') = :holder order by event_id, subscriber_id for no key update

-- before_claim_workflow
-- Of two hosts that want a workflow one waits for the other, and then sees the host that has it (H2).
select 1 from workflow where id = :id for no key update

-- refer_to_allowance
-- Part of the schema: a call and the allowance it was sent under refer to each other (A3).
alter table mutation add foreign key (allowance_id) references allowance (id)

-- list_moves
-- For every table that holds what a file held: how its rows are read, from a file and from a server alike, and how they are taken in. Hosts and their connections stay behind.
select table_name, 'select ' || columns || ' from ' || quote_ident(table_name), 'copy ' || quote_ident(table_name) || ' (' || columns || ') from stdin'
from (
  select c.table_name, string_agg(quote_ident(c.column_name), ', ' order by c.ordinal_position) as columns
  from information_schema.columns c join information_schema.tables t on t.table_schema = c.table_schema and t.table_name = c.table_name
  where c.table_schema = current_schema() and t.table_type = 'BASE TABLE' and c.table_name not in ('store', 'slot', 'host', 'offer')
  group by c.table_name
) found order by table_name

-- defer_references
-- How references are left unchecked until all rows are there: tables refer to each other and to themselves.
select 'alter table ' || conrelid::regclass || ' alter constraint ' || quote_ident(conname) || ' deferrable initially deferred'
from pg_constraint where contype = 'f' and connamespace = current_schema()::regnamespace

-- check_references
-- All of them, now.
set constraints all immediate

-- keep_references
-- And how they are checked at once again.
select 'alter table ' || conrelid::regclass || ' alter constraint ' || quote_ident(conname) || ' not deferrable'
from pg_constraint where contype = 'f' and connamespace = current_schema()::regnamespace

-- empty_counters
-- What a new store begins with, and what a moved one brings along.
delete from counter

-- empty_upkeep
-- What hosts have noted that looked at an empty store: it is not true of the one that is moved here.
delete from upkeep

-- drop_key_name
-- The key of the file that is moved here is the one that seals its rows (H12).
update store set key_name = null

-- count_bytes
-- How large the database is, as the server's own files say.
select pg_database_size(current_database())

-- empty_run
-- As in upkeep.sql; the server has no rowid, and finds room for itself.
update run set emptied = 1, prepared = null, wake_at_asked = null, result = null, state_before = null, state_after = null,
  clock_at = null, seed = null, error = null, escalated = null, calls = null, logs = null
where id = :id and open = 0

-- empty_mutation
-- As in upkeep.sql.
update mutation set args = :args, title = :title, args_proposed = null, result = null, error = null
where run_id = :run_id and (status = 'applied' or status = 'failed' or status = 'rejected' or status = 'skipped')
