-- Brings a store of schema 3 to schema 4, in one transaction, after the store was copied (H4).
-- What a new column means stands beside it in schema.sql; a test compares the two.

create table host (
  id              text primary key,                                      -- new at every start
  started_at      bigint not null,
  lease_until     bigint                                                 -- by the database's clock; null: its lease is the file's lock (H6)
);
alter table workflow drop column lease_until;
alter table run add column epoch bigint;

-- H2: what is open was taken up by a host that is gone, before any claim.
update workflow set holder = null;
update run set epoch = 0 where open = 1;
