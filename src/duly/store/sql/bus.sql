-- The event bus: journal, subscriptions, deliveries, deferred events, extensions' state.
-- Format as in queries.sql.

-- take_bus_number
-- Bus ids are given out in order and become visible in order, like every other number.
update counter set value = value + 1 where name = :name returning value

-- insert_journal_event
-- Written in the transaction of whatever gave cause to it (B10).
insert into journal (id, topic, source, payload, correlation_id, causation_id, depth, created_at)
values (:id, :topic, :source, :payload, :correlation_id, :causation_id, :depth, :now)
