-- What a simulation looks at after every commit: everything, since its stores are small.
-- Format as in queries.sql.

-- oracle_runs
-- Every run as it stands, in the order of creation.
select id, chain, retry_of, open, phase, status, outcome, prepared, escalated, handler, waits from run order by id

-- oracle_mutations
-- Every row of the ledger.
select id, run_id, held_by, status, key, args, attempt from mutation order by id

-- oracle_events
-- Every event with who holds it and who ended it.
select e.seq, e.topic, e.message_id, e.status, e.reserved_by, e.finished_by, e.created_by from event e order by e.seq

-- oracle_causes
-- Which input each derived event goes back to.
select root, seq from cause order by seq, root

-- oracle_reservations
-- Which events each run has pinned.
select run_id, seq, content from reservation order by run_id, seq
