-- Brings a store of schema 1 to schema 2, in one transaction, after the store was copied (H4).
-- What a new column means stands beside it in schema.sql; a test compares the two.

-- F2: an outage, kept along the chain.
alter table run add column outage_since bigint;
alter table run add column outage_count integer not null default 0;
alter table run add column outage_ms bigint not null default 0;
alter table run add column outage_told integer not null default 0 check (outage_told in (0, 1));

-- The ledger (L5-L7). What a tool promised was not kept before: without its connector nothing of such a row is believed for a day.
-- Whether a row was sent again while unknown is read off its counts, so that a late no never settles one that was.
alter table mutation add column lag_ms bigint;
alter table mutation add column timeout_ms bigint;
alter table mutation add column key_lifetime_ms bigint;
alter table mutation add column first_boot text;
alter table mutation add column first_boot_ms bigint;
alter table mutation add column is_resent integer not null default 0 check (is_resent in (0, 1));
alter table mutation add column outage_since bigint;
alter table mutation add column outage_count integer not null default 0;
alter table mutation add column outage_ms bigint not null default 0;
alter table mutation add column outage_told integer not null default 0 check (outage_told in (0, 1));
alter table mutation add column late text;
create index mutation_by_key on mutation (key) where first_sent_at is not null;
update mutation set is_resent = 1 where attempt > 1;

-- W9: the file a version came from.
alter table version add column path text;
-- S2: a clock that was wrong is noticed by the time a plan was made at; what is planned already is looked at once.
alter table handler add column planned_at bigint not null default 0;
update handler set planned_at = next_run_at where next_run_at is not null;
create index handler_planned on handler (planned_at) where kind = 'producer' and orphaned = 0 and next_run_at is not null;
