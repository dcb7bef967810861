-- What the connection of `duly sql` asks of the schema when it is opened.
-- Format as in queries.sql.

-- view_text
-- How a documented view is made (H1).
select sql from sqlite_schema where type = 'view' and name = :name

-- view_columns
-- The columns of a view, in their order.
select name from pragma_table_info(:name)

-- list_tables
-- Every table, to know those that no documented view reads.
select name from sqlite_schema where type = 'table'

-- hide_view
-- A virtual table, whose rows come from a server, behind the view that takes secrets out (H1).
create virtual table temp.{} using {}({})

-- shape_view
-- Which columns such a table has.
create table shown ({})
