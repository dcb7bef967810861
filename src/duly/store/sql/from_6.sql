-- Brings a store of schema 6 to schema 7 (H4): which tools a host offers and a version needs (H7). It only adds, so hosts of
-- schema 6 work on (H11): they say nothing of their tools, and what they deploy needs nothing that is known.
alter table host add column offers text;

-- H7: the tools of a host that has said what it offers. They go with its row.
create table offer (
  host            text not null references host (id) on delete cascade,
  tool            text not null,
  primary key (host, tool)
);

-- H7: the tools that the text of a version uses, as its deploy found them. A version of an older Duly has none: any host may take it.
create table need (
  workflow_id     text not null,
  version         text not null,
  tool            text not null,
  primary key (workflow_id, version, tool),
  foreign key (workflow_id, version) references version (workflow_id, version)
);

-- H7: which tools a host lacks for a workflow: of the active version, of an open run that goes on with its own, and the tool of a
-- call that is not over; while that is out or asked about it is the only one. A host that has not said what it offers lacks nothing.
create view lacking as
select h.id as host, n.workflow_id, n.tool from host h cross join workflow w join need n on n.workflow_id = w.id
where h.offers is not null and n.version in (w.active_version,
    (select r.version from run r where r.workflow_id = w.id and r.open = 1),
    (select o.version from run r join mutation m on m.held_by = r.id join run o on o.id = m.run_id where r.workflow_id = w.id and r.open = 1))
  and (not exists (select 1 from run r left join mutation m on m.held_by = r.id where r.workflow_id = w.id and r.open = 1
      and (r.status = 'paused:reconciliation' or m.status = 'in_flight' and m.sent_at is not null))
    and (n.version = w.active_version
      or n.version = (select r.version from run r where r.workflow_id = w.id and r.open = 1 and r.status in ('active', 'paused:approval')))
    or n.tool = (select m.tool from run r join mutation m on m.held_by = r.id where r.workflow_id = w.id and r.open = 1
      and (m.status = 'in_flight' or m.status = 'needs_reconcile' or m.status = 'indeterminate')))
  and not exists (select 1 from offer f where f.host = h.id and f.tool = n.tool);

-- H7: what each host that serves lacks for a workflow that none of them can do.
create view unserved as
select l.workflow_id, coalesce(h.name, h.id) as host, l.tool
from lacking l join host h on h.id = l.host join workflow w on w.id = l.workflow_id
where h.serves = 1 and (w.machine is null or w.machine = h.machine)
  and not exists (select 1 from host o where o.serves = 1 and (w.machine is null or w.machine = o.machine)
    and not exists (select 1 from lacking k where k.host = o.id and k.workflow_id = l.workflow_id));
