-- Functions by total time: calls, total, median, 99th percentile, longest.
with times as (
    -- Counted by duration first: the quantiles of a billion calls need no more memory than those of a thousand.
    select layer, name, duration_ns, count(*) as n
    from calls where duration_ns is not null
    group by layer, name, duration_ns
), ranked as (
    select layer, name, duration_ns, n,
           sum(n) over (partition by layer, name order by duration_ns rows between unbounded preceding and current row) as upto,
           sum(n) over (partition by layer, name) as calls
    from times
)
select layer, name, cast(max(calls) as bigint) as calls,
       round(sum(duration_ns * n) / 1e6, 3) as total_ms,
       round(min(case when upto >= 0.5 * calls then duration_ns end) / 1e3, 3) as p50_us,
       round(min(case when upto >= 0.99 * calls then duration_ns end) / 1e3, 3) as p99_us,
       round(max(duration_ns) / 1e3, 3) as max_us
from ranked
group by layer, name
order by total_ms desc, layer, name
limit 20
