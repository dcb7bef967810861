-- Reads of several workflows, or of several inputs of one, at once: a page takes as many statements as one row (U6).
-- Format as in queries.sql. A set is the keys of a JSON object; every scan below that is not explained is over such a set.

-- survey_runs
-- The open run of each workflow (F6); a workflow has one at most, the scan is over the set.
select r.id, r.workflow_id, r.version, r.handler, r.kind, r.retry_of, r.chain, r.open, r.phase, r.status, r.outcome, r.waits,
  r.waits_on, r.counter, r.prepared, r.prepared_by, r.wake_at_asked, r.result, r.state_before, r.state_after, r.clock_at, r.seed,
  r.error, r.due_at, r.transient_count, r.logic_count, r.crash_count, r.repair_count, r.outage_since, r.outage_count, r.outage_ms, r.outage_told, r.escalated, r.calls, r.logs,
  r.created_at, r.updated_at, m.status
from json_each(:ids) i cross join run r left join mutation m on m.held_by = r.id
where r.workflow_id = i.key and r.open = 1

-- survey_held
-- The row that each run answers for, if it has one (L1). The scan is over the set.
select m.id, m.workflow_id, m.run_id, m.held_by, m.tool, m.args, m.title, m.inputs, m.key, m.hash, m.status, m.refused, m.result, m.error,
  m.attempt, m.resends, m.asks, m.first_sent_at, m.sent_at, m.due_at, m.created_at, m.updated_at, m.lag_ms, m.timeout_ms, m.key_lifetime_ms,
  m.first_boot, m.first_boot_ms, m.is_resent, m.outage_since, m.outage_count, m.outage_ms, m.outage_told, m.late, m.asked, m.approved_by, m.allowance_id,
  m.args_proposed, m.amended_by, m.seal, m.known_how, m.known_at, m.known_by, m.known_said, m.digests, m.end_seal, m.handle, m.basis
from json_each(:run_ids) i cross join mutation m where m.held_by = i.key

-- survey_inputs
-- What each run was shown: the events it reserved, with the title it pinned (C6). The scan is over the set, the sort over what it finds.
select v.run_id, e.topic, e.message_id, e.seq, p.title, e.status, e.reserved_by, e.finished_by, e.created_at, e.finished_at
from json_each(:run_ids) i cross join reservation v cross join run r cross join event e cross join payload p
where v.run_id = i.key and r.id = v.run_id and e.workflow_id = r.workflow_id and e.seq = v.seq
  and p.workflow_id = r.workflow_id and p.content = v.content
order by v.run_id, v.seq

-- survey_handlers
-- In declaration order, orphaned ones last; a workflow has few. The scan is over the set, the sort over what it finds.
select h.workflow_id, h.name, h.kind, h.position, h.orphaned, h.schedule, h.state, h.next_run_at, h.wake_at, h.changed, h.seen, h.not_before, h.untried
from json_each(:ids) i cross join handler h where h.workflow_id = i.key order by h.workflow_id, h.orphaned, h.position, h.name

-- survey_outlooks
-- What S2, S3 and S5 need of every handler the active version has; its events are asked for by index. The scan is over the set.
select h.workflow_id, h.name, h.kind, h.position, h.next_run_at, h.wake_at, h.changed, h.seen, h.not_before, h.untried,
  case when h.kind = 'consumer' then
    (select min((select e.seq from event e where e.workflow_id = t.workflow_id and e.topic = t.name and e.status = 'pending' order by e.seq limit 1))
     from topic t where t.workflow_id = h.workflow_id and t.consumer = h.name and t.consumer is not null and t.orphaned = 0) end, h.planned_at
from json_each(:ids) i cross join handler h where h.workflow_id = i.key and h.orphaned = 0

-- survey_topics
-- With the consumer of each; null is a terminal topic. The scan is over the set, the sort over what it finds.
select t.workflow_id, t.name, t.consumer, t.ingress, t.bus_topic, t.orphaned, t.worked_until
from json_each(:ids) i cross join topic t where t.workflow_id = i.key order by t.workflow_id, t.name

-- survey_pending
-- How much waits in each topic, and how much of what has waited longest came before a moment; no count goes further than the limit (U1, U4).
-- What a topic without a consumer holds beyond what was work is an output (W9). The scans are over the set and over what a limit cuts.
select t.workflow_id, t.name,
  (select count(*) from (select 1 from event e where e.workflow_id = t.workflow_id and e.topic = t.name and e.status = 'pending'
    and e.seq <= case when t.consumer is null then t.worked_until else :seq_max end limit :limit) as waiting),
  (select count(*) from (select e.created_at from event e where e.workflow_id = t.workflow_id and e.topic = t.name and e.status = 'pending'
    and e.seq <= case when t.consumer is null then t.worked_until else :seq_max end order by e.seq limit :limit) as oldest
   where oldest.created_at < :before)
from json_each(:ids) i cross join topic t where t.workflow_id = i.key and (t.consumer is not null or t.worked_until > 0)

-- survey_oldest
-- What has waited longest in a few topics, so much of each, up to a number of its own. The scan is over the set, the sort over what it finds.
select e.workflow_id, e.topic, e.message_id, e.seq, p.title, e.status, e.reserved_by, e.finished_by, e.created_at, e.finished_at
from json_each(:places) i cross join event e cross join payload p
where e.workflow_id = i.value ->> 0 and e.seq in (
    select o.seq from event o where o.workflow_id = i.value ->> 0 and o.topic = i.value ->> 1 and o.status = 'pending'
      and o.seq <= cast(i.value ->> 2 as bigint) order by o.seq limit :limit)
  and p.workflow_id = e.workflow_id and p.content = e.content
order by e.workflow_id, e.seq

-- survey_processed
-- What each workflow consumed lately, by topic and hour: how many, and how many of them were inputs (U1). It reads no further back than the limit and what was consumed in that one
-- millisecond, along an index that has all it needs (event_consumed). The scan is over the set.
select e.workflow_id, e.topic, (e.finished_at - :since) / :hour_ms, count(*), sum(case when exists (
    select 1 from cause c where c.workflow_id = e.workflow_id and c.seq = e.seq) then 0 else 1 end)
from json_each(:ids) i cross join event e
where e.workflow_id = i.key and e.status = 'consumed' and e.finished_at >= coalesce((
  select l.finished_at from event l where l.workflow_id = i.key and l.status = 'consumed' and l.finished_at >= :since
  order by l.finished_at desc limit 1 offset :limit), :since)
group by e.workflow_id, e.topic, (e.finished_at - :since) / :hour_ms

-- survey_hours
-- How much each workflow consumed in each hour of a day; no hour is counted further than the limit (U1). Each hour is a range of an index that has all it needs (event_consumed); the last one has no
-- end, since a clock that was set back leaves times that are still to come. The scans are over the set and its hours.
with recursive hour (place) as (select 0 union all select h.place + 1 from hour h where h.place < :last)
select i.key, h.place, (select count(*) from (
  select 1 from event e where e.workflow_id = i.key and e.status = 'consumed' and e.finished_at >= :since + h.place * :hour_ms
    and e.finished_at < case when h.place = :last then :end else :since + (h.place + 1) * :hour_ms end limit :limit) as within)
from json_each(:ids) i cross join hour h

-- survey_applied
-- How many calls of each tool were done lately; no count goes further than the limit (U1). The index is walked from tool to tool. The scans are over the set and its tools.
with recursive used (workflow_id, tool) as (
  select i.key, (select min(m.tool) from mutation m where m.workflow_id = i.key and m.sent_at is not null) from json_each(:ids) i
  union all
  select u.workflow_id, (select min(m.tool) from mutation m where m.workflow_id = u.workflow_id and m.tool > u.tool and m.sent_at is not null)
  from used u where u.tool is not null)
select u.workflow_id, u.tool, (select count(*) from (
  select 1 from mutation m where m.workflow_id = u.workflow_id and m.tool = u.tool and m.sent_at is not null and m.sent_at >= :since
    and m.status = 'applied' limit :limit) as lately)
from used u where u.tool is not null

-- survey_pausers
-- Who paused each workflow last (A6). The scan is over the set.
select a.workflow_id, a.by from json_each(:ids) i cross join action a
where a.id = (select l.id from action l where l.workflow_id = i.key and l.verb = 'pause' order by l.id desc limit 1)

-- survey_proposed
-- The newest repair of each that was neither adopted nor declined and is newer than what is active (F3); a workflow has few versions. The scan is over the set, the sort over its versions.
select workflow_id, version, created_at from (
  select v.workflow_id, v.version, v.created_at, row_number() over (partition by v.workflow_id order by v.created_at desc, v.version desc) as place
  from json_each(:ids) i cross join workflow w cross join version a cross join version v
  where w.id = i.key and a.workflow_id = w.id and a.version = w.active_version
    and v.workflow_id = w.id and v.origin = 'repair' and v.activated_at is null and v.created_at >= a.created_at
    and not exists (select 1 from action d where d.target = v.version and d.workflow_id = w.id and d.verb = 'decline')) as proposed
where place = 1

-- survey_findings
-- What was found in the active version of each, without its source. The scan is over the set.
select v.workflow_id, v.findings from json_each(:ids) i cross join workflow w cross join version v
where w.id = i.key and v.workflow_id = w.id and v.version = w.active_version

-- survey_grants
-- The envelope of each (A1). The scan is over the set, the sort over what it finds.
select g.workflow_id, g.capability, g.mutations_per_day, g.matching, g.granted_by, g.granted_at
from json_each(:ids) i cross join granted g where g.workflow_id = i.key order by g.workflow_id, g.capability

-- survey_allowed
-- What allowances that are neither revoked nor over may cover, each tool of a version once; of one that is used up too (A3). The scan is over the set, the sort over what it finds.
select distinct a.workflow_id, a.tool, a.version
from json_each(:ids) i cross join allowance a where a.workflow_id = i.key and a.revoked_at is null and a.until > :now

-- survey_sent
-- How often the tools of a capability were sent in a time, one row left out, for each run that waits (A1). The scan is over the set.
select i.value ->> 0, (select count(*) from mutation m where m.workflow_id = i.value ->> 1 and m.tool = i.value ->> 2 and m.sent_at is not null
  and m.sent_at >= cast(i.value ->> 3 as bigint) and m.sent_at < cast(i.value ->> 4 as bigint) and m.id <> i.value ->> 5)
from json_each(:places) i

-- list_caused
-- What each input led to, itself left out: what is worked on now before all else, then the oldest, so much of each (T9). The scan is over the set, the sort over what they led to.
select traced.root, e.topic, e.message_id, e.seq, p.title, e.status, e.reserved_by, e.finished_by, e.created_at, e.finished_at
from (select c.root, c.seq, row_number() over (partition by c.root order by case s.status when 'reserved' then 0 else 1 end, c.seq) as place
  from json_each(:roots) i cross join cause c cross join event s
  where c.workflow_id = :workflow_id and c.root = cast(i.key as bigint) and c.seq <> c.root and s.workflow_id = c.workflow_id and s.seq = c.seq) as traced
cross join event e cross join payload p
where traced.place <= :limit and e.workflow_id = :workflow_id and e.seq = traced.seq and p.workflow_id = e.workflow_id and p.content = e.content
order by traced.root, e.seq

-- list_work_statuses
-- What became of each input and of all the work it led to, each word once (U2). The scans are over the set.
select distinct traced.root, e.status from (
  select c.root, c.seq from json_each(:roots) i cross join cause c where c.workflow_id = :workflow_id and c.root = cast(i.key as bigint)
  union all select cast(i.key as bigint), cast(i.key as bigint) from json_each(:roots) i) as traced
cross join event e cross join topic t
where e.workflow_id = :workflow_id and e.seq = traced.seq and t.workflow_id = e.workflow_id and t.name = e.topic
  and (t.consumer is not null or e.seq <= t.worked_until)

-- list_target_actions
-- All that was done to each thing, oldest first (A6). The scan is over the set, the sort over what was found.
select a.id, a.at, a.by, a.verb, a.workflow_id, a.target, a.detail from json_each(:targets) i cross join action a
where a.target = i.key and a.workflow_id = :workflow_id order by a.id limit :limit

-- find_target_actions
-- The last time that a person or an extension did this to each thing (A6). The scan is over the set.
select a.id, a.at, a.by, a.verb, a.workflow_id, a.target, a.detail from json_each(:targets) i cross join action a
where a.id = (select l.id from action l where l.target = i.key and l.workflow_id = :workflow_id and l.verb = :verb order by l.id desc limit 1)

-- list_rights
-- What stands of each right: its limits, how often it was taken from its workflow, and how often a workflow of the name was removed; workflows are few (A1, A6). The scans are over the set, over what was done to each, and of workflow.
select i.value ->> 0, i.value ->> 2, g.mutations_per_day, g.matching,
  (select count(*) from action a where a.target = i.value ->> 2 and a.workflow_id = i.value ->> 0 and a.verb = 'revoke'),
  (select max(a.id) from action a where a.target = i.value ->> 2 and a.workflow_id = i.value ->> 0 and a.verb = 'revoke'),
  (select count(*) from workflow r where r.name = i.value ->> 1 and r.removed_at is not null),
  (select max(r.id) from workflow r where r.name = i.value ->> 1 and r.removed_at is not null)
from json_each(:places) i left join granted g on g.workflow_id = i.value ->> 0 and g.capability = i.value ->> 2

-- survey_waiting
-- How much waits in each topic, no further than the limit, and since when the first of it (U1). What a topic without a consumer holds beyond what was work is an output (W9).
-- The scans are over the set and over what a limit cuts.
select t.workflow_id,
  (select count(*) from (select 1 from event e where e.workflow_id = t.workflow_id and e.topic = t.name and e.status = 'pending'
    and e.seq <= case when t.consumer is null then t.worked_until else :seq_max end limit :limit) as waiting),
  (select e.created_at from event e where e.workflow_id = t.workflow_id and e.topic = t.name and e.status = 'pending'
    and e.seq <= case when t.consumer is null then t.worked_until else :seq_max end order by e.seq limit 1)
from json_each(:ids) i cross join topic t where t.workflow_id = i.key and (t.consumer is not null or t.worked_until > 0)

-- count_open_runs
-- Open runs and the rows they hold, by status; a workflow has one open run at most (scan of run_one_open, sort of what it finds).
select r.status, m.status, count(*) from run r left join mutation m on m.held_by = r.id where r.open = 1 group by r.status, m.status

-- count_unfinished
-- The newest deliveries that are not done, by status (B5; scan of what a limit cuts, sort of the words).
select d.status, count(*) from (
  select status from delivery where status <> 'done' order by event_id desc, subscriber_id desc limit :limit) as d
group by d.status

-- survey_newest
-- When the newest input of each workflow came (U2), among its newest events; where all of these came of others, when the newest of them did. The scans are over the set and over what a limit cuts.
select i.key, coalesce(
  (select max(n.created_at) from (select e.seq, e.created_at from event e where e.workflow_id = i.key order by e.seq desc limit :limit) as n
    where not exists (select 1 from cause c where c.workflow_id = i.key and c.seq = n.seq and c.root <> c.seq)),
  (select e.created_at from event e where e.workflow_id = i.key order by e.seq desc limit 1))
from json_each(:ids) i
