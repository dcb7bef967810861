-- Brings a store of schema 7 to schema 8 (H4): what came within a day is found along an index (U6). It only adds, so hosts of
-- schema 7 work on (H11). On a server their events wait while the index is built: a second or two for a million of them.
create index event_by_time on event (workflow_id, created_at, seq);
