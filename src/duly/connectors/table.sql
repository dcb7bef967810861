-- What the table connector asks a database of rows. Names of tables and columns are filled in,
-- quoted; every value is bound.

-- columns_of
-- Which columns there are decides what a row may have; none means there is no such table.
select name from pragma_table_info(?)

-- create_table
-- A number is never given twice, so a reader who stands behind the last row misses no later one.
create table {table} (duly_row integer primary key autoincrement, {columns}{keyed})

-- create_keys
-- Which call made which row, beside the tables: their columns are people's own.
create table if not exists duly_keys (table_name text, key text, row integer not null, primary key (table_name, key)) without rowid

-- find_key
select row from duly_keys where table_name = ? and key = ?

-- insert_key
insert into duly_keys (table_name, key, row) values (?, ?, ?)

-- create_index
-- For a unique column of the user's: it is looked up before every insert.
create index if not exists {index} on {table} ({column})

-- add_key_column
-- Only where the settings ask for it (key_column).
alter table {table} add column duly_key text

-- create_key_index
create unique index if not exists {index} on {table} (duly_key)

-- find_number
select rowid from {table} where {column} = ? order by rowid limit 1

-- find_row
select rowid, {columns} from {table} where {column} = ? order by rowid limit 1

-- page_rows
-- One more than a page is asked for, to know whether there are more.
select rowid, {columns} from {table} where rowid > ? {where} order by rowid limit ?

-- last_number
select rowid from {table} order by rowid desc limit 1

-- insert_row
insert into {table} ({columns}) values ({places}) returning rowid
