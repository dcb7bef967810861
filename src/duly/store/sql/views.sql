-- What people look at: keyset pages, never offset; each page is read along an index.
-- Format as in queries.sql.

-- list_workflows
-- By name; workflows are few, removed ones are left out (scan of workflow_one_name).
select id, name, active_version, paused, paused_since, counter, holder, epoch, repairs, repairs_since, created_at, removed_at, blind_since,
  case when workflow.machine is not null and not exists (select 1 from host h where h.machine = workflow.machine and h.serves = 1) then workflow.machine end,
  (select string_agg(length(u.host) || ' ' || u.host || ' ' || u.tool, ',' order by u.host, u.tool) from unserved u where u.workflow_id = workflow.id)
from workflow where removed_at is null and name > :after order by name limit :limit

-- find_workflow
-- The name is the identity of what is deployed now; hosts are few (scan of h).
select id, name, active_version, paused, paused_since, counter, holder, epoch, repairs, repairs_since, created_at, removed_at, blind_since,
  case when workflow.machine is not null and not exists (select 1 from host h where h.machine = workflow.machine and h.serves = 1) then workflow.machine end,
  (select string_agg(length(u.host) || ' ' || u.host || ' ' || u.tool, ',' order by u.host, u.tool) from unserved u where u.workflow_id = workflow.id)
from workflow where name = :name and removed_at is null

-- get_workflow
-- Removed ones too: their history is readable; hosts are few (scan of h).
select id, name, active_version, paused, paused_since, counter, holder, epoch, repairs, repairs_since, created_at, removed_at, blind_since,
  case when workflow.machine is not null and not exists (select 1 from host h where h.machine = workflow.machine and h.serves = 1) then workflow.machine end,
  (select string_agg(length(u.host) || ' ' || u.host || ' ' || u.tool, ',' order by u.host, u.tool) from unserved u where u.workflow_id = workflow.id)
from workflow where id = :id

-- list_workflows_by_ids
-- A few of them, removed ones too. The scan is over the set.
select w.id, w.name, w.active_version, w.paused, w.paused_since, w.counter, w.holder, w.epoch, w.repairs, w.repairs_since, w.created_at, w.removed_at, w.blind_since,
  case when w.machine is not null and not exists (select 1 from host h where h.machine = w.machine and h.serves = 1) then w.machine end,
  (select string_agg(length(u.host) || ' ' || u.host || ' ' || u.tool, ',' order by u.host, u.tool) from unserved u where u.workflow_id = w.id)
from json_each(:ids) i cross join workflow w where w.id = i.key

-- list_handlers
-- In declaration order, orphaned ones last; a workflow has few (sort of its handlers).
select name, kind, position, orphaned, schedule, state, next_run_at, wake_at, changed, seen, not_before, untried
from handler where workflow_id = :workflow_id order by orphaned, position, name

-- list_topics
-- With the consumer of each; null is a terminal topic.
select name, consumer, ingress, bus_topic, orphaned, worked_until from topic where workflow_id = :workflow_id order by name

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
select e.topic, e.message_id, e.seq, e.content, p.title, p.body, e.status, e.reserved_by, e.finished_by, e.created_by, e.attempts, e.created_at, e.finished_at, e.dropped
from event e join payload p on p.workflow_id = e.workflow_id and p.content = e.content
where e.workflow_id = :workflow_id and e.seq > :after
  and (cast(:topic as text) is null or e.topic = :topic) and (cast(:status as text) is null or e.status = :status)
order by e.seq limit :limit

-- list_causes
-- The inputs an event goes back to (T9).
select e.topic, e.message_id from cause c join event e on e.workflow_id = c.workflow_id and e.seq = c.root
where c.workflow_id = :workflow_id and c.seq = :seq order by c.root

-- list_page_causes
-- The inputs that the events of a page go back to (T9). The scan is over the page; sort of what it finds.
select c.seq, e.topic, e.message_id from json_each(:seqs) i cross join cause c cross join event e
where c.workflow_id = :workflow_id and c.seq = cast(i.key as bigint) and e.workflow_id = c.workflow_id and e.seq = c.root
order by c.seq, c.root

-- list_names
-- The names of a few workflows, removed ones too. The scan is over the set.
select w.id, w.name from json_each(:ids) i cross join workflow w where w.id = i.key

-- list_effects
-- The events an input led to (T9).
select e.topic, e.message_id from cause c join event e on e.workflow_id = c.workflow_id and e.seq = c.seq
where c.workflow_id = :workflow_id and c.root = :root order by c.seq

-- list_strays
-- Events reserved by no open run: none, unless something went wrong (R7). What is reserved is little (scan of event_reserved).
select e.workflow_id, e.topic, e.message_id, e.reserved_by, p.title, e.created_at
from event e join payload p on p.workflow_id = e.workflow_id and p.content = e.content
where e.status = 'reserved' and not exists (select 1 from run r where r.id = e.reserved_by and r.open = 1)
order by e.reserved_by limit :limit

-- list_past_runs
-- The newest runs that ended having worked on something: what another version is tried on (F3).
select r.id, r.handler from run r where r.workflow_id = :workflow_id and r.kind = 'consumer' and r.status = 'committed' and r.emptied = 0
  and exists (select 1 from reservation v where v.run_id = r.id)
order by r.id desc limit :limit

-- list_recordings
-- What the steps of one chain read, `prepare` before `mutate`: both may have asked the same (F3).
select reads from recording where workflow_id = :workflow_id and chain = :chain order by step desc

-- list_published
-- The events a run put out that were not there before: of all it published, each has the roots of what it reserved (T9), so one root finds them.
-- With the digest of what it put there, where nothing replaced it since: the first content has the number of the event.
select e.topic, e.message_id, case when e.content = e.seq then (select p.digest from payload p where p.workflow_id = e.workflow_id and p.content = e.seq) end from
  (select coalesce(c.root, v.seq) as root from reservation v left join cause c on c.workflow_id = :workflow_id and c.seq = v.seq
   where v.run_id = :run_id limit 1) r
join cause d on d.workflow_id = :workflow_id and d.root = r.root
join event e on e.workflow_id = :workflow_id and e.seq = d.seq and e.created_by = :run_id

-- list_produced
-- The newest run of each producer that published something (F3).
select reads from recording where workflow_id = :workflow_id and step = 'produce' order by chain

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
  r.error, r.due_at, r.transient_count, r.logic_count, r.crash_count, r.repair_count, r.outage_since, r.outage_count, r.outage_ms, r.outage_told, r.escalated, r.calls, r.logs,
  r.created_at, r.updated_at, m.status
from run r left join mutation m on m.held_by = r.id
where r.id < :before and (cast(:handler as text) is null or r.handler = :handler) and (cast(:status as text) is null or r.status = :status)
order by r.id desc limit :limit

-- list_workflow_runs
-- Newest first, of one workflow.
select r.id, r.workflow_id, r.version, r.handler, r.kind, r.retry_of, r.chain, r.open, r.phase, r.status, r.outcome, r.waits,
  r.waits_on, r.counter, r.prepared, r.prepared_by, r.wake_at_asked, r.result, r.state_before, r.state_after, r.clock_at, r.seed,
  r.error, r.due_at, r.transient_count, r.logic_count, r.crash_count, r.repair_count, r.outage_since, r.outage_count, r.outage_ms, r.outage_told, r.escalated, r.calls, r.logs,
  r.created_at, r.updated_at, m.status
from run r left join mutation m on m.held_by = r.id
where r.workflow_id = :workflow_id and r.id < :before and (cast(:handler as text) is null or r.handler = :handler) and (cast(:status as text) is null or r.status = :status)
order by r.id desc limit :limit

-- list_mutations
-- Newest first, over all workflows: along the primary key (scan of mutation, cut by the limit).
select id, workflow_id, run_id, held_by, tool, args, title, inputs, key, hash, status, refused, result, error, attempt, resends, asks,
  first_sent_at, sent_at, due_at, created_at, updated_at, lag_ms, timeout_ms, key_lifetime_ms, first_boot, first_boot_ms, is_resent,
  outage_since, outage_count, outage_ms, outage_told, late, asked, approved_by, allowance_id, args_proposed, amended_by,
  seal, known_how, known_at, known_by, known_said, digests, end_seal, handle, basis
from mutation where id < :before and (cast(:status as text) is null or status = :status) order by id desc limit :limit

-- list_workflow_mutations
-- Newest first, of one workflow.
select id, workflow_id, run_id, held_by, tool, args, title, inputs, key, hash, status, refused, result, error, attempt, resends, asks,
  first_sent_at, sent_at, due_at, created_at, updated_at, lag_ms, timeout_ms, key_lifetime_ms, first_boot, first_boot_ms, is_resent,
  outage_since, outage_count, outage_ms, outage_told, late, asked, approved_by, allowance_id, args_proposed, amended_by,
  seal, known_how, known_at, known_by, known_said, digests, end_seal, handle, basis
from mutation where workflow_id = :workflow_id and id < :before and (cast(:status as text) is null or status = :status)
order by id desc limit :limit

-- list_proposals
-- Newest first; a workflow that waits for a person has an open run, and those are few (scan of run_one_open, sort of what it finds).
select m.id, m.workflow_id, m.run_id, m.held_by, m.tool, m.args, m.title, m.inputs, m.key, m.hash, m.status, m.refused, m.result, m.error,
  m.attempt, m.resends, m.asks, m.first_sent_at, m.sent_at, m.due_at, m.created_at, m.updated_at, m.lag_ms, m.timeout_ms, m.key_lifetime_ms,
  m.first_boot, m.first_boot_ms, m.is_resent, m.outage_since, m.outage_count, m.outage_ms, m.outage_told, m.late, m.asked, m.approved_by, m.allowance_id,
  m.args_proposed, m.amended_by, m.seal, m.known_how, m.known_at, m.known_by, m.known_said, m.digests, m.end_seal, m.handle, m.basis
from run r cross join mutation m
where r.open = 1 and (cast(:workflow_id as text) is null or r.workflow_id = :workflow_id) and m.held_by = r.id and m.status = 'proposed' and m.id < :before
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

-- list_capabilities
-- What any workflow was granted, each once: a host has few (scan of granted).
select distinct g.capability from granted g join workflow w on w.id = g.workflow_id where w.removed_at is null order by g.capability

-- list_users
-- Which workflows were granted something of a connection: one of these capabilities, or any below its name (scan of granted, sort of what it finds).
select distinct w.name from granted g join workflow w on w.id = g.workflow_id
where w.removed_at is null and (substr(g.capability, 1, length(:connector) + 1) = :connector || '.' or g.capability in (select i.key from json_each(:capabilities) i))
order by w.name limit :limit

-- list_allowances
-- Newest first, of one workflow or of all (scan of allowance, cut by the limit).
select a.id, a.workflow_id, a.mutation_id, a.tool, a.version, a.args, a.matching, a.calls, a.until, a.given_by, a.given_at, a.revoked_by, a.revoked_at, a.seal,
  (select count(*) from mutation m where m.allowance_id = a.id)
from allowance a where (cast(:workflow_id as text) is null or a.workflow_id = :workflow_id) and a.id < :before order by a.id desc limit :limit

-- get_secret
-- Sealed; the host opens it.
select connector, name, sealed, set_at from secret where connector = :connector and name = :name

-- list_proofs
-- All of them: a host has few tools (scan of proof).
select tool, key, args, basis, status, fault, said, handle, begun_by, begun_at, ended_at from proof order by tool

-- get_proof
-- By its tool.
select tool, key, args, basis, status, fault, said, handle, begun_by, begun_at, ended_at from proof where tool = :tool

-- list_secret_times
-- When each secret was set, for another account has other times; a host has few (scan of secret).
select connector, name, set_at from secret order by connector, name

-- list_secrets
-- Sealed, all of them: a host opens them when it starts; a connector has few (scan of secret).
select connector, name, sealed, set_at from secret order by connector, name

-- get_token
-- By the part of it that is no secret (G6).
select name, id, kind, scope, digest, made_by, made_at, expires_at from token where id = :id

-- find_sign_in
-- A name that a device ever had is not given to another one (G6).
select id from action where target = :name and verb = 'sign_in' limit 1

-- list_tokens
-- All of them: a host has few (scan of token).
select name, id, kind, scope, digest, made_by, made_at, expires_at from token order by name

-- get_proposal
-- By its hash, with the version that is active now under its name (M6).
select p.hash, p.workflow, p.replaces, p.language, p.source, p.findings, p.uses, p.author, p.note, p.created_at, w.active_version
from proposal p left join workflow w on w.name = p.workflow and w.removed_at is null where p.hash = :hash

-- list_source_proposals
-- Newest first, each with the version that is active now; there are few (scan of proposal, sort of what it finds).
select p.hash, p.workflow, p.replaces, p.language, p.source, p.findings, p.uses, p.author, p.note, p.created_at, w.active_version
from proposal p left join workflow w on w.name = p.workflow and w.removed_at is null
where cast(:workflow as text) is null or p.workflow = :workflow order by p.created_at desc, p.hash

-- count_proposals
-- A store takes few of them (scan of proposal).
select count(*) from proposal

-- find_removed_workflow
-- The last of this name that was removed; workflows are few (scan of workflow, sort of what it finds).
select id from workflow where name = :name and removed_at is not null order by removed_at desc, id desc limit 1

-- find_former_workflow
-- The newest that ever had this name; workflows are few (scan of workflow, sort of what it finds).
select id, name, active_version, paused, paused_since, counter, holder, epoch, repairs, repairs_since, created_at, removed_at, blind_since,
  case when workflow.machine is not null and not exists (select 1 from host h where h.machine = workflow.machine and h.serves = 1) then workflow.machine end,
  (select string_agg(length(u.host) || ' ' || u.host || ' ' || u.tool, ',' order by u.host, u.tool) from unserved u where u.workflow_id = workflow.id)
from workflow where name = :name order by created_at desc, id desc limit 1

-- list_workflow_inputs
-- What came in, newest first: events that are their own root, in topics where they are or were work (U2, T9).
select e.topic, e.message_id, e.seq, p.title, e.status, e.reserved_by, e.finished_by, e.created_at, e.finished_at
from event e join payload p on p.workflow_id = e.workflow_id and p.content = e.content
join topic t on t.workflow_id = e.workflow_id and t.name = e.topic
where e.workflow_id = :workflow_id and e.seq < :before and (t.consumer is not null or e.seq <= t.worked_until)
  and (not exists (select 1 from cause c where c.workflow_id = e.workflow_id and c.seq = e.seq)
    or exists (select 1 from cause c where c.workflow_id = e.workflow_id and c.root = e.seq and c.seq = e.seq))
order by e.seq desc limit :limit

-- list_roots
-- The titles of the inputs that the events of a page go back to, so many of each; none for one that is its own (T9). The scans are over the page and what it goes back to; sort of that.
select seq, title from (
  select c.seq, p.title, c.root, row_number() over (partition by c.seq order by c.root) as place
  from json_each(:seqs) i cross join cause c cross join event e cross join payload p
  where c.workflow_id = :workflow_id and c.seq = cast(i.key as bigint) and c.root <> c.seq
    and e.workflow_id = c.workflow_id and e.seq = c.root and p.workflow_id = e.workflow_id and p.content = e.content) as roots
where place <= :limit order by seq, root

-- list_run_roots
-- The titles of the inputs behind all that the runs of a page reserved, so many of each (T9). The scans are over the page and what it goes back to; sort of that.
select run_id, title from (
  select r.run_id, p.title, r.root, row_number() over (partition by r.run_id order by r.root) as place
  from (select distinct v.run_id, coalesce(c.root, v.seq) as root from json_each(:run_ids) i cross join reservation v
    left join cause c on c.workflow_id = :workflow_id and c.seq = v.seq where v.run_id = i.key) as r
  cross join event e cross join payload p
  where e.workflow_id = :workflow_id and e.seq = r.root and p.workflow_id = e.workflow_id and p.content = e.content) as roots
where place <= :limit order by run_id, root

-- list_terminal_events
-- The outputs in a terminal topic, newest first; an event that was work before its topic lost its consumer is none (U4, W9).
select e.topic, e.message_id, e.seq, p.title, e.status, e.reserved_by, e.finished_by, e.created_at, e.finished_at
from event e join payload p on p.workflow_id = e.workflow_id and p.content = e.content
where e.workflow_id = :workflow_id and e.topic = :topic and e.status = 'pending' and e.seq > :after and e.seq < :before
order by e.seq desc limit :limit

-- find_target_action
-- The last time that a person or an extension did this to one thing (A6).
select id, at, by, verb, workflow_id, target, detail from action
where target = :target and workflow_id = :workflow_id and verb = :verb order by id desc limit 1

-- find_last_action
-- The last time, up to a moment, that a person or an extension did this to a workflow (A6).
select id, at, by, verb, workflow_id, target, detail from action
where workflow_id = :workflow_id and verb = :verb and at <= :at order by id desc limit 1

-- list_changes
-- The changes behind an input: of the runs that reserved it, or anything it caused; a row and the reservations of its inputs are held by one run (L15, T9); sort of what it finds.
select m.id, m.workflow_id, m.run_id, m.held_by, m.tool, m.args, m.title, m.inputs, m.key, m.hash, m.status, m.refused, m.result, m.error,
  m.attempt, m.resends, m.asks, m.first_sent_at, m.sent_at, m.due_at, m.created_at, m.updated_at, m.lag_ms, m.timeout_ms, m.key_lifetime_ms,
  m.first_boot, m.first_boot_ms, m.is_resent, m.outage_since, m.outage_count, m.outage_ms, m.outage_told, m.late, m.asked, m.approved_by, m.allowance_id,
  m.args_proposed, m.amended_by, m.seal, m.known_how, m.known_at, m.known_by, m.known_said, m.digests, m.end_seal, m.handle, m.basis
from mutation m where m.id in (
  select h.id from (
    select seq from cause where workflow_id = :workflow_id and root = :root union select :root) as traced
  join reservation v on v.seq = traced.seq
  join run r on r.id = v.run_id and r.workflow_id = :workflow_id
  join mutation h on h.held_by = r.id
  group by h.id order by h.id limit :limit)
order by m.id

-- list_same_key
-- For each row, the others that were sent under its key (L7, L15); they are few. The scan is over the set, the sort over what it finds.
select m.id, o.id from json_each(:ids) i cross join mutation m cross join mutation o
where m.id = i.key and o.key = m.key and o.first_sent_at is not null and o.id in (
  select s.id from mutation s where s.key = m.key and s.first_sent_at is not null and s.id <> m.id order by s.id limit :limit)
order by m.id, o.id

-- find_message_ids
-- By how a message id begins, exactly: one range of its index for each topic, and a store has few topics (scan of topic) (U6).
select e.workflow_id, e.topic, e.message_id, p.title, e.status, e.seq, e.created_at
from topic t cross join event e cross join payload p
where (cast(:workflow_id as text) is null or t.workflow_id = :workflow_id) and (t.workflow_id, t.name) >= (:after_workflow, :after_topic)
  and e.workflow_id = t.workflow_id and e.topic = t.name and e.message_id >= :text and e.message_id < :end
  and (t.workflow_id > :after_workflow or t.name > :after_topic or e.message_id > :after)
  and p.workflow_id = e.workflow_id and p.content = e.content
order by t.workflow_id, t.name, e.message_id limit :limit

-- list_titles
-- To be looked through: of one workflow, or of one after the other, the newest events first, along the primary key (U6).
select e.workflow_id, e.topic, e.message_id, p.title, e.status, e.seq, e.created_at
from event e join payload p on p.workflow_id = e.workflow_id and p.content = e.content
where (e.workflow_id, e.seq) < (:workflow_id, :before) and e.workflow_id >= :first order by e.workflow_id desc, e.seq desc limit :limit

-- list_run_ids
-- Runs whose id begins so (U6): the one that is called exactly so, then the newest others, along the primary key.
select id, workflow_id, status, created_at from run where id = :begins
union all
select * from (select id, workflow_id, status, created_at from run where id > :begins and id < :end order by id desc limit :limit) newest

-- list_mutation_ids
-- Mutations whose id begins so (U6).
select id, workflow_id, status, created_at from mutation where id = :begins
union all
select * from (select id, workflow_id, status, created_at from mutation where id > :begins and id < :end order by id desc limit :limit) newest

-- list_allowance_ids
-- Allowances whose id begins so (U6); whether one is still good depends on the clock.
select id, workflow_id, null, given_at from allowance where id = :begins
union all
select * from (select id, workflow_id, null, given_at from allowance where id > :begins and id < :end order by id desc limit :limit) newest

-- list_runs_beside
-- The runs that stand before and behind each of a set, to tell how much of an id names it alone (U6). The scan is over the set.
select i.key, (select max(r.id) from run r where r.id < i.key), (select min(r.id) from run r where r.id > i.key) from json_each(:ids) i

-- list_mutations_beside
-- The mutations that stand before and behind each of a set (U6). The scan is over the set.
select i.key, (select max(m.id) from mutation m where m.id < i.key), (select min(m.id) from mutation m where m.id > i.key) from json_each(:ids) i

-- list_allowances_beside
-- The allowances that stand before and behind each of a set (U6). The scan is over the set.
select i.key, (select max(a.id) from allowance a where a.id < i.key), (select min(a.id) from allowance a where a.id > i.key) from json_each(:ids) i

-- list_titles_between
-- To be looked through (U6): what came into one workflow within a time, the newest first, along an index (event_by_time).
select e.workflow_id, e.topic, e.message_id, p.title, e.status, e.seq, e.created_at
from event e join payload p on p.workflow_id = e.workflow_id and p.content = e.content
where e.workflow_id = :workflow_id and e.created_at >= :first_at and (e.created_at, e.seq) < (:before_at, :before)
order by e.created_at desc, e.seq desc limit :limit

-- find_workflow_between
-- The next one into which something came within a time (U6). Workflows are few (scan of w), and each is a look at an index (event_by_time).
select w.id from workflow w where w.id < :before
  and (select e.seq from event e where e.workflow_id = w.id and e.created_at >= :first_at and e.created_at < :end_at
    order by e.created_at desc limit 1) is not null
order by w.id desc limit 1
