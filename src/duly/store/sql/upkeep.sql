-- Looking after a store: what retention removes, how a copy is marked, what must hold (H5).
-- Format as in queries.sql. Retention goes through a table in turns of a few dozen rows along its key, so that other verbs do not wait long for it.

-- get_upkeep
-- When something was last done to the store as a whole, if it was.
select at from upkeep where name = :name

-- get_mark
-- The same for a verb that decides by it and writes it: of two hosts one decides.
select at from upkeep where name = :name

-- put_upkeep
-- The newest time is the one that counts.
insert into upkeep (name, at) values (:name, :at) on conflict (name) do update set at = excluded.at

-- move_forgotten
-- How often something was forgotten. Who counts, and who writes down a file, locks the row: of two at once one sees the other.
insert into upkeep (name, at) values ('forgotten', :by) on conflict (name) do update set at = upkeep.at + excluded.at returning at

-- put_told
-- Written by one of several hosts: a mark that says it already stays, unless a wrong clock dated it ahead.
insert into upkeep (name, at) values (:name, :now) on conflict (name) do update set at = excluded.at
  where upkeep.at < :begun or upkeep.at > :ahead

-- drop_upkeep
-- A copy that was opened is a store like any other.
delete from upkeep where name = :name

-- list_keys
-- The keys between which a change has not ended (H12; scan of upkeep, which has few rows).
select name from upkeep where substr(name, 1, 12) = 'sealed with '

-- drop_keys
-- Everything is sealed with one key (H12; scan of upkeep, once for each change of the key).
delete from upkeep where substr(name, 1, 12) = 'sealed with '

-- list_blind
-- Why workflows are blind since a moment (H1, H10; scan of upkeep, which has few rows).
select name, at from upkeep where name = 'lost last' or substr(name, 1, 6) = 'blind '

-- drop_blind
-- Causes for which no workflow and no bus is held back any more (scan of upkeep and workflow; once at a loss).
delete from upkeep where substr(name, 1, 6) = 'blind ' and at not in (select w.blind_since from workflow w where w.blind_since is not null)
  and at not in (select u.at from upkeep u where u.name = 'held')

-- drop_traces
-- Hosts that are missing for so long that none of them goes on, and what hosts that are gone have compared (H10; scan of upkeep, when a host goes).
delete from upkeep where (substr(name, 1, 8) = 'evicted ' and at < :evicted) or (substr(name, 1, 5) = 'left ' and at < :left)
  or (substr(name, 1, 4) = 'met ' and not exists (select 1 from host h where h.id = substr(upkeep.name, 5)))

-- limit_traces
-- Of each kind the newest stay: many commands that leave push out no host that was evicted (H10; scan and sort of upkeep, when a host goes).
delete from upkeep where name in (select t.name from (
  select u.name, row_number() over (partition by substr(u.name, 1, 5) order by u.at desc, u.name desc) as place
  from upkeep u where substr(u.name, 1, 8) = 'evicted ' or substr(u.name, 1, 5) = 'left '
) t where t.place > :most)

-- find_trace
-- Whether a host is rightly missing (H10).
select name from upkeep where name in ('evicted ' || :host, 'left ' || :host)

-- find_unmet
-- A host that is here and has not compared what it was told since the server began (H10; scan of host, which has few rows); none that came before hosts said so, and none whose lease was over by a moment (sort of these).
select coalesce(h.name, h.id) from host h join upkeep u on u.name = 'met ' || h.id
where h.lease_until > :over and u.at <> :started order by h.started_at, h.id limit 1

-- get_timeline
-- On which timeline the store was seen last, if it is on a server (H10).
select at from upkeep where name = 'timeline'

-- find_holder
-- Which host has claimed a workflow, if that one is still here: it compares by itself what it was told, or is evicted (H10).
select h.id from workflow w join host h on h.id = w.holder where w.id = :id

-- has_claimed
-- Whether this host was the last to claim a workflow.
select 1 from workflow where id = :id and holder = :host

-- newest_moment
-- The newest time the store knows of, for one that has lost its log: what was done later is not in it (scan of run; once in the life of a store).
select max(at) from (
  select max(updated_at) as at from run
  union all select max(at) from action
  union all select max(created_at) from event
  union all select max(created_at) from journal
) newest

-- next_workflow
-- One after another, removed ones too: their history grows old as well.
select id from workflow where id > :after order by id limit 1

-- open_chain_since
-- Since when the chain of the open run is under way, by whichever time is earlier: clocks are set.
with recursive chain (id) as (
  select id from run where workflow_id = :workflow_id and open = 1
  union all
  select r.retry_of from chain c cross join run r where r.id = c.id and r.retry_of is not null
)
select min(case when r.created_at < r.updated_at then r.created_at else r.updated_at end)
from chain c cross join run r where r.id = c.id

-- event_turn
-- The last event of a turn, and when the first of it was made; behind a young one all are young.
select max(seq), min(created_at) from (
  select seq, created_at from event where workflow_id = :workflow_id and seq > :after order by seq limit :limit
) e

-- old_events
-- Finished, old, still whole, and nothing they led to is work any more (U2): an event in a terminal topic never was.
select e.seq, e.content from event e
where e.workflow_id = :workflow_id and e.seq > :after and e.seq <= :upto and e.content > 0 and e.finished_at < :horizon
  and not exists (
    select 1 from cause c cross join event d cross join topic t
    where c.workflow_id = e.workflow_id and c.root = e.seq and d.workflow_id = c.workflow_id and d.seq = c.seq
      and t.workflow_id = d.workflow_id and t.name = d.topic
      and (d.status = 'reserved' or d.status = 'pending' and (t.consumer is not null or d.seq <= t.worked_until)))
order by e.seq

-- put_removed
-- The content of every event whose own was removed: number 0, which no event is ever given.
insert into payload (workflow_id, content, title, body, digest) values (:workflow_id, 0, :title, 'null', '') on conflict do nothing

-- drop_pinned_payloads
-- Every content of the event that a run was shown; all those runs ended before the event did.
delete from payload where workflow_id = :workflow_id and content in (
  select v.content from reservation v cross join run r
  where v.seq = :seq and v.content > 0 and r.id = v.run_id and r.workflow_id = :workflow_id)

-- unpin_event
-- The runs still name the event; what they were shown of it is gone.
update reservation set content = 0
where seq = :seq and content > 0 and exists (select 1 from run r where r.id = reservation.run_id and r.workflow_id = :workflow_id)

-- empty_event
-- Topic, message id and status stay, so a late republish is still frozen (T5).
update event set content = 0 where workflow_id = :workflow_id and seq = :seq and content = :content

-- run_turn
-- The last run of a turn, and when the first of it began; ids grow with time.
select max(id), min(created_at) from (
  select id, created_at from run where workflow_id = :workflow_id and id > :after order by id limit :limit
) r

-- old_chains
-- The first runs of chains that may be over; the chain decides.
select id from run
where workflow_id = :workflow_id and id > :after and id <= :upto and retry_of is null and open = 0 and emptied = 0 and updated_at < :horizon
order by id

-- chain_runs
-- A chain from its first run on, in its order; each run has one successor at most (sort of a chain).
with recursive line (id, place) as (
  select id, 0 from run where id = :first
  union all
  select r.id, l.place + 1 from line l cross join run r where r.retry_of = l.id and r.retry_of is not null
)
select r.id, r.open, r.updated_at,
  exists (select 1 from reservation v where v.run_id = r.id and v.content > 0),
  (select m.status from mutation m where m.run_id = r.id)
from line l cross join run r where r.id = l.id order by l.place

-- drop_reservations
-- With the run that made them.
delete from reservation where run_id = :run_id

-- tidy_recording
-- What the reads of a chain answered goes with everything else it kept.
delete from recording where workflow_id = :workflow_id and chain = :chain

-- drop_run
-- No mutation names it, and its successor went before it.
delete from run where id = :id and open = 0

-- empty_run
-- The skeleton: whose, which version and handler, how far it got, how it ended, when. The ledger names it (L1).
-- SQLite joins no pages when a row becomes short in its place; another rowid takes the row out and puts it in again.
update run set rowid = (select min(rowid) - 1 from run), emptied = 1, prepared = null, wake_at_asked = null, result = null,
  state_before = null, state_after = null, clock_at = null, seed = null, error = null, escalated = null, calls = null, logs = null
where id = :id and open = 0

-- empty_mutation
-- Inputs, key, state, refusal and send times stay: they decide keys and daily limits (L7, A1). The rowid as above.
update mutation set rowid = (select min(rowid) - 1 from mutation), args = :args, title = :title, args_proposed = null, result = null, error = null
where run_id = :run_id and (status = 'applied' or status = 'failed' or status = 'rejected' or status = 'skipped')

-- journal_turn
-- The last bus event of a turn, and when the first of it was emitted.
select max(id), min(created_at) from (select id, created_at from journal where id > :after order by id limit :limit) j

-- old_journal
-- Over, old, and with no delivery left: a dead letter waits for a person (B5).
select j.id from journal j where j.id > :after and j.id <= :upto and j.processed_at < :before
  and not exists (select 1 from delivery d where d.event_id = j.id and d.status <> 'done' and d.status <> 'discarded')
order by j.id

-- drop_deliveries
-- With their event.
delete from delivery where event_id = :event_id

-- drop_journal_event
-- Delivered to every subscriber, or it had none.
delete from journal where id = :id and (status = 'done' or status = 'failed')

-- drop_deferred
-- Fired or cancelled, some time ago.
delete from deferred where id in (
  select d.id from deferred d where d.status = :status and d.fire_at < :before and (d.fired_at is null or d.fired_at < :before)
  order by d.fire_at limit :limit) and status <> 'scheduled'

-- count_imported
-- Changes that came in a file, for a check of the whole store (scan of mutation).
select count(*) from mutation where end_seal like '%:imported'

-- blind_workflow
-- Paused by the host and not by a person, until a person resumes; of two blind times the earlier holds (H5).
update workflow set paused = 1, paused_since = coalesce(paused_since, :now),
  blind_since = case when blind_since < :since then blind_since else :since end
where id = :id and removed_at is null returning id

-- doubt_approved
-- Approved and not yet sent, says the copy; it may have been sent since, so it is unknown like any other (L3).
update mutation set sent_at = :since, first_sent_at = coalesce(first_sent_at, :since), attempt = attempt + 1, updated_at = :now
where held_by = (select r.id from run r where r.workflow_id = :workflow_id and r.open = 1) and status = 'in_flight' and sent_at is null

-- doubt_unblocked
-- What it waited for had come, says the copy, and its recorded call is sent next; it may have been sent since, so a person is asked again (F4).
update run set due_at = null, updated_at = :now
where workflow_id = :workflow_id and open = 1 and status = 'paused:approval' and due_at is not null
  and exists (select 1 from mutation m where m.held_by = run.id and m.status = 'proposed')

-- doubt_ends
-- Until when sends were out, says the copy; a later send may be among what is lost, and its clock is another one (L6, H10; scan of the open runs).
update mutation set ended_clock = null where ended_clock is not null and held_by in (select r.id from run r where r.open = 1)

-- drop_secret
-- A secret that cannot be read, or is needed no more.
delete from secret where connector = :connector and name = :name

-- begin_proof
-- A trial is written down before its first byte leaves (K10); it replaces the one that the caller has seen, and no other.
insert into proof (tool, key, args, basis, status, fault, said, handle, begun_by, begun_at, ended_at)
values (:tool, :key, :args, :basis, 'begun', null, null, null, :begun_by, :begun_at, null)
on conflict (tool) do update set key = excluded.key, args = excluded.args, basis = excluded.basis, status = excluded.status, fault = null,
  said = null, handle = null, begun_by = excluded.begun_by, begun_at = excluded.begun_at, ended_at = null
where proof.key = :over
returning tool

-- keep_proof_handle
-- What the first of two steps made, before the second is sent (L14).
update proof set handle = :handle where tool = :tool and key = :key and status = 'begun'

-- end_proof
-- A trial that was not found may be found later, so the end of it may be written again.
update proof set status = :status, fault = :fault, said = :said, ended_at = :now
where tool = :tool and key = :key and status <> 'proven'

-- insert_token
-- A name that is taken makes no row; the caller says so.
insert into token (name, id, kind, scope, digest, made_by, made_at, expires_at)
values (:name, :id, :kind, :scope, :digest, :made_by, :made_at, :expires_at)
on conflict (name) do nothing returning name

-- drop_token
-- Revoked: nothing of it is kept but the act.
delete from token where name = :name

-- insert_proposal
-- The same text over the same version is the same proposal; the caller says so.
insert into proposal (hash, workflow, replaces, language, source, findings, uses, author, note, created_at)
values (:hash, :workflow, :replaces, :language, :source, :findings, :uses, :author, :note, :now)
on conflict (hash) do nothing returning hash

-- drop_proposal
-- Adopted or declined: its text is a version then, or nothing.
delete from proposal where hash = :hash

-- drop_old_proposals
-- Those of one workflow over a version that is active no more can be adopted no more (scan of proposal).
delete from proposal where workflow = :workflow and replaces is not null and replaces <> :replaces

-- end_allowances
-- A store that was restored may hold allowances that were revoked since: every call is asked about again (A3, H5; scan of allowance).
update allowance set revoked_by = :by, revoked_at = :now where revoked_at is null

-- doubt_proofs
-- And trials after which another one failed: each tool is tried anew before its word is believed (K10). One that was begun or has failed is asked about first, and stays (scan of proof).
update proof set basis = '' where status = 'proven'

-- drop_hooks
-- And keys of webhooks that were replaced since: each is opened anew (G12).
delete from secret where connector = 'hooks'

-- drop_hooks_of
-- A workflow that is removed takes its webhooks along: its name may begin again (G12, W10; scan of secret, which has few rows).
delete from secret where connector = 'hooks' and substr(name, 1, length(:prefix)) = :prefix returning name

-- drop_tokens
-- A store that was restored may hold tokens that were revoked since; all are made anew (scan of token).
delete from token

-- What must hold, looked at in a copy: each statement names what does not, and may walk whole tables there.

-- find_open_runs
-- F6: one open run of a workflow at most (scan of run).
select workflow_id from run where open = 1 group by workflow_id having count(*) > 1 limit 100

-- find_strays
-- R7: a reserved event has an open run (scan of event).
select e.workflow_id || ' ' || e.topic || ' ' || e.message_id from event e
where e.status = 'reserved' and not exists (select 1 from run r where r.id = e.reserved_by and r.open = 1) limit 100

-- find_unanswered
-- L1, R9: a mutation that is not settled is held by an open run (scan of mutation).
select m.id from mutation m
where m.status <> 'applied' and m.status <> 'failed' and m.status <> 'rejected' and m.status <> 'skipped'
  and not exists (select 1 from run r where r.id = m.held_by and r.open = 1) limit 100

-- find_causeless
-- T9: every cause names two events that exist (scan of cause).
select c.workflow_id || ' ' || c.root || ' ' || c.seq from cause c
where not exists (select 1 from event e where e.workflow_id = c.workflow_id and e.seq = c.root)
  or not exists (select 1 from event e where e.workflow_id = c.workflow_id and e.seq = c.seq) limit 100

-- find_contentless
-- T2: every event has its content, and so has a newer content that waits beside it (scan of event).
select e.workflow_id || ' ' || e.topic || ' ' || e.message_id from event e
where not exists (select 1 from payload p where p.workflow_id = e.workflow_id and p.content = e.content)
  or e.content_beside is not null and not exists (
    select 1 from payload p where p.workflow_id = e.workflow_id and p.content = e.content_beside) limit 100

-- find_unpinned
-- C6: what an open run was shown is still there (scan of run).
select r.id from run r where r.open = 1 and exists (
  select 1 from reservation v where v.run_id = r.id
    and not exists (select 1 from payload p where p.workflow_id = r.workflow_id and p.content = v.content)) limit 100

-- find_torn
-- K15: every byte of a blob that can be seen is here (scan of blob).
select b.workflow_id || ' ' || b.digest from blob b where b.status = 'kept'
  and b.size <> (select coalesce(sum(length(p.body)), 0) from blob_part p where p.workflow_id = b.workflow_id and p.digest = b.digest) limit 100
