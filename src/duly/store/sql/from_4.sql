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
