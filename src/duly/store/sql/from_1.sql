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
alter table mutation add column asked integer not null default 0 check (asked in (0, 1));
alter table mutation add column approved_by text;
alter table mutation add column allowance_id text references allowance (id);
alter table mutation add column args_proposed text;
alter table mutation add column amended_by text;
-- L11: the host that brings a store up seals the open rows, in this same life; a row without a seal is sent by no other.
alter table mutation add column seal text;
alter table mutation add column known_how text check (known_how = 'answered' or known_how = 'asked' or known_how = 'sent_again' or known_how = 'settled' or known_how = 'unsent');
alter table mutation add column known_at bigint;
alter table mutation add column known_by text;
alter table mutation add column known_said text;
create index mutation_by_key on mutation (key) where first_sent_at is not null;
create index mutation_allowed on mutation (allowance_id) where allowance_id is not null;
update mutation set is_resent = 1 where attempt > 1;
update mutation set asked = 1 where status = 'proposed' and exists (select 1 from run r where r.id = mutation.held_by and r.waits = 'approval');

-- A3: the next calls of a tool that need no further yes.
create table allowance (
  id              text primary key,
  workflow_id     text not null references workflow (id),
  mutation_id     text not null references mutation (id),
  tool            text not null,
  version         text not null,
  args            text not null,
  matching        text not null,
  calls           integer not null check (calls > 0),
  until           bigint not null,
  given_by        text not null,
  given_at        bigint not null,
  revoked_by      text,
  revoked_at      bigint,
  seal            text not null
);
create index allowance_by_tool on allowance (workflow_id, tool, version);

-- W9: the file a version came from.
alter table version add column path text;
-- S2: a clock that was wrong is noticed by the time a plan was made at; what is planned already is looked at once.
alter table handler add column planned_at bigint not null default 0;
update handler set planned_at = next_run_at where next_run_at is not null;
create index handler_planned on handler (planned_at) where kind = 'producer' and orphaned = 0 and next_run_at is not null;

-- B5: what ran when a host died runs alone. B13: a subscription is ended in turns.
alter table delivery add column suspect integer not null default 0 check (suspect in (0, 1));
alter table subscription add column leaving integer not null default 0 check (leaving in (0, 1));
alter table subscription add column channel text;
create index subscription_leaving on subscription (position) where leaving = 1;
-- B2: a delay is measured by the clock of the boot; what was deferred before belongs to no boot that is known.
alter table deferred add column boot text;
alter table deferred add column due_ms bigint not null default 0;
create index deferred_due on deferred (status, due_ms, id);
create index deferred_by_source on deferred (source) where status = 'scheduled';
create index deferred_by_second on deferred (fire_at / 1000.0);
