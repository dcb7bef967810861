-- What a simulation looks at after every commit: everything, since its stores are small.
-- Format as in queries.sql.

-- oracle_runs
-- Every run as it stands, in the order of creation: an id follows the clock, which may go back.
select id, chain, retry_of, open, phase, status, outcome, prepared, escalated, handler, waits, version from run order by rowid

-- oracle_mutations
-- Every row of the ledger, in the order of creation.
select id, run_id, held_by, status, key, args, attempt, inputs, refused, hash, sent_at from mutation order by rowid

-- oracle_events
-- Every event with who holds it and who ended it.
select e.seq, e.topic, e.message_id, e.status, e.reserved_by, e.finished_by, e.created_by from event e order by e.seq

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
select h.name, h.state, w.paused, w.removed_at is not null from handler h join workflow w on w.id = h.workflow_id order by h.name

-- oracle_grants
-- What is allowed, and how often a day.
select capability, mutations_per_day from granted order by capability

-- oracle_journal
-- Every event of the bus that somebody in a story has said; what the host says of itself is not looked at.
select id, topic, source, payload, correlation_id, causation_id, depth, status, opened, undelivered, error
from journal where source <> 'duly' order by id

-- oracle_deliveries
-- Every delivery, with the place of its subscriber.
select event_id, subscriber_id, topic, position, status, attempts, error from delivery order by event_id, position

-- oracle_deferred
-- Every event that is to fire later, or did.
select id, topic, payload, status, fire_at, event_id from deferred order by id

-- oracle_subscriptions
-- Who subscribes to what, in the order of registration.
select subscriber_id, topic, position from subscription order by position
