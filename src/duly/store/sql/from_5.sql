-- Brings a store of schema 5 to schema 6, in one transaction, after the store was copied (H4): the machine
-- whose files a workflow uses (H7), the host that calls a handler (H8), the timeline that a host has compared (H10), the handle of a call (L14), what it was sent with, when, and since when no send is out, by the server's clock (L7, L6), blobs (K15),
-- accounts that decide over a channel and what they were asked (G11), whether a tool can be asked (K10),
-- sources that are proposed (M6), what was asked of language models (M2), and an index that has all that the activity of a day is counted from (U1).
drop index event_consumed;
create index event_consumed on event (workflow_id, finished_at, seq, topic) where status = 'consumed';
alter table host add column machine text;
alter table host add column timeline bigint;
alter table workflow add column machine text;
alter table delivery add column holder text;
alter table mutation add column handle text;
alter table mutation add column basis text;
alter table mutation add column first_clock bigint;
alter table mutation add column ended_clock bigint;
-- K15: bytes that a workflow was given. Its scripts see the digest, the size, a name and a type; only tools see the bytes.
create table blob (
  workflow_id     text not null references workflow (id),
  digest          text not null check (length(digest) = 64),             -- SHA-256, in hexadecimal
  size            bigint not null,
  status          text not null check (status = 'writing' or status = 'kept' or status = 'leaving' or status = 'removed'),
  was_whole       integer not null default 0 check (was_whole in (0, 1)),  -- H5: then its digest and size stay for good
  created_at      bigint not null,
  used_at         bigint not null,                                       -- when it was last given to the workflow, or by it to a tool
  primary key (workflow_id, digest)
);
create index blob_by_use on blob (used_at, workflow_id, digest) where status <> 'removed';
create index blob_sizes on blob (workflow_id, size) where status in ('writing', 'kept');
create index blob_leaving on blob (workflow_id, digest) where status = 'leaving';

create table blob_part (
  workflow_id     text not null,
  digest          text not null,
  number          integer not null,
  body            blob not null check (262144 >= length(body)),
  primary key (workflow_id, digest, number),
  foreign key (workflow_id, digest) references blob (workflow_id, digest)
);

-- K10: whether a tool can be asked, tried once with the user's own account. It is written before the first byte leaves.
create table proof (
  tool            text primary key,
  key             text not null,                                         -- of the call that was made for it
  args            text not null,
  basis           text not null,                                         -- a digest of what it depends on: service, account, secrets
  status          text not null check (status = 'begun' or status = 'proven' or status = 'failed'),
  fault           text,                                                  -- why it failed
  said            text,                                                  -- what the outside said about that
  handle          text,                                                  -- L14
  begun_by        text not null,
  begun_at        bigint not null,
  ended_at        bigint
);

-- G11: an account of a person that may decide over a channel. Until it is paired its row has the digest of a code.
create table pairing (
  channel         text not null,
  name            text not null check (length(name) between 1 and 60),
  account         text,                                                  -- at the service; null: not paired yet
  digest          text,                                                  -- of the code that pairs it, once
  made_by         text not null,
  made_at         bigint not null,
  paired_at       bigint,
  primary key (channel, name),
  check ((account is null) = (digest is not null) and (account is null) = (paired_at is null))
);
create unique index pairing_one_account on pairing (channel, account) where account is not null;

-- G11: a message that asks one account about one content of one call; it is found by the digest of its code.
create table slip (
  id              text primary key,
  channel         text not null,
  account         text not null,
  mutation_id     text not null references mutation (id),
  hash            text not null,                                         -- of the call that it shows
  digest          text not null unique,
  status          text not null check (status = 'sending' or status = 'asked' or status = 'closed'),
  message         text,                                                  -- its id at the service, once that is known
  made_at         bigint not null,
  closed_at       bigint,
  check ((status = 'closed') = (closed_at is not null))
);
create unique index slip_one_open on slip (channel, account, mutation_id) where status <> 'closed';
create index slip_closed on slip (closed_at) where status = 'closed';    -- H5: what retention removes

create table proposal (
  hash            text primary key,
  workflow        text not null,
  replaces        text,
  language        text not null check (language in ('javascript', 'python')),
  source          text not null,
  findings        text not null,
  uses            text not null,
  author          text not null,
  note            text not null,
  created_at      bigint not null
);

-- M2: a question to a language model. It is written before the question leaves, and kept for the newest of each workflow.
create table model_question (
  id              text primary key,
  workflow_id     text not null,                                         -- whose budget pays; '': the host's own
  run_id          text,
  chain           text,                                                  -- M3: within it the same question is asked once
  model           text not null,                                         -- as the settings name it
  purpose         text not null,
  digest          text not null,                                         -- of all that was asked
  question        text not null,                                         -- its beginning, without secrets
  status          text not null check (status = 'asked' or status = 'answered' or status = 'failed'),
  answer          text,                                                  -- without secrets, as the caller got it
  fault           text,                                                  -- the code of what went wrong
  reserved        bigint not null,                                       -- tokens, until it is known what it took
  tokens_in       bigint not null default 0,
  tokens_out      bigint not null default 0,
  asked_at        bigint not null,
  ended_at        bigint,
  check ((status = 'asked') = (ended_at is null) and (status = 'answered') = (answer is not null))
);
create index model_question_of_chain on model_question (chain, digest) where status = 'answered' and chain is not null;
create index model_question_by_workflow on model_question (workflow_id, id);
create index model_question_old on model_question (asked_at);            -- H5: what retention removes

-- M2: what was asked of a model in a day of UTC, for one workflow; it counts on before a question leaves.
create table model_day (
  workflow_id     text not null,
  model           text not null,
  day             bigint not null,                                       -- days since 1970
  calls           bigint not null,
  reserved        bigint not null,
  tokens_in       bigint not null,
  tokens_out      bigint not null,
  primary key (workflow_id, model, day)
);
create index model_day_old on model_day (day);
