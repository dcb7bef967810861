-- Every statement that changes something or decides what is due; what people look at is in views.sql.
-- Format: `-- name`, a line saying why, the statement. Parameters are `:name`. A statement PostgreSQL must
-- word differently is repeated in postgres.sql under the same name.
-- Lock order: workflow, run, mutation, event, handler, journal.

-- look_at_workflow
-- The first statement of every fenced verb: epoch and counter are read here and hold to the end.
select epoch, counter, paused, active_version, name, holder from workflow where id = :id and removed_at is null

-- insert_workflow
-- The name must be free; a removed workflow's name is.
insert into workflow (id, name, active_version, created_at)
values (:id, :name, :version, :now)
on conflict do nothing returning id

-- activate_version
-- Only over the version the caller saw active: of two deploys at once one is told to look again.
update workflow set active_version = :version
where id = :id and active_version = :old_version and removed_at is null returning id

-- count_repair
-- Questions to the repairer are counted per day, beginning with the first one (F3).
update workflow set repairs = case when repairs = 0 or :now - repairs_since >= :day_ms or repairs_since - :now >= :day_ms then 1 else repairs + 1 end,
  repairs_since = case when repairs = 0 or :now - repairs_since >= :day_ms or repairs_since - :now >= :day_ms then :now else repairs_since end
where id = :id

-- insert_version
-- A version is never changed once it is there (W8).
insert into version (workflow_id, version, language, source, hash, declaration, findings, author, origin, parent, activated_at, created_at, path)
values (:workflow_id, :version, :language, :source, :hash, :declaration, :findings, :author, :origin, :parent, :activated_at, :now, :path)
on conflict do nothing returning version

-- put_needs
-- The tools that a version uses (H7). The scan is over the set.
insert into need (workflow_id, version, tool) select :workflow_id, :version, i.key from json_each(:tools) i

-- workflow_of_path
-- Which workflow, other than one, came from this file last; a repair comes from none (W9). The scan is over all workflows, and the sort over the versions of each: a deploy is rare.
select w.name from workflow w
where w.removed_at is null and w.name <> :name and :path = (
  select v.path from version v where v.workflow_id = w.id and v.path is not null order by v.created_at desc limit 1)
order by w.name limit 1

-- kept_producers
-- Those of the newest version and those left behind, and whether each has a state (W9).
select name, orphaned, state is not null from handler where workflow_id = :workflow_id and kind = 'producer'

-- kept_topics
-- Those of the newest version and those left behind, and whether each has events and a consumer (W9).
select t.name, t.orphaned, t.consumer is not null,
  exists (select 1 from event e where e.workflow_id = t.workflow_id and e.topic = t.name)
from topic t where t.workflow_id = :workflow_id order by t.name

-- orphan_handlers
-- Before the new version's handlers are written; a handler that is not written again stays orphaned (W9).
update handler set orphaned = 1 where workflow_id = :workflow_id

-- orphan_topics
-- As with handlers: the events stay visible. What a topic that had a consumer holds now was work, and stays known as such.
update topic set orphaned = 1, consumer = null,
  worked_until = case when consumer is null then worked_until else (select w.counter from workflow w where w.id = topic.workflow_id) end
where workflow_id = :workflow_id

-- put_topic
-- Options are those of the newest version.
insert into topic (workflow_id, name, consumer, ingress, bus_topic)
values (:workflow_id, :name, :consumer, :ingress, :bus_topic)
on conflict (workflow_id, name) do update
set consumer = excluded.consumer, ingress = excluded.ingress, bus_topic = excluded.bus_topic, orphaned = 0,
  worked_until = case when excluded.consumer is null then topic.worked_until else 0 end

-- put_handler
-- State and wakeAt stay with the name (W9). On a producer `changed` is the number of the deploy that changed its schedule.
insert into handler (workflow_id, name, kind, position, schedule, next_run_at, planned_at, changed, untried)
values (:workflow_id, :name, :kind, :position, :schedule, :next_run_at, :now, :changed, case when :kind = 'consumer' then 1 else 0 end)
on conflict (workflow_id, name) do update
set kind = excluded.kind, position = excluded.position, orphaned = 0, schedule = excluded.schedule,
  next_run_at = excluded.next_run_at,
  planned_at = case when handler.next_run_at is not distinct from excluded.next_run_at then handler.planned_at else excluded.planned_at end,
  changed = case when excluded.kind = 'producer' and handler.kind = 'producer' and handler.schedule is not distinct from excluded.schedule
    then handler.changed else excluded.changed end,
  untried = excluded.untried

-- set_paused
-- A person's pause, apart from everything the system decides; pausing twice keeps the first time (F7). A resume of a restored workflow accepts it as it is (H5).
update workflow set paused_since = case when :paused = 0 then null else coalesce(paused_since, :now) end, paused = :paused,
  blind_since = case when :paused = 0 then null else blind_since end
where id = :id

-- run_now
-- All producers of the workflow, or the one that is named (S7, W2), in one transaction.
update handler set next_run_at = :now, planned_at = :now where workflow_id = :workflow_id and kind = 'producer' and orphaned = 0
  and (cast(:producer as text) is null or name = :producer)

-- list_producers
-- The producers a workflow has now, by name.
select name from handler where workflow_id = :workflow_id and kind = 'producer' and orphaned = 0 order by name

-- replan_producer
-- A time that a wrong clock wrote, guarded by that time (S2); what was looked at is not looked at again.
update handler set next_run_at = :next_run_at, planned_at = :now
where workflow_id = :workflow_id and name = :name and kind = 'producer' and next_run_at = :old_next_run_at and planned_at > :now

-- remove_workflow
-- The row stays: history is readable and ids are never used again (W10).
update workflow set removed_at = :now, holder = null, epoch = epoch + 1 where id = :id and removed_at is null

-- put_grant
-- Granting again replaces the limits.
insert into granted (workflow_id, capability, mutations_per_day, matching, granted_by, granted_at)
values (:workflow_id, :capability, :mutations_per_day, :matching, :by, :now)
on conflict (workflow_id, capability) do update
set mutations_per_day = excluded.mutations_per_day, matching = excluded.matching,
  granted_by = excluded.granted_by, granted_at = excluded.granted_at

-- choose_asks
-- When a person is asked, within a grant that stays: its limits, who gave it and when (A3).
update granted set matching = :matching where workflow_id = :workflow_id and capability = :capability

-- drop_grant
-- Revocable at any moment; who revoked it is in `action`.
delete from granted where workflow_id = :workflow_id and capability = :capability

-- wake_granted_run
-- Only a run that waits for exactly this capability (F4); the host then moves it on.
update run set due_at = :now, updated_at = :now
where workflow_id = :workflow_id and open = 1 and waits = 'grant' and waits_on = :capability returning id

-- wake_connected_runs
-- Every workflow that waits for this connection or for a secret of it; open runs are few, so their index is walked (scan of run_one_open).
update run set due_at = :now, updated_at = :now where open = 1 and waits = 'connection'
  and (waits_on = :connector or substr(waits_on, 1, length(:connector) + 1) = :connector || '.') returning id

-- put_secret
-- Sealed before it comes here (A5). What takes the place of one that is gone is not kept. Another secret has another time, also when the clock was set back (K10).
insert into secret (connector, name, sealed, set_at)
select :connector, :name, :sealed, cast(:now as bigint)
where coalesce(cast(:over as text), '') = '' or exists (select 1 from secret s where s.connector = :connector and s.name = :name)
on conflict (connector, name) do update set sealed = excluded.sealed,
  set_at = case when excluded.set_at > secret.set_at then excluded.set_at else secret.set_at + 1 end
  where cast(:over as text) is null or secret.sealed = :over
returning set_at

-- leave_all
-- The host that has the file's lock is the only one there is (H6).
delete from host

-- join_host
-- A host that is here may claim workflows (H2).
insert into host (id, name, started_at, machine, lease_until, timeline, offers) values (:id, :name, :now, :machine, :lease_until, :timeline, :offers)

-- change_offers
-- The tools or the settings of a host that is here are others now (H7).
update host set offers = :offers where id = :id

-- drop_offers
-- What a host offered before (H7).
delete from offer where host = :id

-- put_offers
-- The tools of a host (H7). The scan is over the set.
insert into offer (host, tool) select :id, i.key from json_each(:tools) i

-- renew_host
-- A lease that is over is never renewed: another host may be evicting this one (H2).
update host set lease_until = :lease_until, serves = :serves where id = :id and lease_until > :clock returning machine, offers

-- list_other_hosts
-- Whose leases a host watches (H2); the scan is over hosts, which are few.
select id, lease_until, serves, machine, offers from host where id <> :id and lease_until is not null order by id

-- evict_host
-- Only the lease that was seen to be over; a renewal in between wins.
delete from host where id = :id and lease_until = :lease_until and lease_until <= :clock

-- find_host
-- Whether a host is still here, and until when its lease lasts; and on which timeline it has compared what it was told (H10).
select lease_until, timeline from host where id = :id

-- confirm_host
-- The host has compared its counters on this timeline, under a lease that is not over (H10).
update host set timeline = :timeline where id = :id and lease_until > :clock

-- leave_host
-- What it has claimed is free from now on.
delete from host where id = :id

-- claim_workflow
-- A workflow that no other host holds, that is bound to no other machine, and for which the host has all tools (H7); the new epoch fences every earlier claim, the host's own too.
update workflow set holder = :host, epoch = epoch + 1
where id = :id and removed_at is null and (holder = :host or not exists (select 1 from host h where h.id = workflow.holder))
  and (machine is null or machine = (select h.machine from host h where h.id = :host))
  and not exists (select 1 from lacking l where l.host = :host and l.workflow_id = workflow.id) returning epoch

-- list_lacking
-- Which tools a host lacks for a workflow (H7).
select l.tool from lacking l where l.host = :host and l.workflow_id = :id

-- claim_gone
-- A workflow whose call has an unknown outcome, and that is bound to a machine on which no host has served for ten minutes, or whose tool no host has had for so long, there if it is bound: a host says so, and takes a person's answer; it runs nothing (H7; scan of host, which has few rows).
-- A host that stands in already, and does not know it any more, takes it anew, also if its machine or its call is back: else no host could give it back. So does a holder that lacks a tool now.
update workflow set holder = :host, epoch = epoch + 1
where id = :id and removed_at is null and (holder = :host or not exists (select 1 from host h where h.id = workflow.holder)
  and exists (select 1 from run r join mutation m on m.held_by = r.id where r.workflow_id = workflow.id and r.open = 1
    and (m.status = 'needs_reconcile' or m.status = 'indeterminate' or m.status = 'in_flight' and m.sent_at is not null)
    and (not exists (select 1 from host h where h.machine = workflow.machine and h.serves = 1)
        and exists (select 1 from upkeep u where u.name = 'gone ' || workflow.machine and u.at <= :before)
      or not exists (select 1 from host h where h.serves = 1 and (workflow.machine is null or h.machine = workflow.machine)
          and (h.offers is null or exists (select 1 from offer f where f.host = h.id and f.tool = m.tool)))
        and exists (select 1 from upkeep u where u.name = 'tool ' || m.tool || ' ' || coalesce(workflow.machine, '') and u.at <= :before))))
returning epoch, coalesce(machine, '')

-- list_gone
-- Calls with an unknown outcome that only a machine without a host can ask about, or a tool that no host has, there if it is bound; since when that is so, and when the row was changed last (H7); workflows with such a call are few, so open runs are walked (scan of run_one_open and of host).
select t.id, t.gone, u.at, t.updated_at, t.status, t.is_held from (
  select w.id, m.updated_at, m.status, exists (select 1 from host h where h.id = w.holder) as is_held,
    case when w.machine is not null and not exists (select 1 from host h where h.machine = w.machine and h.serves = 1) then 'gone ' || w.machine
      when not exists (select 1 from host h where h.serves = 1 and (w.machine is null or h.machine = w.machine)
        and (h.offers is null or exists (select 1 from offer f where f.host = h.id and f.tool = m.tool))) then 'tool ' || m.tool || ' ' || coalesce(w.machine, '') end as gone
  from run r join workflow w on w.id = r.workflow_id join mutation m on m.held_by = r.id
  where r.open = 1 and w.removed_at is null and (m.status = 'needs_reconcile' or m.status = 'indeterminate' or m.status = 'in_flight' and m.sent_at is not null)
) t left join upkeep u on u.name = t.gone where t.gone is not null

-- note_gone
-- The first host that sees it writes since when.
insert into upkeep (name, at) values (:name, :at) on conflict (name) do nothing

-- drop_gone
-- What no call waits for any more, as a machine on which a host serves, or a tool that one has (scan of upkeep and of the set).
delete from upkeep where substr(name, 1, 5) in ('gone ', 'tool ') and name not in (select i.key from json_each(:names) i)

-- drop_all_gone
-- What a copy of a store says of machines and tools is of another time (scan of upkeep, which has few rows).
delete from upkeep where substr(name, 1, 5) in ('gone ', 'tool ')

-- yield_workflow
-- A host that stands in for a machine has sent nothing, and one that lacks a tool now has no send out: they give back a workflow whose run is open (H7).
update workflow set holder = null where id = :id and holder = :host and epoch = :epoch

-- bind_workflow
-- It uses files of the machine of its holder (H7).
update workflow set machine = (select h.machine from host h where h.id = workflow.holder) where id = :id and machine is null

-- unbind_workflow
-- What was revoked may have bound it. The new epoch lets its holder claim it anew, and bind it again if it must be. Not while a run is open: its call is known on one machine alone (H7).
update workflow set machine = null, epoch = epoch + 1 where id = :id and machine is not null and not exists (select 1 from run r where r.workflow_id = workflow.id and r.open = 1)

-- release_workflow
-- A host gives back what is more than its share, between two runs: with a run that is open it keeps what it knows of its sends (H7).
update workflow set holder = null
where id = :id and holder = :host and epoch = :epoch and not exists (select 1 from run r where r.workflow_id = workflow.id and r.open = 1)

-- count_kin
-- What the hosts of a fleet share: how many workflows there are of each machine, and of each set of hosts that lack a tool, where hosts differ (H7); read once in every renewal (scan of workflow).
select k.machine, k.unable, count(*) from (select w.machine, case when :is_mixed = 1 then (select string_agg(d.host, ' ' order by d.host) from (select distinct l.host from lacking l where l.workflow_id = w.id) d) end as unable
  from workflow w where w.removed_at is null) k group by k.machine, k.unable

-- list_own_kin
-- The same of each workflow that a host holds (scan of workflow).
select w.id, w.machine, case when :is_mixed = 1 then (select string_agg(d.host, ' ' order by d.host) from (select distinct l.host from lacking l where l.workflow_id = w.id) d) end from workflow w where w.removed_at is null and w.holder = :id

-- find_kin
-- The same of one workflow that a host wants; hosts are few (scan of h).
select w.machine, (select string_agg(d.host, ' ' order by d.host) from (select distinct l.host from lacking l where l.workflow_id = w.id) d) from workflow w where w.id = :id

-- list_hosts
-- For people: every host with its lease and how many workflows it holds; hosts and workflows are few enough to be walked (scan of host, and a sort).
select h.id, h.name, h.started_at, h.lease_until, h.serves, (select count(*) from workflow w where w.holder = h.id and w.removed_at is null), (select u.at from upkeep u where u.name = 'met ' || h.id) from host h order by h.started_at, h.id

-- list_held_runs
-- Active runs, and those with a call out, that a host has taken up under the claim it holds now; open runs are few, so their index is walked (scan of run_one_open).
select r.id from run r join workflow w on w.id = r.workflow_id
where r.open = 1 and w.holder = :host and r.epoch = w.epoch
  and (r.status = 'active' or (select m.status from mutation m where m.held_by = r.id) = 'in_flight')

-- insert_action
-- Who did what, when, to what (A6); one act has one id, so that a repeated request does nothing.
insert into action (id, at, by, verb, workflow_id, target, detail)
values (:id, :at, :by, :verb, :workflow_id, :target, :detail)
on conflict do nothing returning id

-- take_numbers
-- One counter per workflow, locked until commit: numbers become visible in order (T6).
update workflow set counter = counter + :count where id = :id returning counter

-- touch_consumer
-- Something changed in a topic: its consumer is to look again (S3).
update handler set changed = :number
where workflow_id = :workflow_id
  and name = (select t.consumer from topic t where t.workflow_id = :workflow_id and t.name = :topic)

-- get_topic
-- What a publish from outside is checked against.
select consumer, ingress, orphaned, bus_topic from topic where workflow_id = :workflow_id and name = :name

-- find_event
-- By message id, with the digest of its newest content: the one kept beside, if there is one (T5).
select e.seq, e.status, e.content, e.content_beside, p.digest, e.attempts, e.reserved_by
from event e join payload p on p.workflow_id = e.workflow_id and p.content = coalesce(e.content_beside, e.content)
where e.workflow_id = :workflow_id and e.topic = :topic and e.message_id = :message_id

-- count_dropped
-- Other content came for an event that is over (T5).
update event set dropped = dropped + 1 where workflow_id = :workflow_id and seq = :seq

-- find_events
-- Those of a set that there are, in one look (T7). A set is the keys of a JSON object: SQLite and PostgreSQL take it apart by the same words. The scan is over the set.
select e.message_id, e.status, e.seq, e.content
from json_each(:ids) i cross join event e
where e.workflow_id = :workflow_id and e.topic = :topic and e.message_id = i.key

-- insert_payload
-- Title and body of one content of an event.
insert into payload (workflow_id, content, title, body, digest) values (:workflow_id, :content, :title, :body, :digest)

-- drop_payload
-- Only a content no run was ever shown.
delete from payload where workflow_id = :workflow_id and content = :content

-- insert_event
-- A new event: its number is the number of its first content.
insert into event (workflow_id, seq, topic, message_id, content, created_by, bus_event, created_at)
values (:workflow_id, :seq, :topic, :message_id, :seq, :created_by, :bus_event, :now)

-- set_bus_event
-- New content that a handler of the bus brought: the event goes on that chain (B12).
update event set bus_event = :bus_event where workflow_id = :workflow_id and seq = :seq

-- replace_content
-- Other content on a pending event: same place in the order, new content number (T5).
update event set content = :content where workflow_id = :workflow_id and seq = :seq and status = 'pending'

-- set_content_beside
-- Other content on a reserved event waits for a release (T5).
update event set content_beside = :content, dropped = dropped + case when content_beside is null then 0 else 1 end
where workflow_id = :workflow_id and seq = :seq and status = 'reserved'

-- insert_causes
-- Which inputs an event goes back to (T9): a set, since a run may have reserved thousands (T7). The scan is over the set.
insert into cause (workflow_id, root, seq)
select :workflow_id, cast(i.key as bigint), cast(:seq as bigint) from json_each(:roots) i where true on conflict do nothing

-- insert_own_cause
-- An input is its own root, which is written down when it is about to get others (T9).
insert into cause (workflow_id, root, seq)
select :workflow_id, :seq, :seq where not exists (select 1 from cause c where c.workflow_id = :workflow_id and c.seq = :seq)

-- insert_own_cause_too
-- New content from outside on an event that a run had made: it goes back to itself from now on as well (T9).
insert into cause (workflow_id, root, seq)
select :workflow_id, :seq, :seq where exists (select 1 from cause c where c.workflow_id = :workflow_id and c.seq = :seq)
on conflict do nothing

-- run_roots
-- The inputs behind everything a run reserved: an event's roots, or itself if it is an input (T9).
select distinct coalesce(c.root, r.seq) from reservation r
left join cause c on c.workflow_id = :workflow_id and c.seq = r.seq
where r.run_id = :run_id

-- reserve_events
-- A set of them, by their numbers, and only while they are pending; the judgement was made in this same transaction. The scan is over the set.
-- `coalesce`: otherwise SQLite walks all that is pending in the workflow (event_pending) for each set.
update event set status = 'reserved', reserved_by = :run_id, attempts = attempts + 1
where workflow_id = :workflow_id and seq in (select cast(i.key as bigint) from json_each(:seqs) i) and coalesce(status, '') = 'pending'

-- insert_reservations
-- Which content the run was shown of each, pinned (C6). The scan is over the set.
insert into reservation (run_id, seq, content)
select :run_id, e.seq, e.content from event e
where e.workflow_id = :workflow_id and e.seq in (select cast(i.key as bigint) from json_each(:seqs) i)

-- release_events
-- Back to pending, with the content that arrived meanwhile (T5).
update event set status = 'pending', reserved_by = null, content = coalesce(content_beside, content), content_beside = null
where reserved_by = :run_id and status = 'reserved' returning topic

-- transfer_events
-- The successor owns them from the moment it exists (R6).
update event set reserved_by = :successor_id where reserved_by = :run_id and status = 'reserved'

-- transfer_reservations
-- The pinned contents go with the events.
update reservation set run_id = :successor_id where run_id = :run_id

-- drop_payloads_beside
-- Contents that came too late for what a run ends: they were never shown to a run, and no later act could remove them (T5, H5).
delete from payload where (workflow_id, content) in (
  select e.workflow_id, e.content_beside from event e
  where e.reserved_by = :run_id and e.status = 'reserved' and e.content_beside is not null)

-- drop_unpinned_payload
-- A content that was replaced, unless a run was shown it (T5, C6).
delete from payload where workflow_id = :workflow_id and content = :content and not exists (
  select 1 from reservation v cross join run r
  where v.seq = :seq and v.content = :content and r.id = v.run_id and r.workflow_id = :workflow_id)

-- finish_events
-- Consumed or skipped, for good; a content that came meanwhile is dropped and counted (T5, C11).
update event set status = :status, reserved_by = null, finished_by = :run_id, finished_at = :now,
  dropped = dropped + case when content_beside is null then 0 else 1 end, content_beside = null
where reserved_by = :run_id and status = 'reserved'

-- skip_event
-- By a person, for good (U3).
update event set status = :status, finished_at = :now
where workflow_id = :workflow_id and seq = :seq and status = 'pending'

-- drop_content_beside
-- An event that ends takes no other content any more; what waited is dropped and counted (T5).
update event set content_beside = null, dropped = dropped + 1
where workflow_id = :workflow_id and seq = :seq and content_beside is not null

-- size_pending
-- How large each would be that peek_events would bring, so that no more is read than is shown (T6).
select octet_length(p.title) + octet_length(p.body)
from event e join payload p on p.workflow_id = e.workflow_id and p.content = e.content
where e.workflow_id = :workflow_id and e.topic = :topic and e.status = 'pending' and e.seq > :after
order by e.seq limit :limit

-- peek_events
-- Pending events of one topic in their order (T6).
select e.topic, e.message_id, e.seq, e.content, p.title, p.body, e.status, e.reserved_by, e.finished_by, e.created_by, e.attempts, e.created_at, e.finished_at
from event e join payload p on p.workflow_id = e.workflow_id and p.content = e.content
where e.workflow_id = :workflow_id and e.topic = :topic and e.status = 'pending' and e.seq > :after
order by e.seq limit :limit

-- size_events
-- How large a set of events is in all, before any of it is read (T7). The scan is over the set.
select coalesce(sum(octet_length(p.title) + octet_length(p.body)), 0)
from json_each(:ids) i cross join event e cross join payload p
where e.workflow_id = :workflow_id and e.topic = :topic and e.message_id = i.key
  and p.workflow_id = e.workflow_id and p.content = e.content

-- get_events
-- A set of events of any status (T7). The scan is over the set.
select e.topic, e.message_id, e.seq, e.content, p.title, p.body, e.status, e.reserved_by, e.finished_by, e.created_by, e.attempts, e.created_at, e.finished_at
from json_each(:ids) i cross join event e cross join payload p
where e.workflow_id = :workflow_id and e.topic = :topic and e.message_id = i.key
  and p.workflow_id = e.workflow_id and p.content = e.content

-- get_handler
-- One handler with its state.
select name, kind, position, orphaned, schedule, state, next_run_at, wake_at, changed, seen, not_before, untried
from handler where workflow_id = :workflow_id and name = :name

-- insert_run
-- The first run of a chain; the index on open runs refuses a second one (F6).
insert into run (id, workflow_id, version, handler, kind, chain, phase, status, epoch, counter, state_before, created_at, updated_at)
values (:id, :workflow_id, :version, :handler, :kind, :id, :phase, 'active', :epoch, :counter, :state_before, :now, :now)
on conflict do nothing

-- insert_successor
-- Fresh: nothing is copied but the chain (R5), and that of the bus (B12). It uses the active version, or the run's own if its handler is gone.
insert into run (id, workflow_id, version, handler, kind, retry_of, chain, phase, status, outcome, counter, state_before,
  transient_count, logic_count, crash_count, repair_count, outage_since, outage_count, outage_ms, outage_told, bus_event, created_at, updated_at)
select :id, r.workflow_id, case when h.orphaned = 0 and h.kind = r.kind then w.active_version else r.version end, r.handler, r.kind, r.id, r.chain,
  :phase, :status, :outcome, w.counter, h.state, :transient_count, :logic_count, :crash_count, :repair_count, :outage_since, :outage_count, :outage_ms, :outage_told, r.bus_event, :now, :now
from run r join workflow w on w.id = r.workflow_id join handler h on h.workflow_id = r.workflow_id and h.name = r.handler
where r.id = :retry_of
on conflict do nothing

-- insert_heir
-- It inherits inputs, outcome, result, state, clock, seed and S3's counter, so every later one decides the same (R5).
insert into run (id, workflow_id, version, handler, kind, retry_of, chain, phase, status, outcome, counter, prepared, prepared_by,
  wake_at_asked, result, state_before, clock_at, seed, transient_count, logic_count, crash_count, repair_count, outage_since, outage_count, outage_ms, outage_told, bus_event,
  created_at, updated_at)
select :id, r.workflow_id, case when h.orphaned = 0 and h.kind = r.kind then w.active_version else r.version end, r.handler, r.kind, r.id, r.chain,
  :phase, :status, :outcome, r.counter, r.prepared, r.prepared_by, r.wake_at_asked, r.result, r.state_before, r.clock_at, r.seed,
  :transient_count, :logic_count, :crash_count, :repair_count, :outage_since, :outage_count, :outage_ms, :outage_told, r.bus_event, :now, :now
from run r join workflow w on w.id = r.workflow_id join handler h on h.workflow_id = r.workflow_id and h.name = r.handler
where r.id = :retry_of
on conflict do nothing

-- get_run
-- Everything a run keeps, with the status of the ledger row it holds.
select r.id, r.workflow_id, r.version, r.handler, r.kind, r.retry_of, r.chain, r.open, r.phase, r.status, r.outcome, r.waits,
  r.waits_on, r.counter, r.prepared, r.prepared_by, r.wake_at_asked, r.result, r.state_before, r.state_after, r.clock_at, r.seed,
  r.error, r.due_at, r.transient_count, r.logic_count, r.crash_count, r.repair_count, r.outage_since, r.outage_count, r.outage_ms, r.outage_told, r.escalated, r.calls, r.logs,
  r.created_at, r.updated_at, m.status
from run r left join mutation m on m.held_by = r.id where r.id = :id

-- open_run
-- The one open run of a workflow (F6).
select id, status from run where workflow_id = :workflow_id and open = 1

-- open_run_of_topic
-- The open run, if it is of the consumer of this topic (U3).
select r.id, r.status from run r join topic t on t.workflow_id = r.workflow_id and t.consumer = r.handler
where r.workflow_id = :workflow_id and r.open = 1 and t.name = :topic

-- prepare_run
-- The prepare result is pinned with the phase (C6); guarded by the state it was decided on (R8).
update run set phase = :phase, status = :status, outcome = :outcome, waits = :waits, prepared = :prepared,
  prepared_by = version, wake_at_asked = :wake_at_asked, clock_at = :clock_at, seed = :seed, epoch = :epoch, updated_at = :now
where id = :id and workflow_id = :workflow_id and open = 1 and phase = :old_phase and status = :old_status and waits is not distinct from :old_waits
  and (select m.status from mutation m where m.held_by = run.id) is not distinct from :old_row

-- move_run
-- The same run goes on; it waits for no person and no time any more.
update run set phase = :phase, status = :status, outcome = :outcome, waits = :waits, waits_on = null, escalated = null, due_at = null, epoch = :epoch, updated_at = :now
where id = :id and workflow_id = :workflow_id and open = 1 and phase = :old_phase and status = :old_status and waits is not distinct from :old_waits
  and (select m.status from mutation m where m.held_by = run.id) is not distinct from :old_row

-- take_up_run
-- The holder goes on with a run that an act or its predecessor made active (H2).
update run set epoch = :epoch where id = :id and open = 1

-- close_run
-- The run ends here, or its successor takes over in this same transaction.
update run set phase = :phase, status = :status, outcome = :outcome, waits = :waits, open = 0, due_at = null, updated_at = :now
where id = :id and workflow_id = :workflow_id and open = 1 and phase = :old_phase and status = :old_status and waits is not distinct from :old_waits
  and (select m.status from mutation m where m.held_by = run.id) is not distinct from :old_row

-- settle_run
-- The outcome and the result stand with the phase, in one write (L9).
update run set phase = :phase, status = :status, outcome = :outcome, waits = :waits, waits_on = null, escalated = null, result = :result, due_at = null, epoch = :epoch, updated_at = :now
where id = :id and workflow_id = :workflow_id and open = 1 and phase = :old_phase and status = :old_status and waits is not distinct from :old_waits
  and (select m.status from mutation m where m.held_by = run.id) is not distinct from :old_row

-- stop_run
-- Why, how often, until when, and what a person is told (F2–F5, F8).
update run set phase = :phase, status = :status, outcome = :outcome, waits = :waits, waits_on = :waits_on,
  error = :error, due_at = :due_at, escalated = :escalated, transient_count = :transient_count, logic_count = :logic_count,
  crash_count = :crash_count, repair_count = :repair_count,
  outage_since = :outage_since, outage_count = :outage_count, outage_ms = :outage_ms, outage_told = :outage_told, calls = :calls, logs = :logs, updated_at = :now
where id = :id and workflow_id = :workflow_id and open = 1 and phase = :old_phase and status = :old_status and waits is not distinct from :old_waits
  and (select m.status from mutation m where m.held_by = run.id) is not distinct from :old_row

-- keep_notes
-- What a run called and logged so far; it may be long until it goes on (R1).
update run set calls = :calls, logs = :logs where id = :id

-- ask_repair
-- One more question, counted once: only where the count is still the one it was decided on, and no person was asked to decide (F3).
update run set phase = :phase, status = :status, outcome = :outcome, waits = :waits, repair_count = repair_count + 1, updated_at = :now
where id = :id and workflow_id = :workflow_id and open = 1 and phase = :old_phase and status = :old_status and waits is not distinct from :old_waits
  and (select m.status from mutation m where m.held_by = run.id) is not distinct from :old_row
  and repair_count = :repair_count and due_at is not null

-- escalate_run
-- The host does not move it on any more; a person is told why, once (F3, F8).
update run set phase = :phase, status = :status, outcome = :outcome, waits = :waits, escalated = :escalated, due_at = null, updated_at = :now
where id = :id and workflow_id = :workflow_id and open = 1 and phase = :old_phase and status = :old_status and waits is not distinct from :old_waits
  and (select m.status from mutation m where m.held_by = run.id) is not distinct from :old_row
  and due_at is not null

-- finish_run
-- The run is over; what S3 needs of it is answered.
update run set phase = :phase, status = :status, outcome = :outcome, waits = :waits, open = 0, due_at = null,
  state_after = :state_after, calls = :calls, logs = :logs, updated_at = :now
where id = :id and workflow_id = :workflow_id and open = 1 and phase = :old_phase and status = :old_status and waits is not distinct from :old_waits
  and (select m.status from mutation m where m.held_by = run.id) is not distinct from :old_row
returning handler, counter, prepared_by

-- commit_producer
-- No state returned keeps the old one (P2). A schedule that was deployed since the run began has its own time, which stays (W9).
update handler set state = coalesce(:state, state), next_run_at = case when changed > :counter then next_run_at else :next_run_at end,
  planned_at = case when changed > :counter then planned_at else :now end
where workflow_id = :workflow_id and name = :name

-- commit_consumer
-- `seen` is what the run knew before it looked, so an event that came since makes it due again (S3).
update handler set state = coalesce(:state, state), wake_at = :wake_at, seen = :seen, not_before = :not_before,
  untried = case when :is_tried = 1 then 0 else untried end
where workflow_id = :workflow_id and name = :name

-- put_recording
-- What a step read, in place of what an earlier attempt of its chain did (F3).
insert into recording (workflow_id, chain, step, reads)
select r.workflow_id, r.chain, :step, :reads from run r where r.id = :run_id
on conflict (workflow_id, chain, step) do update set reads = excluded.reads

-- clear_recording
-- A fresh attempt asks again: what the one before it was told is no part of it.
delete from recording where workflow_id = :workflow_id and chain = :chain

-- prune_recordings
-- Only the newest of a workflow are ever asked for (F3); a chain is kept or dropped whole.
delete from recording where workflow_id = :workflow_id and step <> 'produce' and chain <=
  (select n.chain from recording n where n.workflow_id = :workflow_id and n.step <> 'produce' order by n.chain desc limit 1 offset :kept)

-- drop_produced
-- Of each producer the newest run that published is kept (F3); a workflow's recordings are few.
delete from recording where workflow_id = :workflow_id and step = 'produce'
  and exists (select 1 from run r where r.id = recording.chain and r.handler = :handler)

-- insert_mutation
-- One row per run that makes one, and per run that holds one (L1).
insert into mutation (id, workflow_id, run_id, held_by, tool, args, title, inputs, key, hash, status, attempt, first_sent_at, sent_at, created_at, updated_at,
  lag_ms, timeout_ms, key_lifetime_ms, first_boot, first_boot_ms, first_clock, asked, approved_by, allowance_id, seal, basis)
values (:id, :workflow_id, :run_id, :run_id, :tool, :args, :title, :inputs, :key, :hash, :status, :attempt, :sent_at, :sent_at, :now, :now,
  :lag_ms, :timeout_ms, :key_lifetime_ms, :boot, :boot_ms, :clock, :asked, :approved_by, :allowance_id, :seal, :basis)
on conflict do nothing

-- move_mutation
-- The status alone, guarded by the one it was decided on (R8); a row that is now unknown is to be asked about at once.
-- A proposal that is withdrawn or rejected was never sent, or was refused each time (L12).
update mutation set status = :status, due_at = case when :status = 'needs_reconcile' then cast(:now as bigint) end, updated_at = :now,
  known_how = case when :status = 'rejected' or :status = 'failed' then case when first_sent_at is null then 'unsent' else 'answered' end else known_how end,
  known_at = case when :status = 'rejected' or :status = 'failed' then cast(:now as bigint) else known_at end,
  known_by = :by, known_said = :said
where held_by = :held_by and status = :old_status

-- send_mutation
-- Same row, same call, same key, one attempt more; the send time is stored first (L7, F4). What it was sent with stays while that send is unknown; a send is out again (L6).
update mutation set status = 'in_flight', attempt = attempt + 1, resends = resends + :is_resend, is_resent = case when :is_resend = 1 then 1 else is_resent end,
  basis = case when :is_resend = 1 then basis else :basis end,
  first_boot = case when first_sent_at is null then :boot else first_boot end,
  first_boot_ms = case when first_sent_at is null then :boot_ms else first_boot_ms end,
  first_clock = case when first_sent_at is null then :clock else first_clock end, ended_clock = null,
  first_sent_at = coalesce(first_sent_at, :now), sent_at = :now, due_at = null, updated_at = :now
where held_by = :held_by and status = :old_status returning id

-- settle_mutation
-- What became known by the newest send, and how (L12); a refusal on the merits grows the generation (L7). A row that stays unknown always has a time to be asked at (L5).
-- One that was not sent after all is no send again (L7).
update mutation set status = :status, result = :result, error = :error, refused = :refused, resends = resends - :is_unsent,
  outage_since = :outage_since, outage_count = :outage_count, outage_ms = :outage_ms, outage_told = :outage_told,
  due_at = case when :status = 'needs_reconcile' then coalesce(cast(:due_at as bigint), :now) end, updated_at = :now,
  known_how = :known_how, known_at = case when cast(:known_how as text) is null then null else cast(:now as bigint) end, known_by = :known_by, known_said = :known_said
where held_by = :held_by and status = :old_status and attempt = :attempt

-- measure_contents
-- How long the contents are that each run was shown (L15). The scan is over the set.
select v.run_id, sum(length(p.body)) from json_each(:run_ids) i cross join reservation v cross join run r cross join payload p
where v.run_id = i.key and r.id = v.run_id and p.workflow_id = r.workflow_id and p.content = v.content
group by v.run_id

-- list_contents
-- The inputs of the row each run holds, with the digest of the content each was shown with (L15). The scan is over the set, the sort over what it finds.
select v.run_id, e.topic, e.message_id, p.digest, v.content, p.title, p.body
from json_each(:run_ids) i cross join reservation v cross join run r cross join event e cross join payload p
where v.run_id = i.key and r.id = v.run_id and e.workflow_id = r.workflow_id and e.seq = v.seq
  and p.workflow_id = r.workflow_id and p.content = v.content
order by v.run_id, v.seq

-- get_prepared
-- Whose call it is, and what it was made from (L11).
select handler, prepared from run where id = :id

-- list_prepared
-- The same of every run that holds a row; the call of one that is over is sealed by its digest, and needs no text (L15). The scan is over the set.
select r.id, r.handler, case when r.open = 1 then r.prepared end from json_each(:run_ids) i cross join run r where r.id = i.key

-- seal_end
-- Once: a row that has ended changes no more (L15).
update mutation set digests = :digests, end_seal = :seal where id = :id and status = :status and end_seal is null

-- reseal_end
-- Under another key, guarded by the seal that was checked (L15).
update mutation set end_seal = :seal, seal = :begun, digests = :digests where id = :id and end_seal is not distinct from :old_seal

-- walk_mutations
-- The ledger in the order of its ids, a page at a time: for a new key and for a check (scan of mutation, cut by the limit).
select id, workflow_id, run_id, held_by, tool, args, title, inputs, key, hash, status, refused, result, error, attempt, resends, asks,
  first_sent_at, sent_at, due_at, created_at, updated_at, lag_ms, timeout_ms, key_lifetime_ms, first_boot, first_boot_ms, is_resent,
  outage_since, outage_count, outage_ms, outage_told, late, asked, approved_by, allowance_id, args_proposed, amended_by,
  seal, known_how, known_at, known_by, known_said, digests, end_seal, handle, basis
from mutation where id > :after order by id limit :limit

-- pass_mutation
-- A row passes to the successor; it is never copied (L1).
update mutation set held_by = :successor_id, updated_at = :now where held_by = :held_by

-- count_ask
-- One attempt to ask, decided on the count and the time it was due at, so counted once (L5). One that could not be asked is part of an outage and uses up none.
update mutation set asks = :asks, due_at = :due_at, error = :error, updated_at = :now,
  outage_since = :outage_since, outage_count = :outage_count, outage_ms = :outage_ms, outage_told = :outage_told
where id = :id and workflow_id = :workflow_id and status = 'needs_reconcile' and asks = :old_asks and due_at is not distinct from :old_due_at

-- reset_asks
-- A person asked to try again: the attempts begin anew (L10).
update mutation set asks = 0, resends = 0 where id = :id

-- look_at_mutation
-- Before what is decided on the row of a call without the lock of its workflow.
select 1 from mutation where id = :id

-- keep_late_answer
-- What sends returned when they decided nothing any more, as JSON, shown beside what was decided (L1); guarded by what was kept before.
update mutation set late = :late where id = :id and late is not distinct from :old

-- keep_handle
-- The handle of the first step of a call, before its second leaves (L14). Only of the send that is out: after that the row is asked about without it.
update mutation set handle = :handle, seal = :seal, updated_at = :now
where id = :id and workflow_id = :workflow_id and status = 'in_flight' and attempt = :attempt and handle is not distinct from :old_handle

-- list_first_sends
-- Since when the outside has known a key: the first send of every row that has it (L7).
select first_sent_at, first_boot, first_boot_ms, first_clock from mutation where key = :key and first_sent_at is not null

-- note_end
-- The host that made, or took over, the sends of an unknown row knows that none is out any more, and since when that counts (L6). The first to know is believed.
update mutation set ended_clock = coalesce(ended_clock, :clock) where id = :id and workflow_id = :workflow_id and attempt = :attempt
  and (status = 'needs_reconcile' or status = 'indeterminate')

-- find_status
-- What is known of a row.
select status from mutation where id = :id

-- find_end
-- Of an unknown row: from when on no send of it is out any more, by the server's clock (L6).
select ended_clock from mutation where id = :id

-- count_refusals
-- The generation of a set of inputs (L7).
select count(*) from mutation where inputs = :inputs and refused = 1

-- first_send
-- When a key was first sent, by any row (L7).
select min(first_sent_at) from mutation where key = :key and first_sent_at is not null

-- count_sent
-- How often a tool was sent since a moment, with any outcome. Rows that a wrong clock dated far ahead are left out; a row that is about to be sent again does not count against itself (A1).
select count(*) from mutation where workflow_id = :workflow_id and tool = :tool and sent_at is not null and sent_at >= :since and sent_at < :until and id <> :besides

-- count_first
-- For how many sets of inputs a major version has sent a tool, counted up to the limit (A3). A call that was refused before its send does not count.
select count(*) from (
  select distinct m.inputs from mutation m join run r on r.id = m.run_id
  where m.workflow_id = :workflow_id and m.tool = :tool and m.sent_at is not null
    and m.sent_at >= (select coalesce(min(v.created_at), 0) from version v where v.workflow_id = :workflow_id and v.version like :major)
    and r.version like :major
  limit :most) c

-- approve_mutation
-- Who agreed, sealed with the rest of the row (L11, A4).
update mutation set approved_by = :by, seal = :seal where id = :id and hash = :hash

-- amend_mutation
-- A person's own arguments: what the script asked for is kept beside, and the hash is another one (A3). Only before anything was sent.
update mutation set args_proposed = coalesce(args_proposed, args), args = :args, hash = :hash, seal = :seal, amended_by = :by, updated_at = :now
where id = :id and hash = :old_hash and status = 'proposed' and first_sent_at is null

-- insert_allowance
-- Given with the yes to one call, in its transaction (A3).
insert into allowance (id, workflow_id, mutation_id, tool, version, args, matching, calls, until, given_by, given_at, seal)
values (:id, :workflow_id, :mutation_id, :tool, :version, :args, :matching, :calls, :until, :given_by, :given_at, :seal)

-- get_allowance
-- An allowance, and how many rows were sent under it: a row counts once, however often it is sent (A3).
select a.id, a.workflow_id, a.mutation_id, a.tool, a.version, a.args, a.matching, a.calls, a.until, a.given_by, a.given_at, a.revoked_by, a.revoked_at, a.seal,
  (select count(*) from mutation m where m.allowance_id = a.id)
from allowance a where a.id = :id

-- find_allowances
-- What may cover a call of a tool in a version, the oldest first; they are few, and at most a hundred are looked at (sort of what it finds).
select a.id, a.workflow_id, a.mutation_id, a.tool, a.version, a.args, a.matching, a.calls, a.until, a.given_by, a.given_at, a.revoked_by, a.revoked_at, a.seal,
  (select count(*) from mutation m where m.allowance_id = a.id)
from allowance a where a.workflow_id = :workflow_id and a.tool = :tool and a.version = :version and a.revoked_at is null and a.until > :now
order by a.id limit 100

-- revoke_allowance
-- At any moment; a call that was sent under it stays sent (A3).
update allowance set revoked_by = :by, revoked_at = :now where id = :id and revoked_at is null

-- open_seals
-- The rows that may still be sent or asked about, with what their seals cover (L11): all of them, for a key is rotated rarely (scan of mutation).
select id from mutation where status = 'proposed' or status = 'in_flight' or status = 'needs_reconcile' or status = 'indeterminate' order by id

-- live_allowances
-- Those no one revoked, also of versions that are gone: few, and a key is rotated rarely (scan of allowance).
select a.id, a.workflow_id, a.mutation_id, a.tool, a.version, a.args, a.matching, a.calls, a.until, a.given_by, a.given_at, a.revoked_by, a.revoked_at, a.seal,
  (select count(*) from mutation m where m.allowance_id = a.id)
from allowance a where a.revoked_at is null order by a.id

-- reseal_mutation
-- Under another key, guarded by the seal that was checked (L11).
update mutation set seal = :seal where id = :id and seal is not distinct from :old_seal

-- reseal_allowance
-- Under another key, guarded by the seal that was checked (L11).
update allowance set seal = :seal where id = :id and seal = :old_seal

-- reseal_secret
-- Under another key, guarded by the seal that was opened (A5).
update secret set sealed = :sealed where connector = :connector and name = :name and sealed = :old_sealed

-- get_mutation
-- A row of the ledger.
select id, workflow_id, run_id, held_by, tool, args, title, inputs, key, hash, status, refused, result, error, attempt, resends, asks,
  first_sent_at, sent_at, due_at, created_at, updated_at, lag_ms, timeout_ms, key_lifetime_ms, first_boot, first_boot_ms, is_resent,
  outage_since, outage_count, outage_ms, outage_told, late, asked, approved_by, allowance_id, args_proposed, amended_by,
  seal, known_how, known_at, known_by, known_said, digests, end_seal, handle, basis,
  (select min(o.first_sent_at) from mutation o where o.key = mutation.key and o.first_sent_at is not null)
from mutation where id = :id

-- get_held_mutation
-- The row a run answers for, if it has one (L1).
select id, workflow_id, run_id, held_by, tool, args, title, inputs, key, hash, status, refused, result, error, attempt, resends, asks,
  first_sent_at, sent_at, due_at, created_at, updated_at, lag_ms, timeout_ms, key_lifetime_ms, first_boot, first_boot_ms, is_resent,
  outage_since, outage_count, outage_ms, outage_told, late, asked, approved_by, allowance_id, args_proposed, amended_by,
  seal, known_how, known_at, known_by, known_said, digests, end_seal, handle, basis,
  (select min(o.first_sent_at) from mutation o where o.key = mutation.key and o.first_sent_at is not null)
from mutation where held_by = :held_by

-- open_run_outlook
-- The one open run of a workflow, what its ledger row says, and when either is to be looked at again (F6, R7).
select r.id, r.status, r.epoch, r.due_at, m.status, m.due_at, r.updated_at, coalesce(m.updated_at, 0) from run r left join mutation m on m.held_by = r.id
where r.workflow_id = :workflow_id and r.open = 1

-- handler_outlook
-- What S2, S3 and S5 need of every handler the active version has; its events are asked for by index.
select h.name, h.kind, h.position, h.next_run_at, h.wake_at, h.changed, h.seen, h.not_before, h.untried,
  case when h.kind = 'consumer' then
    (select min((select e.seq from event e where e.workflow_id = t.workflow_id and e.topic = t.name and e.status = 'pending' order by e.seq limit 1))
     from topic t where t.workflow_id = h.workflow_id and t.consumer = h.name and t.consumer is not null and t.orphaned = 0) end, h.planned_at
from handler h where h.workflow_id = :workflow_id and h.orphaned = 0

-- due_runs
-- Here and below: a host of a fleet is told only of what it holds, and, where it has room, of what no host holds and its machine and tools can do (H7): the list
-- is cut, and what others hold must not fill it.
-- Open runs that can move: active ones, and those whose time has come; a paused workflow's wait for resume (F7). A run that has a call out
-- is seen always: after a restart no task waits for its answer, and asking goes on (R7). Open runs are few, so their index is walked (scan of run_one_open).
select r.workflow_id, r.id, r.status from run r cross join workflow w
where w.id = r.workflow_id and r.open = 1 and ((select m.status from mutation m where m.held_by = r.id) = 'in_flight'
  or (r.status = 'active' or r.due_at <= :now or r.due_at > :horizon or r.due_at is not null and r.updated_at > :now) and w.paused = 0)
  and (cast(:host as text) is null or w.holder = :host or :has_room = 1 and not exists (select 1 from host o where o.id = w.holder)
    and (w.machine is null or w.machine = (select o.machine from host o where o.id = :host))
    and not exists (select 1 from lacking l where l.host = :host and l.workflow_id = w.id))
order by r.workflow_id limit :limit

-- due_producers
-- Planned times that have come, in workflows that are free (S2, F6).
select h.workflow_id, h.name, h.position, h.next_run_at from handler h join workflow w on w.id = h.workflow_id
where h.kind = 'producer' and h.orphaned = 0 and h.next_run_at is not null and h.next_run_at <= :now and w.paused = 0
  and not exists (select 1 from run r where r.workflow_id = h.workflow_id and r.open = 1)
  and (cast(:host as text) is null or w.holder = :host or :has_room = 1 and not exists (select 1 from host o where o.id = w.holder)
    and (w.machine is null or w.machine = (select o.machine from host o where o.id = :host))
    and not exists (select 1 from lacking l where l.host = :host and l.workflow_id = w.id))
order by h.next_run_at, h.position limit :limit

-- suspect_producers
-- Producers that were planned when the clock showed more than now, in workflows that are free: the rules say whether to plan again (S2).
select distinct h.workflow_id from handler h join workflow w on w.id = h.workflow_id
where h.kind = 'producer' and h.orphaned = 0 and h.next_run_at is not null and h.planned_at > :now and w.paused = 0
  and not exists (select 1 from run r where r.workflow_id = h.workflow_id and r.open = 1)
  and (cast(:host as text) is null or w.holder = :host or :has_room = 1 and not exists (select 1 from host o where o.id = w.holder)
    and (w.machine is null or w.machine = (select o.machine from host o where o.id = :host))
    and not exists (select 1 from lacking l where l.host = :host and l.workflow_id = w.id))
limit :limit

-- due_untried
-- Consumers no run of the active version has committed for (S3a); they are few, so their index is walked (scan of handler_untried).
select h.workflow_id, h.name, h.position,
  (select min((select e.seq from event e where e.workflow_id = t.workflow_id and e.topic = t.name and e.status = 'pending' order by e.seq limit 1))
   from topic t where t.workflow_id = h.workflow_id and t.consumer = h.name and t.consumer is not null and t.orphaned = 0)
from handler h join workflow w on w.id = h.workflow_id
where h.kind = 'consumer' and h.orphaned = 0 and h.untried = 1 and (h.not_before <= :now or h.not_before > :held_until) and w.paused = 0
  and not exists (select 1 from run r where r.workflow_id = h.workflow_id and r.open = 1)
  and (cast(:host as text) is null or w.holder = :host or :has_room = 1 and not exists (select 1 from host o where o.id = w.holder)
    and (w.machine is null or w.machine = (select o.machine from host o where o.id = :host))
    and not exists (select 1 from lacking l where l.host = :host and l.workflow_id = w.id))
order by h.workflow_id, h.position limit :limit

-- due_changed
-- Consumers whose topics changed since they looked, and that have something pending (S3b); walks the consumers with changes (scan of handler_changed).
select d.workflow_id, d.name, d.position, d.oldest from (
  select h.workflow_id, h.name, h.position,
    (select min((select e.seq from event e where e.workflow_id = t.workflow_id and e.topic = t.name and e.status = 'pending' order by e.seq limit 1))
     from topic t where t.workflow_id = h.workflow_id and t.consumer = h.name and t.consumer is not null and t.orphaned = 0) as oldest
  from handler h join workflow w on w.id = h.workflow_id
  where h.kind = 'consumer' and h.orphaned = 0 and h.changed > h.seen and (h.not_before <= :now or h.not_before > :held_until) and w.paused = 0
    and not exists (select 1 from run r where r.workflow_id = h.workflow_id and r.open = 1)
    and (cast(:host as text) is null or w.holder = :host or :has_room = 1 and not exists (select 1 from host o where o.id = w.holder)
      and (w.machine is null or w.machine = (select o.machine from host o where o.id = :host))
      and not exists (select 1 from lacking l where l.host = :host and l.workflow_id = w.id))
) d
where d.oldest is not null order by d.workflow_id, d.position limit :limit

-- due_woken
-- Consumers whose wakeAt has come, or is further away than one can be (S3c, S6).
select h.workflow_id, h.name, h.position,
  (select min((select e.seq from event e where e.workflow_id = t.workflow_id and e.topic = t.name and e.status = 'pending' order by e.seq limit 1))
   from topic t where t.workflow_id = h.workflow_id and t.consumer = h.name and t.consumer is not null and t.orphaned = 0)
from handler h join workflow w on w.id = h.workflow_id
where h.kind = 'consumer' and h.orphaned = 0 and h.wake_at is not null and (h.wake_at <= :now or h.wake_at > :wake_horizon) and (h.not_before <= :now or h.not_before > :held_until) and w.paused = 0
  and not exists (select 1 from run r where r.workflow_id = h.workflow_id and r.open = 1)
  and (cast(:host as text) is null or w.holder = :host or :has_room = 1 and not exists (select 1 from host o where o.id = w.holder)
    and (w.machine is null or w.machine = (select o.machine from host o where o.id = :host))
    and not exists (select 1 from lacking l where l.host = :host and l.workflow_id = w.id))
order by h.wake_at, h.position limit :limit

-- due_reconciles
-- Unknown mutations whose time to be asked about has come; a pause does not stop the asking (F7). They are few, so their index is walked (scan of mutation_due).
select m.workflow_id, m.id, m.held_by from mutation m join workflow w on w.id = m.workflow_id
where m.status = 'needs_reconcile' and (m.due_at <= :now or m.due_at > :horizon or m.updated_at > :now)
  and (cast(:host as text) is null or w.holder = :host or :has_room = 1 and not exists (select 1 from host o where o.id = w.holder)
    and (w.machine is null or w.machine = (select o.machine from host o where o.id = :host))
    and not exists (select 1 from lacking l where l.host = :host and l.workflow_id = w.id))
order by m.due_at limit :limit

-- due_deferred
-- Deferred events whose time has come (B2).
select count(*) from (select 1 from deferred where status = 'scheduled' and fire_at <= :now limit 1000) d

-- due_deliveries
-- Journal events that were not opened yet, and deliveries whose time has come (B3, B5); cut at a thousand (scan of journal_unopened).
select (select count(*) from (select 1 from journal where opened = 0 limit 1000) j)
  + (select count(*) from (select 1 from delivery where status = 'waiting' and due_at <= :now limit 1000) d)

-- next_due_times
-- When to look again: the first time of each kind that is still to come (S9). A consumer that is held back may wait for it by each of
-- S3's three ways; those that are, are few, so their indexes are walked (scan of handler_changed and handler_untried).
select min(next_run_at) from handler where kind = 'producer' and orphaned = 0 and next_run_at is not null and next_run_at > :now
union all select min(wake_at) from handler where kind = 'consumer' and orphaned = 0 and wake_at is not null and wake_at > :now
union all select min(not_before) from handler where kind = 'consumer' and orphaned = 0 and changed > seen and not_before > :now
union all select min(not_before) from handler where kind = 'consumer' and orphaned = 0 and untried = 1 and not_before > :now
union all select min(not_before) from handler where kind = 'consumer' and orphaned = 0 and wake_at is not null and wake_at <= :now and not_before > :now
union all select min(due_at) from run where open = 1 and due_at is not null and due_at > :now
union all select min(due_at) from mutation where status = 'needs_reconcile' and due_at > :now
union all select min(fire_at) from deferred where status = 'scheduled' and fire_at > :now
union all select min(due_at) from delivery where status = 'waiting' and due_at > :now
