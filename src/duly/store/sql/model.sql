-- Questions to language models, and how many in a day (M2). Format as in queries.sql.

-- open_model_day
-- The account of a day begins empty.
insert into model_day (workflow_id, model, day, calls, reserved, tokens_in, tokens_out)
values (:workflow_id, :model, :day, 0, 0, 0, 0) on conflict (workflow_id, model, day) do nothing

-- drop_model_days
-- Only the newest of an account are shown; a day of the future was begun by a clock that was wrong, and stays.
delete from model_day where workflow_id = :workflow_id and model = :model and day < :before

-- count_question
-- One call and the tokens it can take, if the day has room for both: two hosts at once cannot pass it together.
update model_day set calls = calls + 1, reserved = reserved + :reserved
where workflow_id = :workflow_id and model = :model and day = :day
  and calls < :calls_max and tokens_in + tokens_out + reserved + :reserved <= :tokens_max

-- get_model_day
-- How much of a day is used.
select calls, reserved, tokens_in, tokens_out from model_day where workflow_id = :workflow_id and model = :model and day = :day

-- insert_question
-- It is counted, and about to leave.
insert into model_question (id, workflow_id, run_id, chain, model, purpose, digest, question, status, reserved, asked_at)
values (:id, :workflow_id, :run_id, :chain, :model, :purpose, :digest, :question, 'asked', :reserved, :now)

-- prune_questions
-- Only the newest of a workflow are kept, and those of its open run: its change may have to wait for a person (M4).
delete from model_question where workflow_id = :workflow_id and id <=
  (select n.id from model_question n where n.workflow_id = :workflow_id order by n.id desc limit 1 offset :kept)
  and not exists (select 1 from run r where r.workflow_id = :workflow_id and r.open = 1 and r.chain = model_question.chain)

-- find_answer
-- What a chain of runs was answered to this very question (M3): an answer that fits, else the first that does not.
select q.id, q.model, q.answer, q.tokens_in, q.tokens_out, case when q.fault is null then 0 else
  (select count(*) from model_question m where m.chain = :chain and m.digest = :digest and m.status = 'answered') end
from model_question q where q.chain = :chain and q.digest = :digest and q.status = 'answered'
order by case when q.fault is null then 0 else 1 end, q.id limit 1

-- has_asked_model
-- Whether any answer of a model is in what a chain of runs goes by (M4).
select 1 from model_question where chain = :chain and status = 'answered' limit 1

-- get_question
-- What was counted for it, and when.
select workflow_id, model, reserved, asked_at from model_question where id = :id and status = 'asked'

-- end_question
-- Once: what it took replaces what was reserved; where that is not known, the reservation stays.
update model_question set status = :status, answer = :answer, fault = :fault, reserved = :reserved,
  tokens_in = :tokens_in, tokens_out = :tokens_out, ended_at = :now
where id = :id and status = 'asked'

-- settle_model_day
-- The same in the account of the day in which it was asked.
update model_day set reserved = reserved - :freed, tokens_in = tokens_in + :tokens_in, tokens_out = tokens_out + :tokens_out
where workflow_id = :workflow_id and model = :model and day = :day

-- list_model_days
-- The accounts of the newest days, the newest first.
select d.workflow_id, w.name, d.model, d.day, d.calls, d.reserved, d.tokens_in, d.tokens_out
from model_day d left join workflow w on w.id = d.workflow_id where d.day >= :since order by d.day desc, d.workflow_id, d.model limit :limit

-- list_questions
-- The newest questions of one account, the newest first.
select q.id, q.workflow_id, w.name, q.run_id, q.model, q.purpose, q.question, q.status, q.answer, q.fault, q.reserved, q.tokens_in, q.tokens_out, q.asked_at, q.ended_at
from model_question q left join workflow w on w.id = q.workflow_id where q.workflow_id = :workflow_id order by q.id desc limit :limit

-- drop_questions
-- Asked some time ago, and not by a run that is open (H5).
delete from model_question where id in (select q.id from model_question q where q.asked_at < :before
  and not exists (select 1 from run r where r.workflow_id = q.workflow_id and r.open = 1 and r.chain = q.chain) order by q.asked_at limit :limit)
