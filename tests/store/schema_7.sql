-- One schema for SQLite and PostgreSQL.
-- Times are integers: milliseconds since 1970, passed in, never asked for. Ids and JSON are text; bus ids
-- are integers taken from `counter`, so that they become visible in order. Every status column lists its
-- words, the same words as the enums of `duly.rules`, so the database knows the rules too. Three words or
-- more are joined by `or`: of a longer `in (…)` SQLite would build a table again at every row it checks.
--
-- Hosts       host, offer                                who runs workflows now, and with which tools
-- Workflows   workflow, version, need, handler, topic    what is deployed, which tools it needs, and when it is due
-- Events      event, payload, cause, reservation         what came in, what it says, what it led to
-- Runs        run, mutation, recording                   what was tried, the ledger of outside changes, what was read
-- Blobs       blob, blob_part                            bytes that workflows were given, by their digest
-- People      granted, allowance, secret, token, proposal, action  what is allowed, who is let in, what is proposed, and who did what
-- Channels    pairing, slip                              which accounts may decide, and what they were asked
-- Models      model_question, model_day                  what was asked of language models, and how much in a day
-- Bus         counter, journal, subscription, delivery, deferred, extension_state
-- Upkeep      upkeep                                     when the store was looked after, and whether it is a copy

-- A host is here from its start until it ends or is evicted (H2). What a host that is not here has claimed is free.
create table host (
  id              text primary key,                                      -- new at every start
  name            text,                                                  -- the machine and the process, for people
  started_at      bigint not null,
  serves          integer not null default 0 check (serves in (0, 1)),   -- H7: it runs workflows, and does not only take acts
  lease_until     bigint,                                                -- by the database's clock; null: its lease is the file's lock (H6)
  machine         text,                                                  -- H7: where its files are; null if it is alone
  timeline        bigint,                                                -- H10: of the server, when the host last compared what it was told
  offers          text                                                   -- H7: digests of its tools and settings; null: it has not said, and may take everything
);

-- H7: the tools of a host that has said what it offers. They go with its row.
create table offer (
  host            text not null references host (id) on delete cascade,
  tool            text not null,
  primary key (host, tool)
);

create table workflow (
  id              text primary key,
  name            text not null check (length(name) between 1 and 100),
  active_version  text,
  paused          integer not null default 0 check (paused in (0, 1)),   -- by a person (F7)
  paused_since    bigint,
  blind_since     bigint,                                                -- H5: restored, and not resumed yet
  counter         bigint not null default 0,                             -- T6: numbers visible in order
  holder          text,                                                  -- the host that claimed it last (H2)
  epoch           bigint not null default 0,                             -- grows with every claim
  repairs_since   bigint not null default 0,                             -- F3: repairs asked for, counted per day
  repairs         integer not null default 0,
  created_at      bigint not null,
  removed_at      bigint,
  machine         text                                                   -- H7: it uses files of this machine, and only hosts there claim it
);
create unique index workflow_one_name on workflow (name) where removed_at is null;

create table version (
  workflow_id     text not null references workflow (id),
  version         text not null,                                         -- '3.1': major by a person, minor by repair
  language        text not null check (language in ('javascript', 'python')),
  source          text not null,
  hash            text not null,
  declaration     text not null,                                         -- W7: what the scheduler uses
  findings        text not null,
  author          text not null,
  origin          text not null check (origin = 'deploy' or origin = 'repair' or origin = 'rollback'),
  parent          text,                                                  -- the version repaired or rolled back to
  activated_at    bigint,                                                -- null: a proposal, never active (F3)
  created_at      bigint not null,
  path            text,                                                  -- W9: the file it came from; null if it came from none
  primary key (workflow_id, version)
);

-- H7: the tools that the text of a version uses, as its deploy found them. A version of an older Duly has none: any host may take it.
create table need (
  workflow_id     text not null,
  version         text not null,
  tool            text not null,
  primary key (workflow_id, version, tool),
  foreign key (workflow_id, version) references version (workflow_id, version)
);

create table handler (
  workflow_id       text not null references workflow (id),
  name              text not null,
  kind              text not null check (kind in ('producer', 'consumer')),
  position          integer not null,                                    -- declaration order (S5)
  orphaned          integer not null default 0 check (orphaned in (0, 1)),
  schedule          text,
  state             text,
  next_run_at       bigint,
  planned_at        bigint not null default 0,                           -- S2: what the clock showed when next_run_at was written
  wake_at           bigint,
  changed           bigint not null default 0,                           -- S3: the last number that touched its topics
  seen              bigint not null default 0,                           -- S3: the counter before its last committed peek
  not_before        bigint not null default 0,                           -- S3: the 30 s after publishing without reserving
  untried           integer not null default 0 check (untried in (0, 1)), -- S3a: no run prepared by the active version has committed
  primary key (workflow_id, name)
);
create index handler_next_run on handler (next_run_at) where kind = 'producer' and orphaned = 0 and next_run_at is not null;
create index handler_planned on handler (planned_at) where kind = 'producer' and orphaned = 0 and next_run_at is not null;
create index handler_wake on handler (wake_at) where kind = 'consumer' and orphaned = 0 and wake_at is not null;
create index handler_untried on handler (workflow_id, position) where kind = 'consumer' and orphaned = 0 and untried = 1;
create index handler_changed on handler (workflow_id, position) where kind = 'consumer' and orphaned = 0 and changed > seen;

create table topic (
  workflow_id     text not null references workflow (id),
  name            text not null,
  consumer        text,                                                  -- null: a terminal topic
  ingress         integer not null default 0 check (ingress in (0, 1)),
  bus_topic       text,                                                  -- T10: fed from this topic of the bus
  orphaned        integer not null default 0 check (orphaned in (0, 1)),
  worked_until    bigint not null default 0,                             -- W9: up to this number its events were work when it lost its consumer
  primary key (workflow_id, name)
);
create index topic_by_consumer on topic (workflow_id, consumer) where consumer is not null and orphaned = 0;
create index topic_by_bus on topic (bus_topic) where bus_topic is not null and orphaned = 0;

create table event (
  workflow_id     text not null references workflow (id),
  seq             bigint not null,
  topic           text not null,
  message_id      text not null check (length(message_id) between 1 and 500),
  status          text not null default 'pending' check (status = 'pending' or status = 'reserved' or status = 'consumed' or status = 'skipped'),
  content         bigint not null,                                       -- which payload it has now
  content_beside  bigint,                                                -- T5: takes effect if the event is released
  attempts        integer not null default 0,                            -- how often it was reserved
  dropped         integer not null default 0,                            -- T5: contents that came too late
  reserved_by     text,
  finished_by     text,
  created_by      text not null,                                         -- a run, or who published from outside
  bus_event       bigint,                                                -- B12: what was handled on the bus when it was published
  created_at      bigint not null,
  finished_at     bigint,
  primary key (workflow_id, seq),
  foreign key (workflow_id, topic) references topic (workflow_id, name),  -- W4: no topic springs into being
  check ((status = 'reserved') = (reserved_by is not null)),
  check ((status in ('consumed', 'skipped')) = (finished_at is not null))
);
create unique index event_one_message on event (workflow_id, topic, message_id);
create index event_pending on event (workflow_id, topic, seq) where status = 'pending';
create index event_reserved on event (reserved_by) where status = 'reserved';
create index event_consumed on event (workflow_id, finished_at, seq, topic) where status = 'consumed';  -- U1: what was processed lately

-- Bodies stand aside: `event` stays narrow, and what a run was shown stays what it was.
create table payload (
  workflow_id     text not null references workflow (id),
  content         bigint not null,
  title           text not null check (length(trim(title)) > 0 and length(title) <= 500),
  body            text not null,
  digest          text not null,                                         -- T5: the same for the same title and body
  primary key (workflow_id, content)
);

-- T9: the inputs a derived event goes back to; an input is its own root and has no row.
create table cause (
  workflow_id     text not null references workflow (id),
  root            bigint not null,
  seq             bigint not null,
  primary key (workflow_id, root, seq)
);
create index cause_by_event on cause (workflow_id, seq, root);

create table run (
  id              text primary key,
  workflow_id     text not null references workflow (id),
  version         text not null,
  handler         text not null,
  kind            text not null check (kind in ('producer', 'consumer')),
  retry_of        text references run (id),
  chain           text not null,                                         -- the first run of its chain (C13)
  open            integer not null default 1 check (open in (0, 1)),     -- 1 until committed, abandoned or succeeded
  phase           text not null check (phase = 'executing' or phase = 'preparing' or phase = 'prepared' or phase = 'mutating'
                    or phase = 'mutated' or phase = 'emitting' or phase = 'committed'),
  status          text not null check (status = 'active' or status = 'paused:transient' or status = 'paused:approval'
                    or status = 'paused:reconciliation' or status = 'failed:logic' or status = 'failed:internal'
                    or status = 'committed' or status = 'crashed' or status = 'abandoned'),
  outcome         text check (outcome = 'none' or outcome = 'applied' or outcome = 'skipped'),
  waits           text check (waits = 'approval' or waits = 'connection' or waits = 'grant'),
  waits_on        text,                                                  -- which connection or capability (F4)
  epoch           bigint,                                                -- H2: the claim under which it was taken up; null: no host has yet
  counter         bigint not null,                                       -- S3: the workflow's counter before the first peek
  prepared        text,                                                  -- C6: the pinned prepare result
  prepared_by     text,                                                  -- S3a: the version whose prepare that was
  wake_at_asked   text,                                                  -- S6: as the script gave it, read at the commit
  result          text,                                                  -- what the mutation answered
  state_before    text,                                                  -- C12
  state_after     text,
  clock_at        bigint,                                                -- C13: frozen for mutate and next
  seed            text,
  error           text,
  due_at          bigint,                                                -- when the host may move it on
  transient_count integer not null default 0,
  logic_count     integer not null default 0,
  crash_count     integer not null default 0,
  repair_count    integer not null default 0,
  outage_since    bigint,                                                -- F2: since when the outside is unreachable; null when it is not
  outage_count    integer not null default 0,
  outage_ms       bigint not null default 0,                             -- F2: the waits of this outage together
  outage_told     integer not null default 0 check (outage_told in (0, 1)),
  bus_event       bigint,                                                -- B12: what was handled on the bus when it was retried
  escalated       text,                                                  -- F8: the sentence a person was told
  calls           text,
  logs            text,
  emptied         integer not null default 0 check (emptied in (0, 1)),  -- H5: retention left its skeleton
  created_at      bigint not null,
  updated_at      bigint not null,
  check ((phase = 'committed') = (status = 'committed')),
  check ((kind = 'producer') = (phase = 'executing') or phase = 'committed'),
  check (open = 1 or status <> 'active'),
  check (open = 0 or status not in ('committed', 'abandoned')),
  check ((status = 'paused:approval') = (waits is not null))
);
create unique index run_one_open on run (workflow_id) where open = 1;
create unique index run_one_successor on run (retry_of) where retry_of is not null;
create index run_due on run (due_at) where open = 1 and due_at is not null;
create index run_by_workflow on run (workflow_id, id);

create table reservation (
  run_id          text not null references run (id),
  seq             bigint not null,
  content         bigint not null,                                       -- the payload this run was shown
  primary key (run_id, seq)
);
create index reservation_by_event on reservation (seq, run_id);

-- The ledger (L1). A row passes to a successor by `held_by`; it is never copied.
create table mutation (
  id              text primary key,
  workflow_id     text not null references workflow (id),
  run_id          text not null unique references run (id),              -- made it
  held_by         text not null unique references run (id),              -- answers for it now
  tool            text not null,
  args            text not null,
  title           text,
  inputs          text not null,                                         -- L7: the digest of the reserved set
  key             text not null,
  hash            text not null,                                         -- L11: observed call and pinned inputs
  status          text not null check (status = 'proposed' or status = 'in_flight' or status = 'needs_reconcile'
                    or status = 'indeterminate' or status = 'applied' or status = 'failed' or status = 'rejected' or status = 'skipped'),
  refused         integer not null default 0 check (refused in (0, 1)),  -- on its merits: grows the generation (L7)
  result          text,
  error           text,
  attempt         integer not null default 0,                            -- sends so far
  resends         integer not null default 0,                            -- of them, sends of an unknown call
  asks            integer not null default 0,                            -- counted reconcile attempts
  first_sent_at   bigint,
  sent_at         bigint,
  due_at          bigint,                                                -- when to ask or send again
  created_at      bigint not null,
  updated_at      bigint not null,
  lag_ms          bigint,                                                -- L6: what its tool promised; null: made by schema 1
  timeout_ms      bigint,
  key_lifetime_ms bigint,                                                -- null: not idempotent
  first_boot      text,                                                  -- L7: the boot of the machine at the first send
  first_boot_ms   bigint,                                                -- and the clock of that boot
  is_resent       integer not null default 0 check (is_resent in (0, 1)),  -- L1: an earlier send of it is unknown
  outage_since    bigint,                                                -- L5: since when no question can be asked; null when one can
  outage_count    integer not null default 0,
  outage_ms       bigint not null default 0,                             -- L5: the waits between these questions together
  outage_told     integer not null default 0 check (outage_told in (0, 1)),
  late            text,                                                  -- L1: what sends returned when they decided nothing any more, as JSON
  asked           integer not null default 0 check (asked in (0, 1)),    -- A3: a person, or an allowance, has to agree before it is sent
  approved_by     text,                                                  -- A4: who agreed
  allowance_id    text references allowance (id),                        -- A3: the allowance it was sent under; it counts there once
  args_proposed   text,                                                  -- A3: what the script asked for, where a person changed it
  amended_by      text,
  seal            text,                                                  -- L11: keyed by what is not in the store; null: made by schema 1
  known_how       text check (known_how = 'answered' or known_how = 'asked' or known_how = 'sent_again' or known_how = 'settled' or known_how = 'unsent'),
  known_at        bigint,                                                -- L12: when its outcome became known, and how
  known_by        text,                                                  -- the person, if a person said so
  known_said      text,                                                  -- what the outside said, or the person
  digests         text,                                                  -- L15: of what retention may remove; null until the row ends
  end_seal        text,                                                  -- L15: over all that changes no more; its first word names the key
  handle          text,                                                  -- L14: what the first step of a call of two steps made, as JSON
  basis           text,                                                  -- L7: a digest of the service, the account and the secrets that it was sent with
  first_clock     bigint,                                                -- L7: what the clock of the server showed at the first send, or a little less; null in a file
  ended_clock     bigint,                                                -- L6: from when on, by that clock, no send of it is out any more, as its host saw it; null: not known
  check (status <> 'needs_reconcile' or due_at is not null)              -- L5: an unknown row has a time to ask about it
);
create index mutation_due on mutation (due_at) where status = 'needs_reconcile';
create index mutation_refused on mutation (inputs) where refused = 1;
create index mutation_by_workflow on mutation (workflow_id, id);
create index mutation_by_key on mutation (key) where first_sent_at is not null;  -- L7: since when the outside has known it
create index mutation_sent on mutation (workflow_id, tool, sent_at) where sent_at is not null;  -- A1: how often today
create index mutation_allowed on mutation (allowance_id) where allowance_id is not null;  -- A3: how often an allowance was used

-- What the reads of a run answered, aside: no page of runs loads it. A chain has one prepare that counts, the newest.
create table recording (
  workflow_id     text not null references workflow (id),
  chain           text not null references run (id),
  step            text not null,
  reads           text not null,                                         -- F3: without secrets
  primary key (workflow_id, chain, step)
);

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

-- A1: what a workflow may do; `grant` itself is a word of SQL.
create table granted (
  workflow_id       text not null references workflow (id),
  capability        text not null,
  mutations_per_day integer,
  matching          text not null default '{}',                          -- globs over string arguments
  granted_by        text not null,
  granted_at        bigint not null,
  primary key (workflow_id, capability)
);

-- A3: the next calls of a tool that need no further yes. How many were made is counted in `mutation`.
create table allowance (
  id              text primary key,
  workflow_id     text not null references workflow (id),
  mutation_id     text not null references mutation (id),                -- the call that was approved with it
  tool            text not null,
  version         text not null,                                         -- it ends with this version
  args            text not null,                                         -- of the approved call; what no glob names must be the same
  matching        text not null,                                         -- globs by argument
  calls           integer not null check (calls > 0),
  until           bigint not null,
  given_by        text not null,
  given_at        bigint not null,
  revoked_by      text,
  revoked_at      bigint,
  seal            text not null                                          -- L11: over everything above but the last two
);
create index allowance_by_tool on allowance (workflow_id, tool, version);

create table secret (
  connector       text not null,
  name            text not null,
  sealed          text not null,                                         -- A5: encrypted before it comes here
  set_at          bigint not null,
  primary key (connector, name)
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

-- G6: what lets a program or a browser in over HTTP. Its secret part is not here, only a digest of it.
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

-- M6: a source that an agent or a program proposes. It is no version and grants nothing until a person adopts it by its hash.
create table proposal (
  hash            text primary key,                                      -- of the name, what it replaces, the language and the text
  workflow        text not null,                                         -- a name; it may have no workflow yet
  replaces        text,                                                  -- the version that was active then; null: none
  language        text not null check (language in ('javascript', 'python')),
  source          text not null,
  findings        text not null,
  uses            text not null,                                         -- the capabilities it needs, as JSON
  author          text not null,
  note            text not null,                                         -- why, in the words of its author
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

-- A6: who did what, when, to what; written in the transaction of the act itself.
create table action (
  id              text primary key,
  at              bigint not null,
  by              text not null,
  verb            text not null,
  workflow_id     text references workflow (id),
  target          text,
  detail          text
);
create index action_by_workflow on action (workflow_id, id);
create index action_of_pause on action (workflow_id, id) where verb = 'pause';  -- U1: who paused it, however much was published since
create index action_by_target on action (target, id) where target is not null;  -- U7: who ended it

create table counter (
  name            text primary key check (name = 'journal' or name = 'deferred' or name = 'subscription'),
  value           bigint not null
);

insert into counter (name, value) values ('journal', 0), ('deferred', 0), ('subscription', 0);

create table journal (
  id              bigint primary key,
  topic           text not null,
  source          text not null,
  payload         text not null,
  correlation_id  text,
  causation_id    text,
  depth           integer not null default 0,
  status          text not null default 'pending' check (status = 'pending' or status = 'processing' or status = 'done' or status = 'failed'),
  opened          integer not null default 0 check (opened in (0, 1)),       -- B13: has its delivery records, or was closed without
  undelivered     integer not null default 0 check (undelivered in (0, 1)),  -- B11: it had no subscriber
  error           text,
  created_at      bigint not null,
  processed_at    bigint,
  check ((status in ('done', 'failed')) = (processed_at is not null))
);
create index journal_by_status on journal (status, id);
create index journal_by_topic on journal (topic, id);
create index journal_unopened on journal (topic, id) where opened = 0;
create index journal_by_correlation on journal (correlation_id, id) where correlation_id is not null;

create table subscription (
  subscriber_id   text primary key,
  topic           text not null,
  position        bigint not null,                                       -- registration order (B3)
  attempts_max    integer not null check (attempts_max >= 1),
  delays_s        text not null,                                         -- a JSON list (B5)
  created_at      bigint not null,
  leaving         integer not null default 0 check (leaving in (0, 1)),  -- B13: ended; what waited for it is being closed
  channel         text,                                                  -- B9: the channel it sends to; '' for all that have none of their own
  holder          text                                                   -- H8: the host of a fleet that calls it; what a host that is gone held is free
);
create index subscription_by_topic on subscription (topic, position);
create index subscription_leaving on subscription (position) where leaving = 1;

create table delivery (
  event_id        bigint not null references journal (id),
  subscriber_id   text not null,
  topic           text not null,
  position        bigint not null,
  status          text not null default 'waiting' check (status = 'waiting' or status = 'running' or status = 'done' or status = 'dead' or status = 'discarded'),
  attempts        integer not null default 0,                            -- counted before the handler runs (B5)
  due_at          bigint not null,
  error           text,
  updated_at      bigint not null,
  suspect         integer not null default 0 check (suspect in (0, 1)),  -- B5: it ran when a host died, and runs alone until an attempt has ended
  holder          text,                                                  -- H8: the host of a fleet that calls its handler now; the subscription may have ended meanwhile
  primary key (event_id, subscriber_id)
);
create index delivery_due on delivery (due_at, event_id) where status = 'waiting';
create index delivery_open on delivery (subscriber_id, topic, event_id) where status in ('waiting', 'running');
create index delivery_running on delivery (event_id, subscriber_id) where status = 'running';
create index delivery_unfinished on delivery (event_id, subscriber_id) where status <> 'done';

create table deferred (
  id              bigint primary key,
  topic           text not null,
  source          text not null,
  payload         text not null,
  correlation_id  text,
  causation_id    text,
  depth           integer not null default 0,
  status          text not null default 'scheduled' check (status = 'scheduled' or status = 'fired' or status = 'cancelled'),
  fire_at         bigint not null,
  created_at      bigint not null,
  fired_at        bigint,
  event_id        bigint,
  boot            text,                                                  -- B2: the boot of the machine whose clock due_ms is a time of
  due_ms          bigint not null default 0,
  check ((status = 'fired') = (fired_at is not null))
);
create index deferred_by_status on deferred (status, fire_at, id);
create index deferred_due on deferred (status, due_ms, id);
create index deferred_by_source on deferred (source) where status = 'scheduled';
create index deferred_by_second on deferred (fire_at / 1000.0);          -- B14: as the view shows it

create table extension_state (
  extension       text not null,
  key             text not null,
  value           text not null,
  updated_at      bigint not null,
  primary key (extension, key)
);

-- H5: `tidied` is when retention last went through everything; `copied`, in a backup alone, what moment it shows; `held`, in a
-- restored store, what moment its bus shows, until a person resumes it; `timeline` (H10) is no moment: each promotion of a server's standby
-- begins another one; `gone` and a machine (H7) since when no host serves there that a call waits for, by the clock of the server; `tool`, a tool and the
-- machine the call is bound to, if any, since when no host that serves (there) has it.
create table upkeep (
  name            text primary key,
  at              bigint not null
);

-- H7: which tools a host lacks for a workflow: of the active version, of an open run that goes on with its own, and the tool of a
-- call that is not over; while that is out or asked about it is the only one. A host that has not said what it offers lacks nothing.
create view lacking as
select h.id as host, n.workflow_id, n.tool from host h cross join workflow w join need n on n.workflow_id = w.id
where h.offers is not null and n.version in (w.active_version,
    (select r.version from run r where r.workflow_id = w.id and r.open = 1),
    (select o.version from run r join mutation m on m.held_by = r.id join run o on o.id = m.run_id where r.workflow_id = w.id and r.open = 1))
  and (not exists (select 1 from run r left join mutation m on m.held_by = r.id where r.workflow_id = w.id and r.open = 1
      and (r.status = 'paused:reconciliation' or m.status = 'in_flight' and m.sent_at is not null))
    and (n.version = w.active_version
      or n.version = (select r.version from run r where r.workflow_id = w.id and r.open = 1 and r.status in ('active', 'paused:approval')))
    or n.tool = (select m.tool from run r join mutation m on m.held_by = r.id where r.workflow_id = w.id and r.open = 1
      and (m.status = 'in_flight' or m.status = 'needs_reconcile' or m.status = 'indeterminate')))
  and not exists (select 1 from offer f where f.host = h.id and f.tool = n.tool);

-- H7: what each host that serves lacks for a workflow that none of them can do.
create view unserved as
select l.workflow_id, coalesce(h.name, h.id) as host, l.tool
from lacking l join host h on h.id = l.host join workflow w on w.id = l.workflow_id
where h.serves = 1 and (w.machine is null or w.machine = h.machine)
  and not exists (select 1 from host o where o.serves = 1 and (w.machine is null or w.machine = o.machine)
    and not exists (select 1 from lacking k where k.host = o.id and k.workflow_id = l.workflow_id));

-- B14: the words and Unix seconds of the event bus as its users know it.
create view event_journal as
select id, topic, source, payload, correlation_id, status,
  created_at / 1000.0 as created_at, processed_at / 1000.0 as processed_at, error
from journal;

create view deferred_events as
select id, topic, source, payload, correlation_id, fire_at / 1000.0 as fire_at, status,
  created_at / 1000.0 as created_at, fired_at / 1000.0 as fired_at
from deferred;

-- H1: what `duly sql` shows, and nothing else. Names and columns stay; a workflow goes by its name, times are Unix seconds.
create view workflows as
select w.id, w.name, w.active_version as version, w.paused as is_paused, w.created_at / 1000.0 as created_at, w.removed_at / 1000.0 as removed_at,
  r.id as open_run, r.status as open_status, r.waits as waits, r.waits_on as waits_on
from workflow w left join run r on r.workflow_id = w.id and r.open = 1;

create view events as
select w.name as workflow, e.topic, e.message_id, e.seq, e.status, p.title, p.body as payload, e.attempts, e.created_by, e.reserved_by, e.finished_by,
  e.created_at / 1000.0 as created_at, e.finished_at / 1000.0 as finished_at
from event e join workflow w on w.id = e.workflow_id join payload p on p.workflow_id = e.workflow_id and p.content = e.content;

-- Events that came in, and are or were work (U2, T9).
create view inputs as
select w.name as workflow, e.topic, e.message_id, e.seq, e.status, p.title, p.body as payload, e.reserved_by, e.finished_by,
  e.created_at / 1000.0 as created_at, e.finished_at / 1000.0 as finished_at
from event e join workflow w on w.id = e.workflow_id join payload p on p.workflow_id = e.workflow_id and p.content = e.content
join topic t on t.workflow_id = e.workflow_id and t.name = e.topic
where (t.consumer is not null or e.seq <= t.worked_until)
  and (not exists (select 1 from cause c where c.workflow_id = e.workflow_id and c.seq = e.seq)
    or exists (select 1 from cause c where c.workflow_id = e.workflow_id and c.root = e.seq and c.seq = e.seq));

-- Changes that were sent, and events in topics that no handler reads (U4).
create view outputs as
select w.name as workflow, 'change' as kind, m.id, m.tool as place, m.status, m.title, m.sent_at / 1000.0 as at
from mutation m join workflow w on w.id = m.workflow_id where m.sent_at is not null
union all
select w.name, 'event', e.message_id, e.topic, e.status, p.title, e.created_at / 1000.0
from event e join workflow w on w.id = e.workflow_id join payload p on p.workflow_id = e.workflow_id and p.content = e.content
join topic t on t.workflow_id = e.workflow_id and t.name = e.topic
where t.consumer is null and e.seq > t.worked_until and e.status = 'pending';

create view runs as
select r.id, w.name as workflow, r.version, r.handler, r.kind, r.retry_of, r.chain, r.open as is_open, r.phase, r.status, r.outcome, r.waits, r.waits_on,
  r.error, r.logs, r.transient_count, r.logic_count, r.crash_count, r.repair_count, r.due_at / 1000.0 as due_at,
  r.created_at / 1000.0 as created_at, r.updated_at / 1000.0 as updated_at
from run r join workflow w on w.id = r.workflow_id;

create view mutations as
select m.id, w.name as workflow, m.run_id as run, m.held_by, m.tool, m.args, m.title, m.key, m.hash, m.status, m.result, m.error,
  m.attempt as sends, m.resends, m.asks, m.first_sent_at / 1000.0 as first_sent_at, m.sent_at / 1000.0 as sent_at, m.asked as needed_approval, m.approved_by,
  m.allowance_id as allowance, m.amended_by, m.known_how, m.known_at / 1000.0 as known_at, m.known_by, m.known_said, m.late,
  m.created_at / 1000.0 as created_at, m.updated_at / 1000.0 as updated_at
from mutation m join workflow w on w.id = m.workflow_id;

create view actions as
select a.id, a.at / 1000.0 as at, a.by, a.verb, w.name as workflow, a.target, a.detail
from action a left join workflow w on w.id = a.workflow_id;
