-- Forgetting one input: what came of it, what of that is still open, and what is erased (H5).
-- Format as in queries.sql. A person asks for it, and seldom: some of these walk a table once.

-- get_forgettable
-- The input itself; its title is looked for in the texts of other runs.
select e.topic, e.message_id, p.title, e.created_at, e.bus_event from event e join payload p on p.workflow_id = e.workflow_id and p.content = e.content
where e.workflow_id = :workflow_id and e.seq = :seq

-- list_traced
-- The input and every event that came of it (T9), and whether it waits to be worked on (U2); sort of what it finds.
select e.seq, e.topic, e.message_id, e.status, e.content, e.content_beside,
  case when e.status = 'reserved' or e.status = 'pending' and (t.consumer is not null or e.seq <= t.worked_until) then 1 else 0 end
from (select seq from cause where workflow_id = :workflow_id and root = :root union select :root) as traced
join event e on e.workflow_id = :workflow_id and e.seq = traced.seq
join topic t on t.workflow_id = e.workflow_id and t.name = e.topic
order by e.seq limit :limit

-- list_traced_chains
-- The chains of the runs that were shown any of these events, and of those that published them; sort of what it finds.
select r.chain from (select seq from cause where workflow_id = :workflow_id and root = :root union select :root) as traced
  join reservation v on v.seq = traced.seq join run r on r.id = v.run_id and r.workflow_id = :workflow_id
union
select r.chain from (select seq from cause where workflow_id = :workflow_id and root = :root union select :root) as traced
  join event e on e.workflow_id = :workflow_id and e.seq = traced.seq join run r on r.id = e.created_by and r.workflow_id = :workflow_id

-- list_naming_chains
-- The chains of other runs of the workflow that speak of the input by its message id or its title (scan of the runs of one workflow).
-- A field that is called like the id (:as_key) says nothing of it.
select r.chain from run r where r.workflow_id = :workflow_id and r.emptied = 0 and (
  replace(r.prepared, :as_key, '') like :naming escape '\' or replace(r.result, :as_key, '') like :naming escape '\' or replace(r.state_before, :as_key, '') like :naming escape '\' or replace(r.state_after, :as_key, '') like :naming escape '\'
  or replace(r.calls, :as_key, '') like :naming escape '\' or replace(r.logs, :as_key, '') like :naming escape '\' or replace(r.error, :as_key, '') like :naming escape '\' or replace(r.escalated, :as_key, '') like :naming escape '\'
  or r.prepared like :titling escape '\' or r.result like :titling escape '\' or r.state_before like :titling escape '\' or r.state_after like :titling escape '\'
  or r.calls like :titling escape '\' or r.logs like :titling escape '\' or r.error like :titling escape '\' or r.escalated like :titling escape '\')
union
select c.chain from recording c join run r on r.workflow_id = c.workflow_id and r.open = 1 and r.chain = c.chain
where c.workflow_id = :workflow_id and (replace(c.reads, :as_key, '') like :naming escape '\' or c.reads like :titling escape '\')

-- list_naming_states
-- Handlers whose state speaks of the input now: it decides what is done next, so it stays.
select name from handler where workflow_id = :workflow_id and (replace(state, :as_key, '') like :naming escape '\' or state like :titling escape '\') order by name

-- get_run_texts
-- What a run kept that may name a blob.
select prepared, result, state_before, state_after from run where id = :id

-- get_made_mutation
-- The row that a run made, if it made one.
select id from mutation where run_id = :run_id

-- get_body
-- One content, for the blobs it names.
select body from payload where workflow_id = :workflow_id and content = :content

-- list_shown_contents
-- Every content of an event that a run was shown.
select v.content from reservation v join run r on r.id = v.run_id and r.workflow_id = :workflow_id where v.seq = :seq and v.content > 0

-- list_told
-- What was announced about these runs (B10; scan of journal).
select j.id from journal j where j.source = :source and json_extract(j.payload, '$.run') in (select i.key from json_each(:run_ids) i) order by j.id limit :limit

-- list_told_after
-- What handlers emitted because of these events of the bus (B12; scan of journal).
select j.id from journal j where j.causation_id in (select i.key from json_each(:causes) i) order by j.id limit :limit

-- list_deferred_after
-- What they put off, and whether it is still to come (scan of deferred).
select d.id, d.status from deferred d where d.causation_id in (select i.key from json_each(:causes) i) or d.event_id is not null
  and d.event_id in (select cast(i.key as bigint) from json_each(:event_ids) i) order by d.id limit :limit

-- list_untold
-- Which of these events of the bus is still to be delivered, or has a dead letter. The scan is over the set.
select j.id from json_each(:event_ids) i cross join journal j
where j.id = cast(i.key as bigint) and (j.status = 'pending' or j.status = 'processing'
  or exists (select 1 from delivery d where d.event_id = j.id and d.status <> 'done' and d.status <> 'discarded'))
order by j.id limit 1

-- list_other_copies
-- Inputs of other workflows that came from one event of the bus (T10; scan of topic, which has few rows).
select w.name, e.topic, e.message_id from journal j cross join topic t cross join event e cross join workflow w
where j.id = :event_id and t.bus_topic = j.topic and t.workflow_id <> :workflow_id and e.workflow_id = t.workflow_id and e.topic = t.name
  and e.message_id = :message_id and e.content > 0 and w.id = e.workflow_id
order by w.name

-- list_allowances_of
-- Allowances that keep the arguments of a call, and whether they still count (scan of allowance).
select a.id, case when a.revoked_at is null and a.until > :now then 1 else 0 end from allowance a where a.mutation_id = :mutation_id order by a.id

-- list_backups_since
-- Files that were written since, as they were named then; of a hand-over in its detail, for it is told of each workflow (scan of action).
select distinct t.file from (select case a.verb when 'hand_over' then a.detail else a.target end as file from action a
  where a.verb in ('backup', 'export', 'hand_over') and a.at >= :since) t where t.file is not null order by t.file limit :limit

-- put_erased
-- What stands where the contents stood: a number below zero, which no event is ever given. The first sentence stays.
insert into payload (workflow_id, content, title, body, digest) values (:workflow_id, :content, :title, 'null', '') on conflict do nothing

-- get_erased
-- The sentence that stands there.
select title from payload where workflow_id = :workflow_id and content = :content

-- erase_pins
-- The runs still name the event; what they were shown of it is gone.
update reservation set content = :erased
where seq = :seq and content >= 0 and exists (select 1 from run r where r.id = reservation.run_id and r.workflow_id = :workflow_id)

-- erase_event
-- Topic, message id and status stay, so a late republish is still frozen (T5).
update event set content = :erased, content_beside = null where workflow_id = :workflow_id and seq = :seq and content >= 0

-- end_output
-- An output that no handler reads is over: a consumer that is deployed later must not be given an erased one (T4, W9).
update event set status = 'skipped', finished_at = :now where workflow_id = :workflow_id and seq = :seq and status = 'pending'

-- erase_run
-- The skeleton stays, as after retention; its log says why.
update run set emptied = 1, prepared = null, wake_at_asked = null, result = null, state_before = null, state_after = null,
  clock_at = null, seed = null, error = null, escalated = null, calls = null, logs = :logs
where id = :id and open = 0

-- erase_mutation
-- Inputs, key, state, refusal and times stay (L7, A1); what was said about it is under the seal, which is made anew (L15).
update mutation set args = :args, title = :title, args_proposed = null, result = null, error = null, late = null, known_said = null, handle = null,
  digests = :digests, seal = :begun, end_seal = :seal
where id = :id and (status = 'applied' or status = 'failed' or status = 'rejected' or status = 'skipped') and end_seal is not distinct from :old_seal
  and seal is not distinct from :old_begun

-- erase_recordings
-- What past runs of the workflow read, for no index says which of it shows the input; it is kept for repairs alone (F3).
delete from recording where workflow_id = :workflow_id and not exists (
  select 1 from run r where r.workflow_id = recording.workflow_id and r.open = 1 and r.chain = recording.chain)

-- erase_questions
-- What a model was asked in these chains, and what it said (M3). The scan is over the questions of one workflow.
delete from model_question where workflow_id = :workflow_id and (chain in (select i.key from json_each(:chains) i) or run_id in (select i.key from json_each(:run_ids) i))

-- erase_journal_event
-- That it was emitted, when and by whom stays.
update journal set payload = :payload, error = null where id = :id and (status = 'done' or status = 'failed')

-- erase_deliveries
-- What their handlers said about it.
update delivery set error = null where event_id = :event_id and error is not null

-- erase_deferred
-- As with the events that were emitted at once.
update deferred set payload = :payload where id = :id and status <> 'scheduled'

-- erase_details
-- Who decided what about the call, and when, stays (A6); the words that were given with it go.
update action set detail = null where target = :target and detail is not null and (verb = 'reject' or verb = 'allow' or verb = 'approve')

-- erase_allowance
-- It counts no more, and its seal is not checked any more.
update allowance set args = '{}', matching = '{}', revoked_by = coalesce(revoked_by, :by), revoked_at = coalesce(revoked_at, :now) where id = :id

-- erase_blob
-- Nothing sees it any more; its parts go in turns.
update blob set status = 'leaving' where workflow_id = :workflow_id and digest = :digest and status = 'kept'
