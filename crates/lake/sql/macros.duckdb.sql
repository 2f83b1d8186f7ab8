-- Functions for queries of your own, in DuckDB's words.

-- Gigabytes a second.
create or replace macro bandwidth(bytes, ns) as bytes / nullif(ns, 0);
-- How long two stretches have in common, in ns.
create or replace macro overlap(start_a, end_a, start_b, end_b) as
    greatest(0, least(end_a, end_b) - greatest(start_a, start_b));
-- The time covered by the rows of a table or view with start_ns and end_ns: overlaps count once.
create or replace macro union_time(name) as table
    with ordered as (
        select start_ns, end_ns,
               max(end_ns) over (order by start_ns, end_ns rows between unbounded preceding and 1 preceding) as before_ns
        from query_table(name)
    )
    select coalesce(sum(greatest(0, end_ns - greatest(start_ns, coalesce(before_ns, start_ns)))), 0) as ns from ordered;
