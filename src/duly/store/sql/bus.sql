-- The event bus: journal, subscriptions, deliveries, deferred events, extensions' state.
-- Format as in queries.sql.

-- take_bus_number
-- Bus ids are given out in order and become visible in order, like every other number.
update counter set value = value + 1 where name = :name returning value

-- get_bus_number
-- The last number that was given out: what is not there any more has been (B2).
select value from counter where name = :name

-- skip_bus_numbers
-- What a copy does not know of has numbers too, which must not name anything else (H5).
update counter set value = case when value < :least then :least else value + :step end where name = :name

-- find_untold
-- Whether anything on the bus is still to be delivered, read once at a restore (scan of journal_unopened, delivery_due or delivery_running).
select 1 where exists (select 1 from deferred where status = 'scheduled')
  or exists (select 1 from delivery where status = 'waiting')
  or exists (select 1 from delivery where status = 'running')
  or exists (select 1 from journal j cross join subscription s where j.opened = 0 and s.topic = j.topic and s.leaving = 0)

-- take_journal_number
-- The number of an event, and whether its topic has a subscription.
update counter set value = value + 1 where name = 'journal'
returning value, exists (select 1 from subscription where topic = :topic and leaving = 0)

-- insert_journal_event
-- Written in the transaction of the change it announces (B10).
insert into journal (id, topic, source, payload, correlation_id, causation_id, depth, created_at, status, opened, undelivered, processed_at)
values (:id, :topic, :source, :payload, :correlation_id, :causation_id, :depth, :now, :status, :closed, :closed, case when cast(:closed as bigint) = 1 then cast(:now as bigint) end)

-- get_journal_event
-- The first statement of every verb that moves an event: its status is read here and holds to the end.
select id, topic, source, payload, correlation_id, causation_id, depth, status, opened, undelivered, error, created_at, processed_at
from journal where id = :id

-- move_journal_event
-- Guarded by the status the decision was made on; an event that has moved once is no longer unopened (B4, B13).
update journal set status = :status, opened = 1, undelivered = :undelivered, error = :error, processed_at = :processed_at
where id = :id and status = :old_status

-- recover_journal_events
-- What was being processed when a host died is pending again; its delivery records stay (B7).
update journal set status = :status where status = :old_status

-- next_unopened_topic
-- One step through the topics that have unopened events, so that a backlog costs as much as one event.
select topic from journal where topic > :after and opened = 0 order by topic, id limit 1

-- unopened_events
-- Events without a subscriber are closed in the order they came (B11).
select id from journal where topic = :topic and opened = 0 order by id limit :limit

-- newest_event
-- What a sync that begins now makes durable at least (B4).
select max(id) from journal

-- next_bus_times
-- When to look again: the next deferred event, overdue or not, by the clock of the boot, and the next retry that is still to come (S9).
select (select due_ms from deferred where status = 'scheduled' order by due_ms, id limit 1),
  (select min(due_at) from delivery where status = 'waiting' and due_at > :now)

-- list_ingress_topics
-- The ways from the bus into workflows; as few as topics that listen, so the index is walked (scan of topic_by_bus).
select workflow_id, name, bus_topic from topic where bus_topic is not null and orphaned = 0

-- ingress_topics
-- The ways into one workflow, before and after a deploy (T10); they are few (sort of what it finds).
select workflow_id, name, bus_topic from topic where workflow_id = :workflow_id and bus_topic is not null and orphaned = 0 order by name

-- insert_subscription
-- From here on every event that is opened in its topic is opened for it too (B13).
insert into subscription (subscriber_id, topic, position, attempts_max, delays_s, channel, created_at)
values (:subscriber_id, :topic, :position, :attempts_max, :delays_s, :channel, :now)

-- change_subscription
-- The same subscriber registers at every start and may bring another retry; its place among its like stays (B3, B13).
update subscription set attempts_max = :attempts_max, delays_s = :delays_s, position = :position, channel = :channel
where subscriber_id = :subscriber_id

-- leave_subscription
-- From here on no event is opened for it and no delivery to it begins; what waits is closed in turns (B13).
update subscription set leaving = 1 where subscriber_id = :subscriber_id and leaving = 0

-- next_leaving
-- A subscription that was ended and of which something may still wait to be closed; few are at a time (scan of subscription_leaving).
select subscriber_id from subscription where leaving = 1 order by position limit 1

-- drop_subscription
-- Everything that waited for it is closed.
delete from subscription where subscriber_id = :subscriber_id

-- get_subscription
-- With its place and its retry; one that is leaving as well.
select subscriber_id, topic, position, attempts_max, delays_s, created_at, leaving, channel
from subscription where subscriber_id = :subscriber_id

-- find_subscription_holder
-- Which host calls a subscriber, and whether that host is here (H8).
select s.holder, exists (select 1 from host h where h.id = s.holder) from subscription s where s.subscriber_id = :subscriber_id and s.leaving = 0

-- hold_subscription
-- One host calls a subscriber, until it is gone or gives it back (H8).
update subscription set holder = :holder where subscriber_id = :subscriber_id

-- gone_holders
-- Hosts that went away while they called handlers; without a name, what ran in a store that was not a fleet's. As few as run (scan of delivery_running, and a sort).
select distinct coalesce(d.holder, '') from delivery d
where d.status = 'running' and not exists (select 1 from host h where h.id = d.holder) order by 1

-- running_of_holder
-- What a host was telling its subscribers when it went away, also those whose subscription has ended since; of few that run (scan of delivery_running).
select event_id, topic, subscriber_id, position, status, attempts, due_at, error, suspect
from delivery where status = 'running' and coalesce(holder, '') = :holder order by event_id, subscriber_id

-- running_in_fleet
-- As running_deliveries, and of each whether the host that called its handler is gone (H8); few, so their index is walked (scan of delivery_running).
select d.event_id, d.topic, d.subscriber_id, d.position, d.status, d.attempts, d.due_at, d.error, d.suspect,
  not exists (select 1 from host h where h.id = d.holder)
from delivery d where d.status = 'running' order by d.event_id, d.subscriber_id

-- held_topics
-- The topics that have a subscriber which a live host calls; subscriptions are as few as handlers (scan of subscription, and a sort).
select distinct s.topic from subscription s join host h on h.id = s.holder where s.leaving = 0

-- list_lanes
-- Every subscription with the head of its lane: its oldest open delivery, and the oldest event of its topic that is not opened (B6). As few as handlers, so the table is walked (scan of subscription); they are put in order where one is chosen.
select s.subscriber_id, s.topic, s.position, s.channel, s.holder, s.attempts_max, s.delays_s,
  (select min(j.id) from journal j where j.topic = s.topic and j.opened = 0),
  d.event_id, d.topic, d.subscriber_id, d.position, d.status, d.attempts, d.due_at, d.error, d.suspect
from subscription s left join delivery d on d.subscriber_id = s.subscriber_id and d.event_id = (
  select min(o.event_id) from delivery o where o.subscriber_id = s.subscriber_id and o.topic = s.topic and o.status in ('waiting', 'running'))
where s.leaving = 0

-- topic_lanes
-- The lanes of one topic in registration order: all whom an event is opened for, and all who wait for each other (B3, B13).
select s.subscriber_id, s.topic, s.position, s.channel, s.holder, s.attempts_max, s.delays_s,
  (select min(j.id) from journal j where j.topic = s.topic and j.opened = 0),
  d.event_id, d.topic, d.subscriber_id, d.position, d.status, d.attempts, d.due_at, d.error, d.suspect
from subscription s left join delivery d on d.subscriber_id = s.subscriber_id and d.event_id = (
  select min(o.event_id) from delivery o where o.subscriber_id = s.subscriber_id and o.topic = s.topic and o.status in ('waiting', 'running'))
where s.topic = :topic and s.leaving = 0 order by s.position

-- insert_delivery
-- One record per event and subscriber (B4); one whose handler is called now says so from the first.
insert into delivery (event_id, subscriber_id, topic, position, status, attempts, due_at, updated_at, holder)
values (:event_id, :subscriber_id, :topic, :position, :status, :attempts, :now, :now, :holder)

-- get_delivery
-- As it is now.
select event_id, topic, subscriber_id, position, status, attempts, due_at, error, suspect
from delivery where event_id = :event_id and subscriber_id = :subscriber_id

-- open_deliveries
-- What a subscriber leaves behind when it goes, a turn at a time (B13).
select event_id, topic, subscriber_id, position, status, attempts, due_at, error, suspect
from delivery where subscriber_id = :subscriber_id and topic = :topic and status in ('waiting', 'running')
order by event_id limit :limit

-- running_deliveries
-- As many as handlers run now: few, so their index is walked (scan of delivery_running).
select event_id, topic, subscriber_id, position, status, attempts, due_at, error, suspect
from delivery where status = 'running' order by event_id, subscriber_id

-- running_beside
-- What keeps a delivery of a topic from beginning: what runs in it, and what must run alone (B3, B5); few, so their index is walked (scan of delivery_running).
select event_id, topic, subscriber_id, position, status, attempts, due_at, error, suspect
from delivery where status = 'running' and (topic = :topic or suspect = 1) order by event_id, subscriber_id

-- event_records
-- All deliveries of one event, the event as it is, and how often each may be tried; what is listed of them is put in order there.
select d.event_id, d.topic, d.subscriber_id, d.position, d.status, d.attempts, d.due_at, d.error, d.suspect,
  j.status, j.opened, j.undelivered, j.error, j.processed_at, s.attempts_max, s.delays_s
from delivery d
join journal j on j.id = d.event_id
left join subscription s on s.subscriber_id = d.subscriber_id and s.topic = d.topic and s.leaving = 0
where d.event_id = :event_id

-- event_deliveries
-- All of one event, in registration order; as few as subscribe (sort of what it finds).
select event_id, topic, subscriber_id, position, status, attempts, due_at, error, suspect
from delivery where event_id = :event_id order by position, subscriber_id

-- move_delivery
-- Guarded by the attempt and the status the decision was made on (B4).
update delivery set status = :status, attempts = :attempts, due_at = :due_at, error = :error, suspect = :suspect, updated_at = :now, holder = :holder
where event_id = :event_id and subscriber_id = :subscriber_id and status = :old_status and attempts = :old_attempts

-- insert_deferred_event
-- Kept with everything it will have when it fires (B2).
insert into deferred (id, topic, source, payload, correlation_id, causation_id, depth, fire_at, created_at, boot, due_ms)
values (:id, :topic, :source, :payload, :correlation_id, :causation_id, :depth, :fire_at, :now, :boot, :due_ms)

-- get_deferred_event
-- Its status is what cancelling is decided on.
select id, topic, source, payload, correlation_id, causation_id, depth, status, fire_at, created_at, fired_at, event_id, due_ms
from deferred where id = :id

-- overdue_deferred_events
-- In order of their time; of the same time, of their making (B2).
select id, topic, source, payload, correlation_id, causation_id, depth, status, fire_at, created_at, fired_at, event_id, due_ms
from deferred where status = 'scheduled' and due_ms <= :boot_ms order by due_ms, id limit :limit

-- count_deferred_of
-- How many events of one source wait for their time, counted up to one past what it may have.
select count(*) from (select 1 from deferred where source = :source and status = 'scheduled' limit :limit) d

-- deferred_of_another_boot
-- What was measured by a clock that is gone; at a start alone, when all that is scheduled is looked at.
select id, fire_at, created_at from deferred where status = 'scheduled' and (boot is null or boot <> :boot) order by due_ms, id limit :limit

-- adopt_deferred_event
-- From here on its time is one of this boot's clock (B2).
update deferred set boot = :boot, due_ms = :due_ms where id = :id

-- move_deferred_event
-- Fires or is cancelled, never both: guarded by the status (B2).
update deferred set status = :status, fired_at = :fired_at, event_id = :event_id
where id = :id and status = :old_status returning id

-- put_extension_state
-- An extension's own key and value.
insert into extension_state (extension, key, value, updated_at) values (:extension, :key, :value, :now)
on conflict (extension, key) do update set value = excluded.value, updated_at = excluded.updated_at

-- get_extension_state
-- What the extension last put there.
select value from extension_state where extension = :extension and key = :key

-- list_journal
-- Newest first; the other filters have statements of their own, so that each reads along an index (B14).
select id, topic, source, payload, correlation_id, causation_id, depth, status, opened, undelivered, error, created_at, processed_at
from journal where id < :before order by id desc limit :limit

-- list_journal_by_topic
-- Newest first, of one topic.
select id, topic, source, payload, correlation_id, causation_id, depth, status, opened, undelivered, error, created_at, processed_at
from journal where topic = :topic and id < :before and (cast(:status as text) is null or status = :status) order by id desc limit :limit

-- list_journal_by_status
-- Newest first, of one status.
select id, topic, source, payload, correlation_id, causation_id, depth, status, opened, undelivered, error, created_at, processed_at
from journal where status = :status and id < :before order by id desc limit :limit

-- list_journal_by_correlation
-- Newest first, of one chain: a chain is short, so its other filters are looked at row by row.
select id, topic, source, payload, correlation_id, causation_id, depth, status, opened, undelivered, error, created_at, processed_at
from journal where correlation_id = :correlation_id and correlation_id is not null and id < :before
  and (cast(:topic as text) is null or topic = :topic) and (cast(:status as text) is null or status = :status)
order by id desc limit :limit

-- list_deliveries
-- Oldest first; what is not done is what people look for, so a status other than done has the next statement.
select event_id, topic, subscriber_id, position, status, attempts, due_at, error, suspect
from delivery where (event_id, subscriber_id) > (:event_id, :subscriber_id) and (cast(:status as text) is null or status = :status)
order by event_id, subscriber_id limit :limit

-- list_unfinished_deliveries
-- Dead letters, and what waits, runs or was discarded (B5).
select event_id, topic, subscriber_id, position, status, attempts, due_at, error, suspect
from delivery where status <> 'done' and status = :status and (event_id, subscriber_id) > (:event_id, :subscriber_id)
order by event_id, subscriber_id limit :limit

-- list_deferred
-- In the order in which they fire, of one status (B14).
select id, topic, source, payload, correlation_id, causation_id, depth, status, fire_at, created_at, fired_at, event_id, due_ms
from deferred where status = :status and (fire_at, id) > (:fire_at, :id) order by fire_at, id limit :limit

-- list_subscriptions
-- In registration order; they are as few as handlers, so the table is walked (scan of subscription, and a sort).
select subscriber_id, topic, position, attempts_max, delays_s, created_at, leaving, channel
from subscription where leaving = 0 order by position

-- bus_cause
-- The deepest bus event that a run goes back to (B12): by what it reserved; or, if it reserved nothing, by what came for it since it last looked (S3); or by the act that retried it, or one it follows. Workflows do not end a chain (and sorts).
select id, depth, correlation_id from (
  select j.id, j.depth, j.correlation_id, 0 as retried
  from reservation r
  join run n on n.id = r.run_id
  left join cause c on c.workflow_id = n.workflow_id and c.seq = r.seq
  join event e on e.workflow_id = n.workflow_id and e.seq = coalesce(c.root, r.seq)
  join journal j on j.id = e.bus_event
  where r.run_id = :run_id
  union all
  select j.id, j.depth, j.correlation_id, 0
  from run n
  join handler h on h.workflow_id = n.workflow_id and h.name = n.handler
  join topic t on t.workflow_id = n.workflow_id and t.consumer = n.handler
  join event s on s.workflow_id = n.workflow_id and s.topic = t.name and s.status = 'pending' and s.seq > h.seen and s.seq <= n.counter
  left join cause c on c.workflow_id = s.workflow_id and c.seq = s.seq
  join event e on e.workflow_id = s.workflow_id and e.seq = coalesce(c.root, s.seq)
  join journal j on j.id = e.bus_event
  where n.id = :run_id and not exists (select 1 from reservation r where r.run_id = n.id)
  union all
  select j.id, j.depth, j.correlation_id, 1 from run n join journal j on j.id = n.bus_event where n.id = :run_id
) as causes order by depth desc, retried, id limit 1

-- set_run_bus_event
-- The bus event that was being handled when the run was retried by an act.
update run set bus_event = :bus_event where id = :id
