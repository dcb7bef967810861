-- Brings a store of schema 4 to schema 5, in one transaction, after the store was copied (H4).
-- What a new column means stands beside it in schema.sql; a test compares the two.

create table token (
  name            text primary key check (length(name) between 1 and 80),
  id              text not null unique,                                  -- the part of a token that finds this row
  kind            text not null check (kind in ('token', 'device')),
  scope           text not null check (scope = 'read' or scope = 'agent' or scope = 'decide' or scope = 'admin'),
  digest          text not null,
  made_by         text not null,
  made_at         bigint not null,
  expires_at      bigint                                                 -- null: until it is revoked
);

drop table host;
create table host (
  id              text primary key,                                      -- new at every start
  name            text,                                                  -- the machine and the process, for people
  started_at      bigint not null,
  serves          integer not null default 0 check (serves in (0, 1)),   -- H7: it runs workflows, and does not only take acts
  lease_until     bigint                                                 -- by the database's clock; null: its lease is the file's lock (H6)
);
alter table subscription add column holder text;
create index action_of_pause on action (workflow_id, id) where verb = 'pause';  -- U1: who paused it, however much was published since
