with recursive n (x) as (select 0 union all select x + 1 from n where x + 1 < :inputs)
insert into made select x, 'flow-' || printf('%05d', x % :workflows), 2 * (x / :workflows) + 1000,
  :now - (:inputs - x), x % :pending_every = 0 from n;

insert into payload select w, seq, 'Mail ' || x, '{"n":1}', 'd' from made;

insert into payload select w, seq + 1, 'Row ' || x, '{"n":1}', 'd' from made where not waits;

insert into run (id, workflow_id, version, handler, kind, chain, open, phase, status, outcome, counter, created_at, updated_at)
  select 'run_' || printf('%09d', x), w, '1.0', 'file', 'consumer', 'c', 0, 'committed', 'committed', 'applied', seq, at, at from made where not waits;

insert into event (workflow_id, seq, topic, message_id, status, content, finished_by, created_by, created_at, finished_at)
  select w, seq, 'mail', 'mail-' || x, case when waits then 'pending' else 'consumed' end, seq,
    case when waits then null else 'run_' || printf('%09d', x) end, 'bench', at, case when waits then null else at end from made;

insert into event (workflow_id, seq, topic, message_id, status, content, finished_by, created_by, created_at, finished_at)
  select w, seq + 1, 'row', 'row-' || x, 'consumed', seq + 1, null, 'run_' || printf('%09d', x), at, at from made where not waits;

insert into cause select w, seq, seq + 1 from made where not waits;

insert into reservation select 'run_' || printf('%09d', x), seq, seq from made where not waits;

insert into mutation (id, workflow_id, run_id, held_by, tool, args, title, inputs, key, hash, status, attempt, first_sent_at, sent_at, created_at, updated_at)
  select 'mutation_' || printf('%09d', x), w, 'run_' || printf('%09d', x), 'run_' || printf('%09d', x), 'sheet.append', '{"n":1}', 'Add a row',
    'i', 'k' || x, 'h', 'applied', 1, at, at, at, at from made where not waits
