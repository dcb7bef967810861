-- Workflows as lines of a file: read out a page at a time along a key, and taken in, in one transaction (H5, decision 375).
-- Format as in queries.sql. The columns are those of the lines in `rules/export.py`, in their order.

-- export_workflow
-- What is in service; a removed workflow stays where it is.
select id, name, active_version, counter, blind_since, created_at from workflow where id = :workflow_id and removed_at is null

-- export_versions
-- Without the path: it names a file of this machine.
select version, language, source, hash, declaration, findings, author, origin, parent, activated_at, created_at
from version where workflow_id = :workflow_id and version > :after order by version limit :limit

-- export_topics
-- A workflow has few.
select name, consumer, ingress, bus_topic, orphaned, worked_until from topic where workflow_id = :workflow_id order by name

-- export_handlers
-- A workflow has few.
select name, kind, position, orphaned, schedule, state, next_run_at, planned_at, wake_at, changed, seen, not_before, untried
from handler where workflow_id = :workflow_id order by name

-- export_grants
-- A workflow has few.
select capability, mutations_per_day, matching, granted_by, granted_at from granted where workflow_id = :workflow_id order by capability

-- export_payloads
-- Also what only a run was shown.
select content, title, body, digest from payload where workflow_id = :workflow_id and content > :after order by content limit :limit

-- export_events
-- Without the number on the bus: another store gives it to another event.
select seq, topic, message_id, status, content, attempts, dropped, reserved_by, finished_by, created_by, created_at, finished_at
from event where workflow_id = :workflow_id and seq > :after order by seq limit :limit

-- export_causes
-- By the event that was made, then by its inputs.
select root, seq from cause where workflow_id = :workflow_id and (root, seq) > (:after_root, :after_seq) order by root, seq limit :limit

-- export_runs
-- Without what is true of one host or one store alone: claim, due time, number on the bus.
select id, version, handler, kind, retry_of, chain, open, phase, status, outcome, waits, waits_on, counter, prepared, prepared_by, wake_at_asked, result,
  state_before, state_after, clock_at, seed, error, transient_count, logic_count, crash_count, repair_count, escalated, calls, logs, emptied, created_at, updated_at
from run where workflow_id = :workflow_id and id > :after order by id limit :limit

-- export_reservations
-- What these runs were shown.
select v.run_id, v.seq, v.content from json_each(:run_ids) i cross join reservation v where v.run_id = i.key order by v.run_id, v.seq

-- export_run_ids
-- Whose reservations come next.
select id from run where workflow_id = :workflow_id and id > :after order by id limit :limit

-- export_mutations
-- The ledger of one workflow, as it is checked.
select id, workflow_id, run_id, held_by, tool, args, title, inputs, key, hash, status, refused, result, error, attempt, resends, asks,
  first_sent_at, sent_at, due_at, created_at, updated_at, lag_ms, timeout_ms, key_lifetime_ms, first_boot, first_boot_ms, is_resent,
  outage_since, outage_count, outage_ms, outage_told, late, asked, approved_by, allowance_id, args_proposed, amended_by,
  seal, known_how, known_at, known_by, known_said, digests, end_seal, handle, basis
from mutation where workflow_id = :workflow_id and id > :after order by id limit :limit

-- export_allowances
-- For reading: what came of each (scan of the allowances of one workflow, which are few).
select id, mutation_id, tool, version, args, matching, calls, until, given_by, given_at, revoked_by, revoked_at
from allowance where workflow_id = :workflow_id order by id

-- export_actions
-- Who did what to this workflow.
select id, at, by, verb, target, detail from action where workflow_id = :workflow_id and id > :after order by id limit :limit

-- export_blobs
-- Those that are whole.
select digest, size from blob where workflow_id = :workflow_id and status = 'kept' and digest > :after order by digest limit :limit

-- list_secret_names
-- Which secrets there are, without what they say (scan of secret, which has few rows).
select connector, name from secret order by connector, name

-- is_workflow_known
-- Also one that was removed: its keys and message ids are its own for good (L7, W10).
select 1 from workflow where id = :id

-- import_workflow
-- It is paused, and blind since the moment that its file shows (H5).
insert into workflow (id, name, active_version, paused, paused_since, blind_since, counter, created_at)
values (:id, :name, :active_version, 1, :now, :blind_since, :counter, :created_at) on conflict do nothing

-- import_version
-- From no file of this machine (W9).
insert into version (workflow_id, version, language, source, hash, declaration, findings, author, origin, parent, activated_at, created_at)
values (:workflow_id, :version, :language, :source, :hash, :declaration, :findings, :author, :origin, :parent, :activated_at, :created_at)
on conflict do nothing

-- import_topic
-- Those of the active version are declared anew after that, and listen to the bus only then.
insert into topic (workflow_id, name, orphaned, worked_until) values (:workflow_id, :name, 1, :worked_until) on conflict do nothing

-- import_handler
-- Those of the active version are declared anew after that (W9).
insert into handler (workflow_id, name, kind, position, orphaned, schedule, state, next_run_at, planned_at, wake_at, changed, seen, not_before, untried)
values (:workflow_id, :name, :handler_kind, :position, 1, :schedule, :state, :next_run_at, :planned_at, :wake_at, :changed, :seen, :not_before, :untried)
on conflict do nothing

-- import_payload
-- As it was.
insert into payload (workflow_id, content, title, body, digest) values (:workflow_id, :content, :title, :body, :digest) on conflict do nothing

-- import_event
-- With its final status it is not done again (T5).
insert into event (workflow_id, seq, topic, message_id, status, content, attempts, dropped, finished_by, created_by, created_at, finished_at)
values (:workflow_id, :seq, :topic, :message_id, :status, :content, :attempts, :dropped, :finished_by, :created_by, :created_at, :finished_at)
on conflict do nothing

-- import_cause
-- As it was.
insert into cause (workflow_id, root, seq) values (:workflow_id, :root, :seq) on conflict do nothing

-- import_run
-- None is open.
insert into run (id, workflow_id, version, handler, kind, retry_of, chain, open, phase, status, outcome, waits, waits_on, counter, prepared, prepared_by,
  wake_at_asked, result, state_before, state_after, clock_at, seed, error, transient_count, logic_count, crash_count, repair_count, escalated, calls, logs,
  emptied, created_at, updated_at)
values (:id, :workflow_id, :version, :handler, :run_kind, :retry_of, :chain, 0, :phase, :status, :outcome, :waits, :waits_on, :counter, :prepared, :prepared_by,
  :wake_at_asked, :result, :state_before, :state_after, :clock_at, :seed, :error, :transient_count, :logic_count, :crash_count, :repair_count, :escalated, :calls,
  :logs, :emptied, :created_at, :updated_at)
on conflict do nothing

-- import_reservation
-- As it was.
insert into reservation (run_id, seq, content) values (:run_id, :seq, :content) on conflict do nothing

-- import_mutation
-- Every one has ended. It names its allowance once that is there.
insert into mutation (id, workflow_id, run_id, held_by, tool, args, title, inputs, key, hash, status, refused, result, error, attempt, resends, asks, first_sent_at,
  sent_at, created_at, updated_at, lag_ms, timeout_ms, key_lifetime_ms, first_boot, first_boot_ms, is_resent, late, asked, approved_by, args_proposed, amended_by,
  seal, known_how, known_at, known_by, known_said, digests, end_seal, handle)
values (:id, :workflow_id, :run_id, :held_by, :tool, :args, :title, :inputs, :key, :hash, :status, :refused, :result, :error, :attempt, :resends, :asks,
  :first_sent_at, :sent_at, :created_at, :updated_at, :lag_ms, :timeout_ms, :key_lifetime_ms, :first_boot, :first_boot_ms, :is_resent, :late, :asked, :approved_by,
  :args_proposed, :amended_by, :seal, :known_how, :known_at, :known_by, :known_said, :digests, :end_seal, :handle)
on conflict do nothing

-- import_allowance
-- It counts no more, and has no seal of this store (A3).
insert into allowance (id, workflow_id, mutation_id, tool, version, args, matching, calls, until, given_by, given_at, revoked_by, revoked_at, seal)
values (:id, :workflow_id, :mutation_id, :tool, :version, :args, :matching, :calls, :until, :given_by, :given_at, :revoked_by, :revoked_at, '')
on conflict do nothing

-- name_allowance
-- Under which allowance a call was sent.
update mutation set allowance_id = :allowance_id where id = :id and allowance_id is null

-- import_action
-- What was done in the other store.
insert into action (id, at, by, verb, workflow_id, target, detail) values (:id, :at, :by, :verb, :workflow_id, :target, :detail) on conflict do nothing

-- pass_bus_numbers
-- An event of this bus must not have a number that an event of the other one had: it would pass for done (T5, T10).
update counter set value = :least where name = 'journal' and value < :least

-- find_unopened_before
-- Whether an event with such a number is still to be told to a topic that will listen.
select id from journal where topic = :topic and opened = 0 and id <= :upto order by id limit 1
