-- What people look at: keyset pages, never offset; each page is read along an index.
-- Format as in queries.sql.

-- list_workflows
-- By name; workflows are few, removed ones are left out (scan of workflow_one_name).
select id, name, active_version, paused, paused_since, counter, holder, lease_until, epoch, repairs, repairs_since, created_at, removed_at
from workflow where removed_at is null and name > :after order by name limit :limit

-- find_workflow
-- The name is the identity of what is deployed now.
select id, name, active_version, paused, paused_since, counter, holder, lease_until, epoch, repairs, repairs_since, created_at, removed_at
from workflow where name = :name and removed_at is null

-- get_workflow
-- Removed ones too: their history is readable.
select id, name, active_version, paused, paused_since, counter, holder, lease_until, epoch, repairs, repairs_since, created_at, removed_at
from workflow where id = :id

-- list_handlers
-- In declaration order, orphaned ones last; a workflow has few (sort of its handlers).
select name, kind, position, orphaned, schedule, state, next_run_at, wake_at, changed, seen, not_before, untried
from handler where workflow_id = :workflow_id order by orphaned, position, name

-- list_topics
-- With the consumer of each; null is a terminal topic.
select name, consumer, ingress, bus_topic, orphaned from topic where workflow_id = :workflow_id order by name

-- list_versions
-- Newest first, proposals included; a workflow has few (sort of its versions).
select version, language, source, hash, declaration, findings, author, origin, parent, activated_at, created_at
from version where workflow_id = :workflow_id and (created_at, version) < (:before_at, :before)
order by created_at desc, version desc limit :limit

-- get_version
-- The text a run pinned.
select version, language, source, hash, declaration, findings, author, origin, parent, activated_at, created_at
from version where workflow_id = :workflow_id and version = :version

-- list_events
-- Oldest first, of one workflow; topic and status narrow the page.
select e.topic, e.message_id, e.seq, e.content, p.title, p.body, e.status, e.reserved_by, e.finished_by, e.created_by, e.attempts, e.created_at, e.finished_at
from event e join payload p on p.workflow_id = e.workflow_id and p.content = e.content
where e.workflow_id = :workflow_id and e.seq > :after
  and (:topic is null or e.topic = :topic) and (:status is null or e.status = :status)
order by e.seq limit :limit

-- list_causes
-- The inputs an event goes back to (T9).
select e.topic, e.message_id from cause c join event e on e.workflow_id = c.workflow_id and e.seq = c.root
where c.workflow_id = :workflow_id and c.seq = :seq order by c.root

-- list_effects
-- The events an input led to (T9).
select e.topic, e.message_id from cause c join event e on e.workflow_id = c.workflow_id and e.seq = c.seq
where c.workflow_id = :workflow_id and c.root = :root order by c.seq

-- list_strays
-- Events reserved by no open run: none, unless something went wrong (R7). What is reserved is little (scan of event_reserved).
select e.workflow_id, e.topic, e.message_id, e.reserved_by from event e
where e.status = 'reserved' and not exists (select 1 from run r where r.id = e.reserved_by and r.open = 1)
order by e.reserved_by limit :limit

-- list_inputs
-- What a run was shown: the events it reserved, with the content it pinned (C6).
select e.topic, e.message_id, e.seq, v.content, p.title, p.body, e.status, e.reserved_by, e.finished_by, e.created_by, e.attempts, e.created_at, e.finished_at
from reservation v join run r on r.id = v.run_id
join event e on e.workflow_id = r.workflow_id and e.seq = v.seq
join payload p on p.workflow_id = r.workflow_id and p.content = v.content
where v.run_id = :run_id order by v.seq

-- list_runs
-- Newest first, over all workflows: along the primary key, which grows with time (scan of run, cut by the limit).
select r.id, r.workflow_id, r.version, r.handler, r.kind, r.retry_of, r.chain, r.open, r.phase, r.status, r.outcome, r.waits,
  r.waits_on, r.counter, r.prepared, r.prepared_by, r.wake_at_asked, r.result, r.state_before, r.state_after, r.clock_at, r.seed,
  r.error, r.due_at, r.transient_count, r.logic_count, r.crash_count, r.repair_count, r.escalated, r.calls, r.logs,
  r.created_at, r.updated_at, m.status
from run r left join mutation m on m.held_by = r.id
where r.id < :before and (:handler is null or r.handler = :handler) and (:status is null or r.status = :status)
order by r.id desc limit :limit

-- list_workflow_runs
-- Newest first, of one workflow.
select r.id, r.workflow_id, r.version, r.handler, r.kind, r.retry_of, r.chain, r.open, r.phase, r.status, r.outcome, r.waits,
  r.waits_on, r.counter, r.prepared, r.prepared_by, r.wake_at_asked, r.result, r.state_before, r.state_after, r.clock_at, r.seed,
  r.error, r.due_at, r.transient_count, r.logic_count, r.crash_count, r.repair_count, r.escalated, r.calls, r.logs,
  r.created_at, r.updated_at, m.status
from run r left join mutation m on m.held_by = r.id
where r.workflow_id = :workflow_id and r.id < :before and (:handler is null or r.handler = :handler) and (:status is null or r.status = :status)
order by r.id desc limit :limit

-- list_mutations
-- Newest first, over all workflows: along the primary key (scan of mutation, cut by the limit).
select id, workflow_id, run_id, held_by, tool, args, title, inputs, key, hash, status, refused, result, error, attempt, resends, asks,
  first_sent_at, sent_at, due_at, created_at, updated_at
from mutation where id < :before and (:status is null or status = :status) order by id desc limit :limit

-- list_workflow_mutations
-- Newest first, of one workflow.
select id, workflow_id, run_id, held_by, tool, args, title, inputs, key, hash, status, refused, result, error, attempt, resends, asks,
  first_sent_at, sent_at, due_at, created_at, updated_at
from mutation where workflow_id = :workflow_id and id < :before and (:status is null or status = :status)
order by id desc limit :limit

-- list_proposals
-- Newest first; whoever waits for a person has an open run, and those are few (scan of run_one_open, sort of what it finds).
select m.id, m.workflow_id, m.run_id, m.held_by, m.tool, m.args, m.title, m.inputs, m.key, m.hash, m.status, m.refused, m.result, m.error,
  m.attempt, m.resends, m.asks, m.first_sent_at, m.sent_at, m.due_at, m.created_at, m.updated_at
from run r join mutation m on m.held_by = r.id
where r.open = 1 and (:workflow_id is null or r.workflow_id = :workflow_id) and m.status = 'proposed' and m.id < :before
order by m.id desc limit :limit

-- list_waiting
-- Open runs that wait for a person; open runs are few, so their index is walked (scan of run_one_open).
select workflow_id, id, waits, waits_on from run where open = 1 and waits is not null order by workflow_id limit :limit

-- list_actions
-- Newest first, over everything (scan of action, cut by the limit).
select id, at, by, verb, workflow_id, target, detail from action where id < :before order by id desc limit :limit

-- list_workflow_actions
-- Newest first, of one workflow.
select id, at, by, verb, workflow_id, target, detail from action
where workflow_id = :workflow_id and id < :before order by id desc limit :limit

-- list_grants
-- The envelope of a workflow (A1).
select capability, mutations_per_day, matching, granted_by, granted_at from granted where workflow_id = :workflow_id order by capability

-- get_secret
-- Sealed; the host opens it.
select sealed from secret where connector = :connector and name = :name

-- list_secrets
-- Sealed, all of them: a host opens them when it starts; a connector has few (scan of secret).
select connector, name, sealed from secret order by connector, name
