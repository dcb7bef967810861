-- What a simulation looks at after every commit: everything, since its stores are small.
-- Format as in queries.sql.

-- oracle_runs
-- Every run as it stands, in the order of creation: an id follows the clock, which may go back.
select id, chain, retry_of, open, phase, status, outcome, prepared, escalated, handler, waits, version, clock_at, seed, wake_at_asked, state_before, updated_at, epoch
from run order by rowid

-- oracle_mutations
-- Every row of the ledger, in the order of creation.
select id, run_id, held_by, status, key, args, attempt, inputs, refused, hash, sent_at, allowance_id, args_proposed from mutation order by rowid

-- oracle_allowances
-- What was allowed with a yes, and whether a person took it back.
select id, mutation_id, version, calls, until, revoked_at is not null from allowance order by id

-- oracle_events
-- Every event with who holds it and who ended it, and the content it has now.
select e.seq, e.topic, e.message_id, e.status, e.reserved_by, e.finished_by, e.created_by, p.body from event e
left join payload p on p.workflow_id = e.workflow_id and p.content = e.content
order by e.seq

-- oracle_causes
-- Which input each derived event goes back to.
select root, seq from cause order by seq, root

-- oracle_reservations
-- Which events each run has pinned, and the content it was shown.
select r.run_id, r.seq, e.message_id, p.body from reservation r
join event e on e.seq = r.seq
left join payload p on p.workflow_id = e.workflow_id and p.content = r.content
order by r.run_id, r.seq

-- oracle_handlers
-- What every handler remembers, and whether its workflow is paused or removed.
select h.name, h.state, h.wake_at, w.paused, w.removed_at is not null, w.active_version from handler h join workflow w on w.id = h.workflow_id order by h.name

-- oracle_grants
-- What is allowed, and how often a day.
select capability, mutations_per_day from granted order by capability

-- oracle_announcements
-- What the host said of itself, the newest first: a transaction says less than this.
select id, topic, payload from journal where source = 'duly' order by id desc limit 6

-- oracle_questions
-- What a person was asked to see to.
select payload from journal where source = 'duly' and topic = 'workflow.needs_attention' order by id

-- oracle_unfinished
-- What has not come to its end: open runs, and events that wait.
select 'run', id from run where open = 1
union all select 'event', message_id from event where status = 'pending' or status = 'reserved'

-- oracle_actions
-- How often people have done what.
select verb, count(*) from action group by verb order by verb

-- oracle_journal
-- Every event of the bus that a caller of the scenario emitted; the host's own are not looked at.
select id, topic, source, payload, correlation_id, causation_id, depth, status, opened, undelivered, error
from journal where source <> 'duly' order by id

-- oracle_deliveries
-- Every delivery, with the place of its subscriber.
select event_id, subscriber_id, topic, position, status, attempts, error, suspect from delivery order by event_id, position

-- oracle_deferred
-- Every event that is to fire later, or did.
select id, topic, payload, status, due_ms, event_id from deferred order by id

-- oracle_subscriptions
-- Who subscribes to what, in the order of registration; one that is leaving does no longer.
select subscriber_id, topic, position from subscription where leaving = 0 order by position

-- oracle_create_slots
-- The table of counters, as a server has it.
create table slot (host text not null references host (id) on delete cascade, number integer not null, session integer not null,
commit_seq integer not null, primary key (host, number));

-- oracle_hosts
-- The hosts that are here, and until when their leases last.
select id, lease_until from host order by id

-- oracle_claims
-- Which host has claimed each workflow last, how often it was claimed, and since when it is blind.
select holder, epoch, blind_since from workflow order by id

-- oracle_roots
-- Where every table and every index begins, and whose it is: the program of a question says the rest.
select rootpage, tbl_name from sqlite_schema
