-- Brings a store of schema 2 to schema 3, in one transaction, after the store was copied (H4).
-- What a new column means stands beside it in schema.sql; a test compares the two.

-- L15: the host that brings a store up seals the rows that ended before, as they are then. Until it has, this row says so.
alter table mutation add column digests text;
alter table mutation add column end_seal text;
insert into upkeep (name, at) values ('unsealed', 0);

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
