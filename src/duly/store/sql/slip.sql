-- Accounts that decide over a channel, and the messages that asked them (G11). Format as in queries.sql.

-- insert_pairing
-- A name that is taken makes no row; the caller says so.
insert into pairing (channel, name, digest, made_by, made_at) values (:channel, :name, :digest, :made_by, :made_at)
on conflict (channel, name) do nothing returning name

-- drop_codes
-- A code that was not used in time, so that its name is free again; one of the future was made before the clock was set.
delete from pairing where channel = :channel and account is null and (made_at <= :before or made_at > :now)

-- find_pairing_code
-- Which name a code pairs.
select name from pairing where channel = :channel and digest = :digest and account is null

-- pair_account
-- A code is used once.
update pairing set account = :account, paired_at = :now, digest = null
where channel = :channel and name = :name and digest = :digest and account is null

-- find_pairing
-- The name of an account, if it is paired.
select name from pairing where channel = :channel and account = :account

-- drop_pairing
-- Revoked: nothing of it is kept but the act.
delete from pairing where channel = :channel and name = :name

-- list_pairings
-- By channel and name; a host has few (scan of pairing).
select channel, name, account, made_by, made_at, paired_at from pairing order by channel, name

-- insert_slip
-- One account is asked once about one call: its index lets in no second open row, and the caller refuses that.
insert into slip (id, channel, account, mutation_id, hash, digest, status, made_at)
values (:id, :channel, :account, :mutation_id, :hash, :digest, 'sending', :now) on conflict do nothing

-- find_open_slip
-- The slip that asks an account about a call now.
select id, channel, account, mutation_id, hash, digest, status, message, made_at from slip
where channel = :channel and account = :account and mutation_id = :mutation_id and status <> 'closed'

-- renew_slip
-- It was about to be sent when its host died: another message goes out, and the code of the first is worth nothing.
update slip set digest = :digest, made_at = :now where id = :id and status = 'sending' and hash = :hash

-- find_slip
-- The slip of a code, also one that is over.
select id, channel, account, mutation_id, hash, digest, status, message, made_at from slip where digest = :digest

-- move_slip
-- Guarded by what was decided on.
update slip set status = :status, message = coalesce(cast(:message as text), message), closed_at = :closed_at
where id = :id and status = :old_status and digest = :digest

-- list_open_slips
-- Of one channel, oldest first; as few as calls that wait (sort of what the index finds).
select id, channel, account, mutation_id, hash, digest, status, message, made_at from slip
where channel = :channel and status <> 'closed' order by made_at, id limit :limit

-- read_asked
-- How a call stands that a slip asks about, and what its run waits for.
select m.hash, m.status, r.open = 1 and m.status = 'proposed' and r.waits = 'approval', m.approved_by, m.known_by
from mutation m join run r on r.id = m.held_by where m.id = :id

-- list_asking
-- The calls that wait for a yes and for nothing else, oldest first; open runs are few (scan of run_one_open, sort of what it finds).
select m.id, m.hash from run r join mutation m on m.held_by = r.id
where r.open = 1 and r.waits = 'approval' and m.status = 'proposed' order by m.id limit :limit

-- drop_pairings
-- A store that was restored may hold accounts that were revoked since; all are paired anew (H5; scan of pairing).
delete from pairing

-- close_slips
-- And slips whose call was decided since: none of their buttons counts any more (H5; scan of slip).
update slip set status = 'closed', closed_at = :now where status <> 'closed'

-- drop_slips
-- Over, some time ago.
delete from slip where id in (select s.id from slip s where s.status = 'closed' and s.closed_at < :before order by s.closed_at limit :limit)

-- count_done
-- How many changes became known to have happened since a moment (scan of mutation; once a day).
select count(*) from mutation where status = 'applied' and known_at >= :since
