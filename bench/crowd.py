"""A store that is full: so many pending events, so many committed runs, each with its mutation.

Every run has left a trace of what it published (T9), though not the event itself. The rows are
written past the verbs, a table at a time in the order of its key, without a journal; only the
figures taken afterwards go through the store.
"""

from __future__ import annotations

import os
from pathlib import Path

import apsw

from bench.yardstick import ARGUMENTS, PAYLOAD, PREPARED, RESULT, STATE, TITLE

INBOX, OUTBOX, OUTSIDE = "email.received", "row.created", "note.received"
CONSUMER = "add_row"
VERSION = "1.0"
CACHE_KIB = 256 * 1024

# So many rows (`:each`) of every table for each workflow.
ROWS = """
create temp table number (n integer primary key);
insert into number
with recursive counted (n) as (select 1 union all select n + 1 from counted where n < :each)
select n from counted;

insert into payload (workflow_id, content, title, body, digest)
select w.id, w.counter + n, :title, :payload, 'crowd-' || n
from workflow w cross join number;

insert into event (workflow_id, seq, topic, message_id, content, created_by, created_at)
select w.id, w.counter + n, :inbox, 'crowd-' || n, w.counter + n, 'bench', n
from workflow w cross join number;

insert into run (id, workflow_id, version, handler, kind, chain, open, phase, status, outcome,
  counter, prepared, prepared_by, result, state_before, state_after, clock_at, seed, created_at,
  updated_at)
select format('run_%011x%s', n, w.id), w.id, :version, :consumer, 'consumer',
  format('run_%011x%s', n, w.id), 0, 'committed', 'committed', 'applied', 0, :prepared, :version,
  :result, :state, :state, n, 'seed', n, n
from number cross join workflow w;

insert into mutation (id, workflow_id, run_id, held_by, tool, args, title, inputs, key, hash,
  status, result, attempt, first_sent_at, sent_at, created_at, updated_at)
select replace(r.id, 'run', 'mutation'), r.workflow_id, r.id, r.id, 'sheets.append_row', :args,
  :title, r.id, r.id, r.id, 'applied', :result, 1, r.created_at, r.created_at, r.created_at,
  r.updated_at
from run r order by r.id;

insert into cause (workflow_id, root, seq)
select w.id, w.counter + n, w.counter + n + :each from workflow w cross join number;

update workflow set counter = counter + 2 * :each;
update handler set changed = (select counter from workflow where id = handler.workflow_id);
"""


def fill(path: Path, each: int) -> None:
    """Write so many pending events and committed runs for each workflow of a closed store."""
    values = {
        "each": each,
        "title": TITLE,
        "payload": PAYLOAD,
        "inbox": INBOX,
        "version": VERSION,
        "consumer": CONSUMER,
        "prepared": PREPARED,
        "result": RESULT,
        "state": STATE,
        "args": ARGUMENTS,
    }
    connection = apsw.Connection(str(path))
    connection.pragma("journal_mode", "off")
    connection.pragma("synchronous", "off")
    connection.pragma("cache_size", -CACHE_KIB)
    connection.execute(ROWS, values)
    connection.close()
    # Nothing of this may still be on its way to the disk when the first slice begins.
    with path.open("rb+") as file:
        os.fsync(file)
