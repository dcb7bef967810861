-- Blobs: bytes that a workflow was given, in parts, by their digest (K15).
-- Format as in queries.sql.

-- get_blob
-- What a workflow has under a digest: whole, half written, on its way out or removed.
select size, status, used_at from blob where workflow_id = :workflow_id and digest = :digest

-- sum_blobs
-- How much room the blobs of a workflow take, for the limit (N); a half-written one takes its room too.
select count(*), coalesce(sum(size), 0) from blob where workflow_id = :workflow_id and status in ('writing', 'kept')

-- open_blob
-- Begin to write, or go on where an earlier write ended: parts of the same digest are the same parts.
insert into blob (workflow_id, digest, size, status, created_at, used_at) values (:workflow_id, :digest, :size, 'writing', :now, :now)
on conflict (workflow_id, digest) do update set status = 'writing', size = excluded.size, used_at = excluded.used_at where blob.status <> 'kept'

-- use_blob
-- It was given to its workflow again, or to a tool: it is kept for another while.
update blob set used_at = :now where workflow_id = :workflow_id and digest = :digest and status = 'kept'

-- insert_blob_part
-- A second writer of the same bytes brings the same part.
insert into blob_part (workflow_id, digest, number, body) values (:workflow_id, :digest, :number, :body)
on conflict (workflow_id, digest, number) do nothing

-- finish_blob
-- It can be seen from now on, if every byte of it is here.
update blob set status = 'kept', was_whole = 1, used_at = :now
where workflow_id = :workflow_id and digest = :digest and status = 'writing'
  and size = (select coalesce(sum(length(p.body)), 0) from blob_part p where p.workflow_id = :workflow_id and p.digest = :digest)

-- get_blob_part
-- One part of a blob that is whole.
select p.body from blob_part p join blob b on b.workflow_id = p.workflow_id and b.digest = p.digest
where p.workflow_id = :workflow_id and p.digest = :digest and p.number = :number and b.status = 'kept'

-- oldest_blob
-- When the blob was used that was not used for the longest time, and is not removed yet.
select min(used_at) from blob where status <> 'removed'

-- old_blobs
-- The blobs that were not used since a moment, along their index; of those that are being written an earlier one counts.
select workflow_id, digest, used_at, status from blob
where status <> 'removed' and used_at < :before and (status = 'writing' or status = 'kept' and used_at < :kept_before)
  and (used_at, workflow_id, digest) > (:after_at, :after_workflow, :after_digest)
order by used_at, workflow_id, digest limit :limit

-- is_blob_named
-- Whether anything open speaks of a blob: an event that a consumer will take or has reserved, the open run or its mutation, the state of a handler (scan of what is open in one workflow).
select 1 from workflow w where w.id = :workflow_id and (
  exists (select 1 from topic t join event e on e.workflow_id = t.workflow_id and e.topic = t.name and e.status = 'pending'
    join payload p on p.workflow_id = e.workflow_id and p.content = e.content
    where t.workflow_id = w.id and t.consumer is not null and p.body like :naming)
  or exists (select 1 from run r join event e on e.reserved_by = r.id and e.status = 'reserved'
    join payload p on p.workflow_id = r.workflow_id and p.content in (e.content, coalesce(e.content_beside, e.content))
    where r.workflow_id = w.id and r.open = 1 and p.body like :naming)
  or exists (select 1 from run r join reservation v on v.run_id = r.id join payload p on p.workflow_id = r.workflow_id and p.content = v.content
    where r.workflow_id = w.id and r.open = 1 and p.body like :naming)
  or exists (select 1 from run r where r.workflow_id = w.id and r.open = 1
    and (r.prepared like :naming or r.result like :naming or r.state_before like :naming))
  or exists (select 1 from run r join mutation m on m.held_by = r.id where r.workflow_id = w.id and r.open = 1 and m.args like :naming)
  or exists (select 1 from handler h where h.workflow_id = w.id and h.state like :naming))

-- leave_blob
-- Nothing sees it any more; its parts go in turns. One that was used meanwhile stays.
update blob set status = 'leaving' where workflow_id = :workflow_id and digest = :digest and status in ('writing', 'kept') and used_at = :used_at

-- next_leaving_blob
-- A blob whose parts are being removed (scan of an index that holds these alone).
select workflow_id, digest, was_whole from blob where status = 'leaving' order by workflow_id, digest limit 1

-- hold_leaving_blob
-- Its row is held until its parts are gone: on a server another host may begin to write it again at this moment.
update blob set status = 'leaving' where workflow_id = :workflow_id and digest = :digest and status = 'leaving'

-- drop_blob_parts
-- A few of its parts, so that no other verb waits long.
delete from blob_part where workflow_id = :workflow_id and digest = :digest and number in (
  select p.number from blob_part p where p.workflow_id = :workflow_id and p.digest = :digest order by p.number limit :limit)

-- end_blob
-- Its digest and its size stay: what was done with it can still be said (H5).
update blob set status = 'removed' where workflow_id = :workflow_id and digest = :digest and status = 'leaving' and was_whole = 1

-- drop_blob
-- It was never whole, so nothing was ever done with it.
delete from blob where workflow_id = :workflow_id and digest = :digest and status = 'leaving' and was_whole = 0
